"""Wall-clock times of brokers' files on the run's monotonic clock."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median_low

NEIGHBOURS = 2  # pairs on each side: one pair may have been torn apart by a busy scheduler
CLOSE_NS = 10_000_000_000  # a pair each second, and brokers write some seconds before the first
SET_NS = 1_000_000_000  # pairs that differ by more are from before and after somebody set the host's clock


@dataclass(frozen=True)
class Clock:
    """Pairs of one moment on both clocks, in order: (wall_ns since 1970, t_ns)."""

    pairs: Sequence[tuple[int, int]]

    def monotonic_ns(self, wall_ns: int) -> int | None:
        """The monotonic time of a wall-clock time; None when the run recorded no pair, or the clock was set near it."""
        at = bisect_left(self.pairs, (wall_ns, 0))
        near = self.pairs[max(at - NEIGHBOURS, 0) : at + NEIGHBOURS]
        close = [pair for pair in near if abs(pair[0] - wall_ns) <= CLOSE_NS]
        apart = [wall - t for wall, t in close or near]
        if not apart or max(apart) - min(apart) > SET_NS:
            return None
        return wall_ns - median_low(apart)

    @property
    def sets(self) -> list[tuple[int, int]]:
        """When the host's clock was set meanwhile, and by how much: (t_ns, by_ns), by_ns < 0 where it was set back. A
        single pair that was torn apart is none.
        """
        pairs = sorted(self.pairs, key=lambda pair: pair[1])
        apart = [wall - t for wall, t in pairs]
        found = []
        for at in range(NEIGHBOURS, len(pairs) - NEIGHBOURS + 1):
            before, after = apart[at - NEIGHBOURS : at], apart[at : at + NEIGHBOURS]
            by_ns = after[0] - before[-1]
            if min(after) - max(before) > SET_NS or min(before) - max(after) > SET_NS:
                found.append((pairs[at][1], by_ns))
        return found


def read_clock(file: Path) -> Clock:
    """The clock of a run folder's ``clock.jsonl``; a missing file or a torn line gives fewer pairs."""
    pairs = []
    for line in file.read_text(errors="replace").splitlines() if file.is_file() else ():
        try:
            pair = json.loads(line)
            pairs.append((wall_ns(datetime.fromisoformat(pair["wall"])), int(pair["t_ns"])))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
    return Clock(sorted(pairs))


def wall_ns(moment: datetime) -> int:
    """Nanoseconds since 1970, without the rounding of a float."""
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000
