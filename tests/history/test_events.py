"""The run's event log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from history.events import Event, EventLog, read_events


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    """A log without a file yet."""
    return EventLog(tmp_path / "events.jsonl")


def test_what_is_added_is_read(log: EventLog) -> None:
    """In order, with every field, the details as an object."""
    written = [
        log.add("phase_started", phase="leader dies", index=1),
        log.add("inject", phase="leader dies", step="kill", target="broker-1", asked="kill node A"),
    ]

    assert written == list(read_events(log.path))
    assert written[1].detail == {"asked": "kill node A"}
    assert written[0].t_ns <= written[1].t_ns


def test_a_detail_of_any_kind_becomes_text(log: EventLog) -> None:
    """An event is never lost because a detail is no JSON."""
    log.add("error", why=HarnessPath("/x"))

    assert [event.detail["why"] for event in read_events(log.path)] == ["at /x"]


class HarnessPath:
    """No JSON."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __str__(self) -> str:
        return f"at {self.path}"


def test_a_line_break_stays_inside_its_event(log: EventLog) -> None:
    """One event is one line whatever its texts hold."""
    log.add("error", why="first\nsecond")
    log.add("collected")

    assert [event.kind for event in read_events(log.path)] == ["error", "collected"]


def test_a_torn_last_line_is_left_out(log: EventLog) -> None:
    """At every byte: the event before it stays, and the torn one comes back only when it is whole."""
    log.add("quiesced")
    first = log.path.read_bytes()
    log.add("collected")
    whole = log.path.read_bytes()
    for size in range(len(first), len(whole) + 1):
        log.path.write_bytes(whole[:size])

        assert len(list(read_events(log.path))) == (2 if size == len(whole) else 1)


def test_two_writers_share_a_file(log: EventLog) -> None:
    """Tasks of one run append to the same file by turns."""
    other = EventLog(log.path)
    log.add("phase_started", phase="steady")
    other.add("node_exited", target="producer")
    log.add("phase_ended", phase="steady")

    assert [event.kind for event in read_events(log.path)] == ["phase_started", "node_exited", "phase_ended"]


def test_a_damaged_line_in_the_middle_is_an_error(log: EventLog) -> None:
    """Only the last line may be torn; anything else is no evidence."""
    log.path.write_text('{"t_ns": 1, "wa\n' + json.dumps(vars(Event(1, "w", "collected"))) + "\n")

    with pytest.raises(ValueError, match="control character"):
        list(read_events(log.path))
