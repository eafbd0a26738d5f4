"""Memory of child processes."""

from __future__ import annotations

import subprocess
import sys

from bench.memory import Memory
from clusters.waiting import wait_until

HOLDS = "held = bytearray(b'x') * 50_000_000; print(flush=True); input()"


def test_children_count_together_and_their_parent_does_not() -> None:
    """Two that hold 50 MB each use 100 MB and more; without children nothing is used."""
    with Memory() as memory:
        pass
    assert memory.peak_mb == 0

    children = [
        subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)
    ]
    for child in children:
        assert child.stdout
        child.stdout.readline()
    with Memory() as memory:
        wait_until(lambda: memory.peak_mb, limit_s=10, what="a look at the children")
    for child in children:
        child.communicate(b"\n")

    assert 100 <= memory.peak_mb < 200
