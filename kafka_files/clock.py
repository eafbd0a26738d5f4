"""Wall-clock times of brokers' files on the run's monotonic clock."""

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

NEIGHBOURS = 2  # pairs on each side: one pair may have been torn apart by a busy scheduler
CLOSE_NS = 10_000_000_000  # a pair each second, and brokers write some seconds before the first
SET_NS = 50_000_000  # half of what a state's date may be off; pairs of a busy host were apart by 15 ms at most
TORN_NS = 1_000_000_000  # a pair that differs by more from those near it leaves their times unknown
FOREVER_NS = 2**63 - 1


class _Stretch(NamedTuple):
    """Pairs between two times at which the clock was set, in order; what lies outside of ``from_ns`` to ``to_ns``
    (t_ns) is certainly in another stretch.
    """

    pairs: Sequence[tuple[int, int]]
    from_ns: int
    to_ns: int

    def monotonic_ns(self, wall_ns: int) -> int | None:
        """A time by the pairs around it; None where these disagree, or it lies outside."""
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
    """Pairs of one moment on both clocks, in order: (wall_ns since 1970, t_ns)."""

    pairs: Sequence[tuple[int, int]]

    def monotonic_ns(self, wall_ns: int) -> int | None:
        """The monotonic time of a wall-clock time; None when the run recorded no pair, or the clock was set near it, so
        that the time may be from before or after that.
        """
        found = [t_ns for each in self._stretches if (t_ns := each.monotonic_ns(wall_ns)) is not None]
        return found[0] if len(found) == 1 else None

    @property
    def sets(self) -> list[tuple[int, int]]:
        """When the host's clock was set meanwhile, and by how much: (t_ns, by_ns), by_ns < 0 where it was set back. A
        single pair that was torn apart is none.
        """
        return [(self._in_order[at][1], by_ns) for at, by_ns in self._set_at]

    @cached_property
    def _in_order(self) -> list[tuple[int, int]]:
        """The pairs in the order of the monotonic clock."""
        return sorted(self.pairs, key=lambda pair: pair[1])

    @cached_property
    def _set_at(self) -> list[tuple[int, int]]:
        """The place of each first pair after the clock was set, and by how much that was."""
        apart = [wall - t for wall, t in self._in_order]
        found = []
        for at in range(NEIGHBOURS, len(apart) - NEIGHBOURS + 1):
            before, after = apart[at - NEIGHBOURS : at], apart[at : at + NEIGHBOURS]
            if min(after) - max(before) > SET_NS or min(before) - max(after) > SET_NS:
                found.append((at, after[0] - before[-1]))
        return found

    @cached_property
    def _stretches(self) -> list[_Stretch]:
        """All pairs, parted where the clock was set: between the last pair before that and the first one after."""
        places, found = [0, *(at for at, _ in self._set_at), len(self._in_order)], []
        for begin, end in pairwise(places):
            from_ns = self._in_order[begin - 1][1] if begin else -FOREVER_NS
            to_ns = self._in_order[end][1] if end < len(self._in_order) else FOREVER_NS
            found.append(_Stretch(sorted(self._in_order[begin:end]), from_ns, to_ns))
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
