"""Tests of clusters.attached.incidents."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.attached import incidents
from clusters.attached.incidents import Incidents
from clusters.kafka.probe import INCONSISTENT_TOPIC_ID, ReplicaSample, Tick
from history.events import EventLog, read_events

S = 1_000_000_000


def tick(at_s: int, error: str | None = None, topic: str = "orders") -> Tick:
    """Return broker 2's tick with one sample."""
    return Tick(2, [ReplicaSample(topic, 0, at_s * S, at_s * S, error=error)], None)


def recorded(folder: Path, *ticks: Tick) -> list[tuple[str, dict[str, object]]]:
    """Return the events of these ticks."""
    log = EventLog(folder / "events.jsonl")
    incidents = Incidents(log, "watch")
    for each in ticks:
        incidents.add(each)
    incidents.end()
    return [(event.kind, dict(event.detail)) for event in read_events(log.path)] if log.path.is_file() else []


def test_a_silence_lasts_from_answer_to_answer(tmp_path: Path) -> None:
    """An error that the broker itself reports is an answer."""
    ticks = [tick(1), tick(3, "timeout"), tick(5, "unreachable"), tick(6, "NOT_LEADER_OR_FOLLOWER"), tick(7)]

    assert recorded(tmp_path, *ticks) == [("broker_silent", {"broker_id": 2, "seconds": 5.0, "error": "unreachable"})]


def test_a_silence_that_does_not_end_is_recorded(tmp_path: Path) -> None:
    """It ends with the watch; a broker that answers always has no event."""
    assert [kind for kind, _ in recorded(tmp_path, tick(1), tick(3, "timeout"))] == ["broker_silent"]


def test_a_silence_from_the_start_on_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lasts until the first answer; a later silence is not from the start on."""
    monkeypatch.setattr(incidents.time, "monotonic_ns", lambda: 0)
    ticks = [tick(1, "unreachable"), tick(4), tick(5, "timeout"), tick(6)]

    first, second = (detail for _, detail in recorded(tmp_path, *ticks))
    assert first == {"broker_id": 2, "seconds": 4.0, "error": "unreachable", "since_start": True}
    assert second == {"broker_id": 2, "seconds": 2.0, "error": "timeout"}


def test_a_broker_that_answers_has_no_incident(tmp_path: Path) -> None:
    """Nor has a broker without replicas."""
    assert recorded(tmp_path, tick(1), Tick(3, [], None), tick(2)) == []


def test_a_topic_that_is_made_anew_is_recorded_once(tmp_path: Path) -> None:
    """Each broker finds it in each tick."""
    anew = [tick(at_s, INCONSISTENT_TOPIC_ID) for at_s in (1, 2)]

    assert recorded(tmp_path, *anew, tick(2, topic="others")) == [("topic_made_anew", {"topic": "orders"})]
