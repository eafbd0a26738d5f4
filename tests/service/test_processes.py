"""Processes are found by descent and by environment, and killed only if they are still the same ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from clusters.waiting import wait_until
from service.processes import kill, kill_descendants, lives, with_variable

FAMILY = "import subprocess; subprocess.run(['sleep', '60'], start_new_session=bool({apart}))"


@pytest.fixture(params=[0, 1], ids=["same session", "session of its own"])
def family(request: pytest.FixtureRequest) -> Iterator[tuple[psutil.Popen, psutil.Process]]:
    """A Python process in another session, with a sleeping child."""
    program = FAMILY.format(apart=request.param)
    with psutil.Popen([sys.executable, "-c", program], start_new_session=True) as parent:
        (child,) = wait_until(parent.children, limit_s=10, what="a child")
        yield parent, child
        kill([child, parent])


def test_descendants_die_alone(family: tuple[psutil.Popen, psutil.Process]) -> None:
    """``kill_descendants`` kills grandchildren in any session, but not this process."""
    parent, child = family
    kill_descendants(psutil.Process())

    assert parent.wait(10) == -9
    wait_until(lambda: not lives(child), limit_s=10, what="the child to end")


def test_whoever_was_given_the_pid_since_lives() -> None:
    """A process that reused the pid is not killed; the creation time differs."""
    with subprocess.Popen(["sleep", "60"]) as stranger:
        ended = psutil.Process(stranger.pid)
        ended._ident = (stranger.pid, ended._ident[1] - 60)
        kill([ended])
        stranger.terminate()
        assert stranger.wait(10) == -15


def test_processes_are_found_by_their_environment() -> None:
    """Processes are found by name and value of an environment variable."""
    with subprocess.Popen(["sleep", "60"], env=os.environ | {"COLOUR": "blue-7"}) as sleeper:
        wait_until(lambda: with_variable("COLOUR", "blue-7"), limit_s=10, what="the sleeper")
        assert [process.pid for process in with_variable("COLOUR", "blue-7")] == [sleeper.pid]
        assert with_variable("COLOUR", "blue") == []
        sleeper.kill()
    assert with_variable("COLOUR", "blue-7") == []
