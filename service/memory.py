"""Detect that memory ran out: the kernel then kills the largest process without a message."""

from __future__ import annotations

import re
from pathlib import Path

VMSTAT = Path("/proc/vmstat")


def ended_for_memory() -> int:
    """Return how many processes the kernel has killed for memory since boot; 0 if unknown."""
    told = re.search(r"^oom_kill (\d+)$", VMSTAT.read_text() if VMSTAT.exists() else "", re.MULTILINE)
    return int(told[1]) if told else 0


def memory_ran_out(ended_before: int) -> str:
    """Return a sentence if the kernel killed more than before."""
    ended = ended_for_memory() - ended_before
    if ended <= 0:
        return ""
    return (
        f"Memory ran out meanwhile, and the kernel ended {ended} process{'es' * (ended > 1)} of this host; give it "
        "more memory, or the brokers smaller heaps (cluster.heap)."
    )
