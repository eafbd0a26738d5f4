"""A run folder as plain Python."""

from pathlib import Path

import pytest

from claims.recording import Recording, open_recording
from history.errors import EvidenceError
from history.events import Event
from tests.claims.rows import ORDERS, line, ns, recording, state, still
from tests.evidence import folders


def test_a_line_as_evidence_knows_no_machine() -> None:
    """A log line as evidence keeps the broker's folder and drops the path above it."""
    text = "[Log partition=orders-0, dir=/home/me/runs/r/work/broker-3/data] x"
    told = line(1, "truncating", 3, leo=4) | {"text": text}

    assert recording().said(told).text == "[Log partition=orders-0, dir=broker-3/data] x"
    assert recording().said(told).source == "brokers/broker-3/server.log:1"


def test_a_leader_is_believed_in_its_own_epochs() -> None:
    """A leader's samples count only in its epochs; the state at a moment is the last one before it."""
    told = recording([*still(1, 0, 1, 5, 5), *still(1, 3, 4, 5, 7)], [state(0), state(2, leader=2, epoch=1)])

    assert {sample.leo for sample in told.lead(ORDERS)} == {5, 7}
    later = recording(still(1, 3, 4, 5, 7, epoch=1), [state(0), state(2, leader=2, epoch=1)])
    assert later.lead(ORDERS) == []
    assert (told.state_at(ORDERS, ns(1)), told.state_at(ORDERS, ns(-1))) == (told.states[ORDERS][0], None)


def test_a_fault_lasts_until_its_heal() -> None:
    """A fault lasts until it is healed on the same brokers, or else until the last event."""
    events = [
        Event(1, "", "injected", "p", "pause", "broker-2, broker-3"),
        Event(5, "", "heal", "p", "pause", "broker-2"),
        Event(7, "", "heal", "p", "pause", "broker-2, broker-3"),
        Event(8, "", "injected", "p", "pause", "broker-2"),
        Event(9, "", "collected"),
    ]

    assert list(Recording(events=events).faults("pause")) == [(2, 1, 7), (3, 1, 7), (2, 8, 9)]


def test_a_run_folder_is_opened(tmp_path: Path) -> None:
    """A run folder is read without failed samples; live and final reads are separate, and DEBUG lines yield LEOs."""
    history = folders.clean()
    history.events = [{"t_ns": 1, "wall": "", "kind": "run_started"}]
    folder = history.write(tmp_path / "run", seal=False)
    wall = "2026-01-01T00:00:01.000"
    (folder.path / "clock.jsonl").write_text(f'{{"t_ns": 5000000000, "wall": "{wall}+00:00"}}\n')
    debug = f"{wall}+0000 [t] DEBUG kafka.cluster.Partition - [Partition orders-0 broker=1] "
    log = folder.brokers / "broker-1" / "server.log"
    log.write_text(f"{debug}Recorded replica 2 log end offset (LEO) position 7.\n{debug}Something else\n")
    folder.seal()
    told = open_recording(folder.path)

    assert (told.kafka, told.mode, told.effective_min_isr) == ("4.3.0", "kraft", {"orders": 2})
    assert told.settings["replica.lag.time.max.ms"] == "3000"
    assert [(note.where, note.leader, note.follower, note.leo, note.t_ns) for note in told.remotes] == [
        (ORDERS, 1, 2, 7, 5_000_000_000)
    ]
    assert len(told.samples[ORDERS]) == sum(row["error"] is None for row in history.replicas)
    assert len(told.polls) + len(told.final) == len(history.polls)
    assert {row["pass"] for row in told.final} == {"final"}
    assert told.data[1] == folder.brokers / "broker-1" / "data"


def test_what_the_judge_finds_in_a_run_folder_is_told(tmp_path: Path) -> None:
    """Overwritten records are lost according to the judge; a complete run has no findings."""
    whole, cut = folders.clean(), folders.truncated()

    assert open_recording(whole.write(tmp_path / "whole").path).found == {}
    told = open_recording(cut.write(tmp_path / "cut").path)
    assert {row.source for row in told.against("lost_write")} == {"verdict/anomalies/"}
    assert told.against("duplicate") == []


def test_a_record_that_was_altered_answers_no_claim(tmp_path: Path) -> None:
    """A run folder that was altered or not sealed answers no claim."""
    folder = folders.clean().write(tmp_path / "altered")
    (folder.brokers / "broker-1" / "server.log").write_text("Something else\n")
    unsealed = folders.clean().write(tmp_path / "unsealed", seal=False)

    with pytest.raises(EvidenceError, match=r"server\.log was changed after sealing"):
        open_recording(folder.path)
    with pytest.raises(EvidenceError, match="no run folder that was collected"):
        open_recording(unsealed.path)
