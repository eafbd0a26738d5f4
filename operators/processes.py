"""Who descends from whom, read from /proc: what Airflow or Spark starts must not outlive its command."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """The pids of a process's own children; empty when it is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        lists = [(thread / "children").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
        return [int(child) for text in lists for child in text.split()]
    return []


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on; nearest first."""
    found: list[int] = []
    generation = children(pid)
    while generation:
        found += generation
        generation = [grandchild for child in generation for grandchild in children(child)]
    return found


def kill_tree(pid: int) -> None:
    """SIGKILL a process and its descendants; it is stopped first, so that it cannot start more of them."""
    send(signal.SIGSTOP, [pid])
    send(signal.SIGKILL, [*descendants(pid), pid])


def session_members(session: int) -> list[int]:
    """The pids of a session's processes that have not ended."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            # After the name in brackets, which may hold anything: state, parent, group, session.
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                members.append(int(stat.parent.name))
    return members


def with_variable(name: str, value: str) -> list[int]:
    """The pids of processes that were started with this environment variable and have not ended."""
    wanted = os.fsencode(f"{name}={value}")
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # gone, or another user's
            if wanted in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
    return found


def send(what: signal.Signals, pids: list[int]) -> None:
    """Signal processes; those that are gone are left out."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, what)
