"""Convert wall-clock times to the run's monotonic clock."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

NEIGHBOURS = 2  # pairs on each side; one may be split by the scheduler
CLOSE_NS = 10_000_000_000  # brokers write some seconds before the first pair
SET_NS = 50_000_000  # pairs on a busy host differed by at most 15 ms
TORN_NS = 1_000_000_000  # others make the time unknown
FOREVER_NS = 2**63 - 1


class _Stretch(NamedTuple):
    pairs: Sequence[tuple[int, int]]
    from_ns: int
    to_ns: int

    def monotonic_ns(self, wall_ns: int) -> int | None:
        at = bisect_left(self.pairs, (wall_ns, 0))
        near = self.pairs[max(at - NEIGHBOURS, 0) : at + NEIGHBOURS]
        close = [pair for pair in near if abs(pair[0] - wall_ns) <= CLOSE_NS]
        apart = [wall - t for wall, t in close or near]
        if not apart or max(apart) - min(apart) > TORN_NS:
            return None
        t_ns = wall_ns - median_low(apart)
        return t_ns if self.from_ns <= t_ns <= self.to_ns else None


@dataclass(frozen=True)
class Clock:
    """Sorted pairs (wall_ns since 1970, t_ns)."""

    pairs: Sequence[tuple[int, int]]

    def monotonic_ns(self, wall_ns: int) -> int | None:
        """Convert a time, None without pairs or near an adjustment."""
        found = [t_ns for each in self._stretches if (t_ns := each.monotonic_ns(wall_ns)) is not None]
        return found[0] if len(found) == 1 else None

    @property
    def sets(self) -> list[tuple[int, int]]:
        """Return adjustments as (t_ns, by_ns)."""
        return [(self._in_order[at][1], by_ns) for at, by_ns in self._set_at]

    @cached_property
    def _in_order(self) -> list[tuple[int, int]]:
        return sorted(self.pairs, key=lambda pair: pair[1])

    @cached_property
    def _set_at(self) -> list[tuple[int, int]]:
        apart = [wall - t for wall, t in self._in_order]
        found = []
        for at in range(NEIGHBOURS, len(apart) - NEIGHBOURS + 1):
            before, after = apart[at - NEIGHBOURS : at], apart[at : at + NEIGHBOURS]
            if min(after) - max(before) > SET_NS or min(before) - max(after) > SET_NS:
                found.append((at, after[0] - before[-1]))
        return found

    @cached_property
    def _stretches(self) -> list[_Stretch]:
        places, found = [0, *(at for at, _ in self._set_at), len(self._in_order)], []
        for begin, end in pairwise(places):
            from_ns = self._in_order[begin - 1][1] if begin else -FOREVER_NS
            to_ns = self._in_order[end][1] if end < len(self._in_order) else FOREVER_NS
            found.append(_Stretch(sorted(self._in_order[begin:end]), from_ns, to_ns))
        return found


def read_clock(file: Path) -> Clock:
    """Read ``clock.jsonl`` without torn lines."""
    pairs = []
    for line in file.read_text(errors="replace").splitlines() if file.is_file() else ():
        try:
            pair = json.loads(line)
            pairs.append((wall_ns(datetime.fromisoformat(pair["wall"])), int(pair["t_ns"])))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
    return Clock(sorted(pairs))


def wall_ns(moment: datetime) -> int:
    """Return nanoseconds since 1970, without float rounding."""
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000
