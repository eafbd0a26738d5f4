"""A run on a cluster of others is judged by its clients and the offsets, and lists what that leaves open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

import pytest

from evidence.profiles import attached
from evidence.run import open_folder
from history.folder import RunFolder
from history.manifest import ATTACHED
from judge.run import judge_run, not_judged, one_by_one
from judge.verdict.decided import decided, forbidden
from tests.evidence.folders import MS, History, S, clean, polled, sample, sent, truncated

LEADERS = ATTACHED - {"followers"}


class Found(NamedTuple):
    """What is missing, the cases that violate a guarantee, those that are undecided, and the invariants' verdicts."""

    missing: list[str]
    cases: dict[str, int]
    undecided: dict[str, str]
    invariants: dict[str, str]
    not_judged: list[str]
    explanations: list[str]

    @property
    def passes(self) -> bool:
        """Return whether nothing is missing, undecided or violated."""
        return not self.missing and not self.cases and set(self.invariants.values()) == {"pass"}


def attach(history: History, evidence: frozenset[str] = ATTACHED, **settings: Any) -> History:
    """Return a history as it is recorded on a cluster of others."""
    own = {"origin": "attached", "evidence": evidence, "kafka_version": "unknown", "scenario": {"phases": []}}
    leaders = [row for row in history.replicas if row["broker_id"] == 1]
    return replace(
        history,
        manifest=history.manifest.model_copy(update=own | settings),
        replicas=history.replicas if "followers" in evidence else leaders,
        logs={},
    )


def judged(folder: RunFolder) -> Found:
    """Judge a folder without Spark."""
    run = open_folder(folder)
    found = judge_run(run, one_by_one)
    counts = found.tables["anomaly_counts"].to_pylist()
    return Found(
        [why for _, why in [*found.items, *decided(run.manifest, found.tables)] if why],
        {name: cases for name, cases in forbidden(counts).items() if cases},
        {row["anomaly"]: row["undecided"] for row in counts if row["undecided"]},
        {row["invariant"]: row["verdict"] for row in found.tables["invariants"].to_pylist()},
        not_judged(run, found.tables),
        [row["explanation"] for row in found.tables["anomalies"].to_pylist()],
    )


def test_a_healthy_run_passes_and_lists_what_it_cannot_show(tmp_path: Path) -> None:
    """Checks of the controller's history, of logs and of restarts are not made, and all others pass."""
    found = judged(attach(clean()).write(tmp_path / "run"))
    assert found.passes
    assert {"I1", "I2", "I3", "I6"} <= found.invariants.keys()
    assert {"I4", "I7", "I12", "I15", "I16", "I19", "I20", "I21", "source_disagreement"} <= set(found.not_judged)
    assert not {"lost_write", "duplicate", "precommitted_read", *found.invariants} & set(found.not_judged)


def test_lost_records_are_found_without_logs(tmp_path: Path) -> None:
    """A record that the drain passed is lost, and its explanation names the sources that the run lacks."""
    history = attach(clean())
    del history.polls[20]
    found = judged(history.write(tmp_path / "run"))
    assert found.cases == {"lost_write": 1}
    assert "Not recorded: segments, epoch files, server logs and the controller's history" in found.explanations[0]


@pytest.mark.parametrize(("end", "kind"), [(50, "truncated_ack"), (51, "unseen")])
def test_a_record_above_every_log_end_is_lost(tmp_path: Path, end: int, kind: str) -> None:
    """A record that no replica can have is lost; if one log may reach it, it is undecided."""
    history = attach(clean())
    history.sends.append(sent(50, offset=50))
    history.replicas.append(sample(3, 30 * S, 50, end))
    found = judged(history.write(tmp_path / "run"))
    assert found.cases == {kind: 1}
    assert bool(found.missing) is (kind == "unseen")


def test_losses_of_acks_1_are_undecided_without_the_history(tmp_path: Path) -> None:
    """The leader change that would permit them is not recorded, so that they are neither permitted nor forbidden."""
    found = judged(attach(truncated(), faults=[]).write(tmp_path / "run"))
    assert found.undecided["lost_write"] == "the controller's history of orders-0 is missing"
    assert not found.cases
    assert any("is unknown" in why for why in found.missing)


@pytest.mark.parametrize("table", ["sends", "polls", "replicas", "isr", "offsets"])
def test_no_run_passes_without_one_of_its_tables(tmp_path: Path, table: str) -> None:
    """Each table that is deleted leaves something open."""
    folder = attach(clean()).write(tmp_path / "run")
    rmtree(folder.table(table))
    assert not judged(folder).passes


def test_a_fault_without_proof_leaves_the_run_unknown(tmp_path: Path) -> None:
    """A fault of the scenario that no event proves is missing evidence, as on Plimsoll's own clusters."""
    found = judged(attach(clean(), faults=["kill"]).write(tmp_path / "run"))
    assert found.missing == ["The scenario has 1 x kill, and 0 of them took effect."]


def test_leaders_alone_show_less_and_still_a_violation(tmp_path: Path) -> None:
    """Invariants of every replica are not judged, but a leader that violates one does."""
    healthy = judged(attach(clean(), LEADERS).write(tmp_path / "healthy"))
    assert healthy.passes
    assert {"I1", "I2", "I6"} <= set(healthy.not_judged)
    assert "I3" in healthy.invariants

    history = attach(clean(), LEADERS)
    history.replicas.append(sample(1, 20 * S + 1, 60, 50))
    wrong = judged(history.write(tmp_path / "wrong"))
    assert wrong.invariants["I2"] == "fail"
    assert "I2" not in wrong.not_judged


def test_an_unclean_election_may_have_been(tmp_path: Path) -> None:
    """If the topic permits one, the checks of committed records are listed as not judged; the others pass."""
    history = attach(clean(config={"unclean.leader.election.enable": "true"}))
    found = judged(history.write(tmp_path / "run"))
    assert found.passes
    assert "I6" in found.not_judged
    assert not {"I1", "I3"} & set(found.not_judged)


def test_copies_of_a_producer_that_gave_up_are_undecided(tmp_path: Path) -> None:
    """Only the segments show the copies' producer epochs; a producer that got every answer has no excuse."""
    for name, answers, lacks in (("gave up", 1, True), ("answered", 0, False)):
        history = attach(clean())
        history.polls.append(polled(50, 7))
        history.end_offset = 51
        words = {"role": "producer", "clean": True, "rows": 50, "last_seq": 49, "indeterminate": answers}
        history.clients = {"load-1": words}
        found = judged(history.write(tmp_path / name))
        assert ("duplicate" in found.undecided, "duplicate" in found.cases) == (lacks, not lacks)


def test_others_may_move_a_leader_at_any_time(tmp_path: Path) -> None:
    """A hanging transaction needs a time without an outage: a broker's silence counts as one."""
    for name, error, cases in (("quiet", None, {"hanging_transaction": 1}), ("restart", "unreachable", {})):
        history = attach(clean(transaction_timeout_ms=1_000))
        history.sends = [row | {"transaction": 0} for row in history.sends]
        for second in range(20, 60):
            history.replicas.append(sample(1, second * S, 50, 50, last_stable_offset=49))
        silent = dict.fromkeys(("leader_epoch", "log_start_offset", "high_watermark", "log_end_offset", "single_reply"))
        history.replicas += [sample(2, t * S + MS, 50, 50) | silent | {"error": error} for t in (25, 35, 45) if error]
        found = judged(history.write(tmp_path / name))
        assert {name: count for name, count in found.cases.items() if name == "hanging_transaction"} == cases


def test_the_words_name_the_evidence() -> None:
    """Followers that were not queried, and what hooks delivered, are in the profile's words."""
    assert attached(ATTACHED).words == "clients and the offsets of every replica"
    assert attached(LEADERS).words == "clients and leader offsets"
    assert (
        attached(ATTACHED | {"segments", "server logs"}).words
        == "clients, the offsets of every replica, segments and server logs"
    )
