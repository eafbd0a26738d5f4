"""Fixed schedules: things are due at fixed times after a start, whatever happens in between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Schedule:
    """Thing number ``first`` is due at the start, number ``first + i`` is due i / rate seconds after it."""

    start_ns: int
    rate_per_s: float
    first: int = 0

    def due_ns(self, index: int) -> int:
        return self.start_ns + int((index - self.first) * SECOND_NS / self.rate_per_s)

    def due_times_ns(self, first: int, count: int) -> NDArray[np.int64]:
        """When each of some neighbouring things is due, as ``due_ns`` says."""
        after = np.arange(first - self.first, first - self.first + count)
        return self.start_ns + (after * SECOND_NS / self.rate_per_s).astype(np.int64)

    def due_by(self, now_ns: int) -> int:
        """The number of the first thing that is due after ``now_ns``; one is due at the start itself."""
        if now_ns < self.start_ns:
            return self.first
        count = self.first + int((now_ns - self.start_ns) * self.rate_per_s / SECOND_NS) + 1
        # Floating point may be off by one at an exact due time.
        while count > self.first and self.due_ns(count - 1) > now_ns:
            count -= 1
        while self.due_ns(count) <= now_ns:
            count += 1
        return count
