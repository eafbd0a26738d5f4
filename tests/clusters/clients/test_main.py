"""What all client processes have in common: memory and signals."""

from __future__ import annotations

import subprocess
import sys

from clusters.paths import ROOT

_FAULTS = """
import resource
from clusters.clients import main
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
    assert faults("main.keep_freed_memory()") < 100 < faults("")


def test_a_signal_in_the_middle_of_a_wait_stops_the_client() -> None:
    """SIGTERM during a wait stops the client, even while Python holds the lock of the stop event."""
    interrupted = """
import signal
from clusters.clients.main import stop_on_sigterm
stop = stop_on_sigterm()
with stop._cond:
    signal.raise_signal(signal.SIGTERM)
    assert not stop.is_set()
assert stop.wait(10)
"""
    subprocess.run([sys.executable, "-c", interrupted], check=True, timeout=30)
