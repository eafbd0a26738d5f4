"""The run's event log."""

from __future__ import annotations

from pathlib import Path

import pytest

from history import events
from history.errors import EvidenceError
from history.events import EventLog, errors_of, read_events
from history.folder import RunFolder


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    """A log without a file yet."""
    return EventLog(tmp_path / "events.jsonl")


def test_what_is_added_is_read(log: EventLog) -> None:
    """Added events are read in order, with every field and the details as an object."""
    written = [
        log.add("phase_started", phase="leader dies", index=1),
        log.add("inject", phase="leader dies", step="kill", target="broker-1", asked="kill node A"),
    ]

    assert written == list(read_events(log.path))
    assert written[1].detail == {"asked": "kill node A"}
    assert written[0].t_ns <= written[1].t_ns


def test_a_detail_of_any_kind_becomes_text(log: EventLog) -> None:
    """A detail of any type becomes text, so that its event is kept."""
    log.add("error", why=HarnessPath("/x"))

    assert [event.detail["why"] for event in read_events(log.path)] == ["at /x"]


class HarnessPath:
    """A value that JSON cannot represent."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __str__(self) -> str:
        return f"at {self.path}"


def test_a_line_break_stays_inside_its_event(log: EventLog) -> None:
    """An event is one line, whatever its texts contain."""
    log.add("error", why="first\nsecond")
    log.add("collected")

    assert [event.kind for event in read_events(log.path)] == ["error", "collected"]


def test_a_torn_last_line_is_left_out(log: EventLog) -> None:
    """A last line torn at any byte is skipped, and the events before it remain."""
    log.add("quiesced")
    first = log.path.read_bytes()
    log.add("collected")
    whole = log.path.read_bytes()
    for size in range(len(first), len(whole) + 1):
        log.path.write_bytes(whole[:size])

        assert len(list(read_events(log.path))) == (2 if size == len(whole) else 1)


def test_two_writers_share_a_file(log: EventLog) -> None:
    """Two writers append to the same file in turn."""
    other = EventLog(log.path)
    log.add("phase_started", phase="steady")
    other.add("node_exited", target="producer")
    log.add("phase_ended", phase="steady")

    assert [event.kind for event in read_events(log.path)] == ["phase_started", "node_exited", "phase_ended"]


def test_a_damaged_line_in_the_middle_is_an_error(log: EventLog) -> None:
    """A damaged line in the middle is read as an error event with its time, and the others are read."""
    log.add("run_started")
    whole = log.path.read_text()
    log.path.write_text(whole + '{"t_ns": 1, "wa\n' + whole)
    first, error, last = read_events(log.path)

    assert (first, last) == (last, first)
    assert (error.kind, error.t_ns) == ("error", first.t_ns)
    assert error.detail["why"].startswith("Line 2 of events.jsonl cannot be read: ")
    assert errors_of(RunFolder(log.path.parent)) == [error.detail["why"]]


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[]",
        '{"t_ns": "5", "wall": "", "kind": "heal"}',
        '{"t_ns": 5, "wall": "", "kind": null}',
        '{"t_ns": 5, "wall": "", "kind": "heal", "detail": "x"}',
        '{"t_ns": 5, "wall": "", "kind": "heal", "colour": "red"}',
    ],
)
def test_a_line_that_is_no_event_is_refused(log: EventLog, line: str) -> None:
    """A complete line that is no event is rejected."""
    log.path.write_text(line + "\n")

    with pytest.raises(EvidenceError, match=r"^Line 1 of events\.jsonl is no event: "):
        list(read_events(log.path))


def test_a_torn_line_does_not_take_the_next_one_with_it(log: EventLog) -> None:
    """An event written after a torn line begins a new line; after a complete line there is no empty one."""
    log.add("run_started")
    log.path.write_bytes(log.path.read_bytes()[:-9])
    log.add("inject")
    log.add("heal")

    assert [event.kind for event in read_events(log.path)] == ["error", "inject", "heal"]


def test_an_event_that_was_written_in_part_is_told(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partial write of an event raises an error, and the next event is readable."""
    write = events.os.write
    monkeypatch.setattr(events.os, "write", lambda descriptor, line: write(descriptor, line[:20]))

    with pytest.raises(OSError, match=r"events.jsonl: 20 of an event's \d+ bytes were written; make room"):
        log.add("inject")
    monkeypatch.undo()
    log.add("heal")
    assert [event.kind for event in read_events(log.path)] == ["error", "heal"]
