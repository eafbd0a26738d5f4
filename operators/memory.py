"""Whether memory ran out: the kernel then ends a process without a word, whichever has the most."""

from __future__ import annotations

import re
from pathlib import Path

VMSTAT = Path("/proc/vmstat")


def ended_for_memory() -> int:
    """How many processes the kernel has ended for want of memory since this host started; 0 where it does not say."""
    told = re.search(r"^oom_kill (\d+)$", VMSTAT.read_text() if VMSTAT.exists() else "", re.MULTILINE)
    return int(told[1]) if told else 0


def memory_ran_out(ended_before: int) -> str:
    """A sentence where the kernel has ended more than it had before, else nothing."""
    ended = ended_for_memory() - ended_before
    if ended <= 0:
        return ""
    return (
        f"Memory ran out meanwhile, and the kernel ended {ended} process{'es' * (ended > 1)} of this host; give it "
        "more memory, or the brokers smaller heaps (cluster.heap)."
    )
