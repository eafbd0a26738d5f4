"""``events.jsonl``: a line for each thing that the run did or saw; ``stages.jsonl``: the same for its stages.

A line is ``{"t_ns", "wall", "kind", "phase", "step", "target", "detail"}``; ``detail`` is an object.
docs/run-folder.md says which kinds there are, and when each is written.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from history.errors import EvidenceError, reason_of
from history.folder import RunFolder


@dataclass(frozen=True)
class Event:
    """One line of ``events.jsonl``."""

    t_ns: int
    wall: str
    kind: str
    phase: str = ""
    step: str = ""
    target: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EventLog:
    """Appends events; every line is one ``write`` to a file opened for append, so that writers may share it.

    What comes after a line that was torn begins a line of its own.
    """

    path: Path

    def add(self, kind: str, *, phase: str = "", step: str = "", target: str = "", **detail: Any) -> Event:
        """Append an event.

        Raises:
            OSError: it could not be written whole.
        """
        event = Event(time.monotonic_ns(), datetime.now(UTC).isoformat(), kind, phase, step, target, detail)
        line = json.dumps(vars(event), default=str, separators=(",", ":")).encode() + b"\n"
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            written = os.write(descriptor, line)
        except OSError as error:  # the system does not say of which file
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        finally:
            os.close(descriptor)
        if written < len(line):
            raise OSError(
                f"{self.path}: {written} of an event's {len(line)} bytes were written; make room on its disk."
            )
        return event


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of a run in the order in which they were written.

    A torn last line is left out; of any other line that cannot be read there is an ``error`` in its place.

    Raises:
        EvidenceError: a line is whole, and no event.
    """
    t_ns = 0
    with path.open(errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return
            try:
                event = _event(json.loads(line), f"Line {number} of {path.name}")
            except (ValueError, RecursionError) as error:
                event = Event(
                    t_ns, "", "error", detail={"why": f"Line {number} of {path.name} cannot be read: {error}."}
                )
            t_ns = event.t_ns
            yield event


def _event(told: Any, where: str) -> Event:
    """A line's event; one that is something else was not torn: somebody else wrote it."""
    texts = ("wall", "kind", "phase", "step", "target")
    if (
        not isinstance(told, dict)
        or not {"t_ns", "wall", "kind"} <= told.keys() <= {"t_ns", *texts, "detail"}
        or type(told["t_ns"]) is not int
        or not all(isinstance(told.get(name, ""), str) for name in texts)
        or not isinstance(told.get("detail", {}), dict)
    ):
        raise EvidenceError(f"{where} is no event: {json.dumps(told):.200}.")
    return Event(**told)


def errors_of(run: RunFolder) -> list[str]:
    """Why the harness broke, in the words of the run's events; empty when it did not."""
    if not run.events.exists():
        return []
    return [str(event.detail.get("why", "")) for event in read_events(run.events) if event.kind == "error"]


@contextmanager
def recorded(run: Path, step: str, phase: str = "") -> Iterator[None]:
    """Write what breaks inside into the run's events, so that the judge hears of it, and let it pass on."""
    try:
        yield
    except BaseException as error:  # time-outs and interrupts of tasks are no Exception
        folder = RunFolder(run)
        why = reason_of(error)
        if not folder.is_sealed and not {why, str(error)}.intersection(errors_of(folder)):
            EventLog(folder.events).add("error", phase=phase, step=step, why=why)
        raise


@contextmanager
def stage_events(file: Path, stage: str, target: str = "") -> Iterator[None]:
    """Write into ``stages.jsonl`` that a stage begins, and how it ended: its state, why it failed, and its seconds."""
    log, began_s = EventLog(file), time.monotonic()
    log.add("stage_started", step=stage, target=target)
    state: dict[str, str] = {"state": "success"}
    try:
        yield
    except BaseException as error:  # time-outs and interrupts of tasks are no Exception
        state = {"state": "failed", "why": reason_of(error)}
        raise
    finally:
        log.add("stage_ended", step=stage, target=target, **state, seconds=round(time.monotonic() - began_s, 3))
