"""Whether freed memory stays with its process."""

from __future__ import annotations

import subprocess
import sys

from clusters.paths import ROOT

_FAULTS = """
import resource
from clusters.clients import memory
{}
for number in range(101):
    if number == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    b"x" * (1 << 22)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(prepare: str) -> int:
    """How many pages a process is given while it takes and frees the same four megabytes a hundred times."""
    command = [sys.executable, "-c", _FAULTS.format(prepare)]
    return int(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


def test_freed_memory_is_used_again() -> None:
    """Without it the kernel gives and takes pages each time."""
    assert faults("memory.keep_freed_memory()") < 100 < faults("")
