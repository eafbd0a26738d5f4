"""Memory of child processes."""

from __future__ import annotations

import subprocess
import sys

HOLDS = "held = bytearray(b'x') * 50_000_000; print(flush=True); input()"
WATCHES = f"""
import subprocess, sys
from bench.memory import Memory
from clusters.waiting import wait_until

with Memory() as memory:
    pass
alone = memory.peak_mb
pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
children = [subprocess.Popen([sys.executable, "-c", {HOLDS!r}], **pipes) for _ in range(2)]
for child in children:
    child.stdout.readline()
with Memory() as memory:
    wait_until(lambda: memory.peak_mb, limit_s=10, what="a look at the children")
for child in children:
    child.communicate(b"\\n")
print(alone, memory.peak_mb)
"""


def test_children_count_together_and_their_parent_does_not() -> None:
    """Two that hold 50 MB each use 100 MB and more; without children nothing is used. Seen by a process that has no
    other children, as this one may have.
    """
    seen = subprocess.run([sys.executable, "-c", WATCHES], capture_output=True, text=True, check=True)
    alone, together = map(float, seen.stdout.split())

    assert alone == 0
    assert 100 <= together < 200
