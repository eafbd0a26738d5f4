"""Processes are found by descent and by session."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from clusters.waiting import wait_until
from operators.processes import children, descendants, kill_tree, session_members

FAMILY = "import subprocess; subprocess.run(['sleep', '60'], start_new_session=bool({apart}))"


@pytest.fixture(params=[0, 1], ids=["same session", "session of its own"])
def family(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A Python in a session of its own, with one sleeping child."""
    program = FAMILY.format(apart=request.param)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    while not children(parent.pid):
        assert parent.poll() is None
    with parent:
        yield parent
        kill_tree(parent.pid)


def test_descendants(family: subprocess.Popen[bytes]) -> None:
    """A grandchild is one, whatever its session; a child comes before it."""
    found = descendants(os.getpid())

    assert found.index(family.pid) < found.index(children(family.pid)[0])


@pytest.mark.parametrize("family", [0], indirect=True)
def test_session_members(family: subprocess.Popen[bytes]) -> None:
    """Parent and child share the session, this process has another."""
    assert sorted(session_members(family.pid)) == sorted([family.pid, *children(family.pid)])
    assert family.pid not in session_members(os.getsid(0))


def test_a_killed_family_is_gone(family: subprocess.Popen[bytes]) -> None:
    """The child dies with its parent, and killing the dead is no error."""
    child = children(family.pid)[0]
    kill_tree(family.pid)

    assert family.wait(10) == -9
    assert wait_until(
        lambda: not session_members(child) and not session_members(family.pid), limit_s=10, what="both to end"
    )
    kill_tree(family.pid)
