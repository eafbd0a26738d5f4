"""``events.jsonl`` (actions and observations) and ``stages.jsonl``; see docs/run-folder.md."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
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
    """Append events by single writes in append mode, so that writers can share the file."""

    path: Path

    def add(self, kind: str, *, phase: str = "", step: str = "", target: str = "", **detail: Any) -> Event:
        event = Event(time.monotonic_ns(), datetime.now(UTC).isoformat(), kind, phase, step, target, detail)
        line = json.dumps(vars(event), default=str, separators=(",", ":")).encode() + b"\n"
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            written = os.write(descriptor, line)
        except OSError as error:  # add the file name
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        finally:
            os.close(descriptor)
        if written < len(line):
            raise OSError(
                f"{self.path}: {written} of an event's {len(line)} bytes were written; make room on its disk."
            )
        return event


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events; lines that are not JSON become ``error`` events, except a torn last one.

    Raises: EvidenceError: a line is no event.
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


def _event(row: Any, where: str) -> Event:
    texts = ("wall", "kind", "phase", "step", "target")
    if (
        not isinstance(row, dict)
        or not {"t_ns", "wall", "kind"} <= row.keys() <= {"t_ns", *texts, "detail"}
        or type(row["t_ns"]) is not int
        or not all(isinstance(row.get(name, ""), str) for name in texts)
        or not isinstance(row.get("detail", {}), dict)
    ):
        raise EvidenceError(f"{where} is no event: {json.dumps(row):.200}.")
    return Event(**row)


def errors_of(run: RunFolder) -> list[str]:
    """Return the reasons of a run's harness errors."""
    if not run.events.exists():
        return []
    return [str(event.detail.get("why", "")) for event in read_events(run.events) if event.kind == "error"]


@contextmanager
def recorded(run: Path, step: str, phase: str = "") -> Iterator[None]:
    """Record an exception as an ``error`` event and re-raise it."""
    try:
        yield
    except BaseException as error:  # timeouts and interrupts are no Exception
        folder = RunFolder(run)
        why = reason_of(error)
        if not folder.is_sealed and not {why, str(error)}.intersection(errors_of(folder)):
            EventLog(folder.events).add("error", phase=phase, step=step, why=why)
        raise


@contextmanager
def stage_events(file: Path, stage: str, target: str = "") -> Iterator[None]:
    """Record a stage's start, end, state and failure reason."""
    log, began_s = EventLog(file), time.monotonic()
    log.add("stage_started", step=stage, target=target)
    state: dict[str, str] = {"state": "success"}
    try:
        yield
    except BaseException as error:
        state = {"state": "failed", "why": reason_of(error)}
        raise
    finally:
        log.add("stage_ended", step=stage, target=target, **state, seconds=round(time.monotonic() - began_s, 3))


def notes_of_import(events: Iterable[Event]) -> list[str]:
    """Return an import's notes on its files, except missing data."""
    return [str(event.detail["message"]) for event in events if event.kind == "note"]
