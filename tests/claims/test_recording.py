"""A run folder as claims read it."""

from dataclasses import replace
from pathlib import Path

import pytest

from claims.recording import cases, checks, open_recording
from evidence.facts import PartitionFacts
from history.errors import EvidenceError
from history.events import Event
from judge.checks.premises import Premises
from judge.run import partition_facts
from tests.claims.rows import anomaly, checked, recording, state
from tests.evidence import folders
from tests.evidence.probed import WHERE


def test_a_fault_lasts_until_its_heal() -> None:
    """A fault lasts until it is healed on the same brokers, or else until the last event."""
    events = [
        Event(1, "", "injected", "p", "pause", "broker-2, broker-3"),
        Event(5, "", "heal", "p", "pause", "broker-2"),
        Event(7, "", "heal", "p", "pause", "broker-2, broker-3"),
        Event(8, "", "injected", "p", "pause", "broker-2"),
        Event(9, "", "collected"),
    ]
    faults = [(fault.broker_id, fault.from_ns, fault.until_ns) for fault in recording(events=events).faults("pause")]

    assert faults == [(2, 1, 7), (3, 1, 7), (2, 8, 9)]


def test_checks_count_as_examples_without_a_violation() -> None:
    """Checks are examples, violations are counterexamples, and an invariant without checks is neither."""
    given = recording(invariants=[checked("I1", 7), checked("I2", 7, violations=2), checked("I3", 0)])
    yielded = {name: [(case.holds, case.times) for case in checks(name, given)] for name in ("I1", "I2", "I3", "I4")}

    assert yielded == {"I1": [(True, 7)], "I2": [(False, 2), (True, 5)], "I3": [], "I4": []}


def test_cases_of_other_anomalies_do_not_count() -> None:
    """Only the named anomalies yield cases."""
    given = recording(anomalies=[anomaly("lost_write"), anomaly("duplicate")])

    assert [case.holds for case in cases(["lost_write"], given)] == [False]
    assert [case.holds for case in cases(["lost_write"], given, hold=True)] == [True]
    assert [*cases(["truncated_ack"], given)] == []


def test_partitions_without_a_history_are_left_out(tmp_path: Path) -> None:
    """A partition without a dated history answers no claim."""
    assert open_recording(folders.clean().write(tmp_path / "run").path).partitions == {}


@pytest.mark.parametrize(("partition_epoch", "answers"), [(0, True), (1, False)])
def test_a_partition_whose_history_begins_late_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_epoch: int, answers: bool
) -> None:
    """A history that begins with a snapshot answers no claim: its date is not that of a change."""
    begun = state(9, partition_epoch=partition_epoch)

    def with_history(premises: Premises) -> list[PartitionFacts]:
        return [replace(facts, states=[begun]) for facts in partition_facts(premises)]

    monkeypatch.setattr("claims.recording.partition_facts", with_history)
    folder = folders.clean().write(tmp_path / "run").path
    assert open_recording(folder).partitions.keys() == ({WHERE} if answers else set())


def test_what_the_judge_finds_in_a_run_folder_is_reported(tmp_path: Path) -> None:
    """Overwritten records are lost according to the judge; a complete run has no findings."""
    whole, cut = folders.clean(), folders.truncated()

    assert open_recording(whole.write(tmp_path / "whole").path).anomalies == []
    given = open_recording(cut.write(tmp_path / "cut").path)
    assert {row.source for case in cases(["lost_write"], given) for row in case.evidence} == {"verdict/anomalies/"}
    assert {row["invariant"] for row in given.invariants} >= {"I1", "I2"}


def test_a_record_that_was_altered_answers_no_claim(tmp_path: Path) -> None:
    """A run folder that was altered or not sealed answers no claim."""
    folder = folders.clean().write(tmp_path / "altered")
    (folder.brokers / "broker-1" / "server.log").write_text("Something else\n")
    unsealed = folders.clean().write(tmp_path / "unsealed", seal=False)

    with pytest.raises(EvidenceError, match=r"server\.log was changed after sealing"):
        open_recording(folder.path)
    with pytest.raises(EvidenceError, match="no run folder that was collected"):
        open_recording(unsealed.path)
