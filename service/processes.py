"""Find and kill what Airflow or Spark started, which must not outlive its command.

psutil identifies a process by pid and creation time, so it never signals a reused pid.
"""

from __future__ import annotations

from contextlib import suppress

import psutil


def lives(process: psutil.Process) -> bool:
    """Return whether a process runs; a zombie does not."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def kill(processes: list[psutil.Process]) -> None:
    """Send SIGKILL to processes; ignore ended ones."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def kill_descendants(process: psutil.Process) -> None:
    """Send SIGKILL to all descendants of a process."""
    with suppress(psutil.NoSuchProcess):
        kill(process.children(recursive=True))


def with_variable(name: str, value: str) -> list[psutil.Process]:
    """Return live processes with this environment variable, except other users'."""
    return [
        process for process in psutil.process_iter(["environ"]) if (process.info["environ"] or {}).get(name) == value
    ]
