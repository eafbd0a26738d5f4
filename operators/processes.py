"""Who descends from whom, and who belongs to a home: what Airflow or Spark starts must not outlive its command.

psutil knows a process by its pid and the time of its creation, and signals nobody who was given the pid since.
"""

from __future__ import annotations

from contextlib import suppress

import psutil


def lives(process: psutil.Process) -> bool:
    """Has it not ended, whether or not its parent has waited for it?"""
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def kill(processes: list[psutil.Process]) -> None:
    """SIGKILL processes; those that are gone are left out."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def kill_descendants(process: psutil.Process) -> None:
    """SIGKILL the children of a process, their children, and so on."""
    with suppress(psutil.NoSuchProcess):
        kill(process.children(recursive=True))


def kill_tree(process: psutil.Process) -> None:
    """SIGKILL a process and its descendants; it is stopped first, so that it cannot start more of them."""
    with suppress(psutil.NoSuchProcess):
        process.suspend()
        kill_descendants(process)
        process.kill()


def with_variable(name: str, value: str) -> list[psutil.Process]:
    """The processes that were started with this environment variable and have not ended; not another user's."""
    return [
        process for process in psutil.process_iter(["environ"]) if (process.info["environ"] or {}).get(name) == value
    ]
