"""Schedule events at fixed times after a start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

SECOND_NS = 1_000_000_000
Floats = NDArray[np.float64]
_GUESSES = 256  # a few Newton steps then reach 1 ns
_NEWTON_STEPS = 3


class Curve(Protocol):
    """A rate over time, by its integral."""

    def after_ns(self, count: Any) -> Any:
        """Return when event ``count`` (from 0) is due, in ns."""

    def count(self, elapsed_ns: int) -> float:
        """Return the events due by then, with fractions."""


@dataclass(frozen=True)
class Constant:
    """A constant rate."""

    rate_per_s: float

    def after_ns(self, count: Any) -> Any:
        return count * SECOND_NS / self.rate_per_s

    def count(self, elapsed_ns: int) -> float:
        return elapsed_ns * self.rate_per_s / SECOND_NS


class Pieces:
    """A rate that is constant or linear from each ``since_s`` on; ``slopes`` in records/s²."""

    def __init__(self, since_s: Sequence[float], rates_per_s: Sequence[float], slopes: Sequence[float]) -> None:
        self._since, self._rates, self._slopes = map(np.array, (since_s, rates_per_s, slopes))
        lengths = np.diff(self._since)
        counts = self._rates[:-1] * lengths + self._slopes[:-1] * lengths**2 / 2
        self._counts = np.concatenate([[0.0], np.cumsum(counts)])

    def after_ns(self, count: Any) -> Any:
        """Solve the quadratic so that a slope of 0 works."""
        at = np.searchsorted(self._counts, count, side="right") - 1
        more, rate = count - self._counts[at], self._rates[at]
        return (self._since[at] + 2 * more / (rate + np.sqrt(rate**2 + 2 * self._slopes[at] * more))) * SECOND_NS

    def count(self, elapsed_ns: int) -> float:
        elapsed_s = elapsed_ns / SECOND_NS
        at = int(np.searchsorted(self._since, elapsed_s, side="right")) - 1
        more_s = elapsed_s - self._since[at]
        return float(self._counts[at] + self._rates[at] * more_s + self._slopes[at] * more_s**2 / 2)


class Sine:
    """A sine around a mean, rising first."""

    def __init__(self, mean_per_s: float, amplitude: float, period_s: float) -> None:
        self._period_s, self._of_period, self._amplitude = period_s, mean_per_s * period_s, amplitude
        self._times = np.linspace(0, 1, _GUESSES + 1)
        self._shares = self._share(self._times)

    def _share(self, time: Any) -> Any:
        return time + self._amplitude / (2 * pi) * (1 - np.cos(2 * pi * time))

    def after_ns(self, count: Any) -> Any:
        periods, share = np.divmod(count / self._of_period, 1)
        time = np.interp(share, self._shares, self._times)
        for _ in range(_NEWTON_STEPS):
            time = time - (self._share(time) - share) / (1 + self._amplitude * np.sin(2 * pi * time))
        return (periods + time) * self._period_s * SECOND_NS

    def count(self, elapsed_ns: int) -> float:
        periods, time = divmod(elapsed_ns / SECOND_NS / self._period_s, 1)
        return (periods + time + self._amplitude / (2 * pi) * (1 - cos(2 * pi * time))) * self._of_period


def curve_of(rate: float | Mapping[str, Any]) -> Curve:
    """Return the curve of a load's ``rate``, in records/s; raise ValueError if the value is not a rate."""
    match rate:
        case int() | float():
            return Constant(rate)
        case {"from": start, "to": to, "over": over_s}:
            return Pieces([0.0, over_s], [start, to], [(to - start) / over_s, 0.0])
        case {"mean": mean, "amplitude": amplitude, "period": period_s}:
            return Sine(mean, amplitude, period_s)
        case {"steps": steps}:
            since_s, rates = zip(*steps, strict=True)
            return Pieces(since_s, rates, [0.0] * len(rates))
    raise ValueError(f"{rate!r} is not a rate")


@dataclass(frozen=True)
class Schedule:
    """Schedule event ``first`` at the start, and ``first + i`` once ``i`` were due.

    Earlier events follow ``before``.
    """

    start_ns: int
    curve: Curve
    first: int = 0
    before: Schedule | None = None

    def then(self, now_ns: int, curve: Curve) -> Schedule:
        return Schedule(now_ns, curve, self.due_by(now_ns), self)

    def due_ns(self, index: int) -> int:
        if self.before is not None and index < self.first:
            return self.before.due_ns(index)
        return self.start_ns + int(self.curve.after_ns(index - self.first))

    def due_times_ns(self, first: int, count: int) -> NDArray[np.int64]:
        earlier = min(max(self.first - first, 0), count)
        if self.before is not None and earlier:
            rest = self.due_times_ns(self.first, count - earlier)
            return np.concatenate([self.before.due_times_ns(first, earlier), rest])
        after: Floats = self.curve.after_ns(np.arange(first - self.first, first - self.first + count))
        return self.start_ns + after.astype(np.int64)

    def due_by(self, now_ns: int) -> int:
        """Return the first event due later; one is due at the start itself."""
        if now_ns < self.start_ns:
            return self.before.due_by(now_ns) if self.before else self.first
        count = self.first + int(self.curve.count(now_ns - self.start_ns)) + 1
        # Floating point can be off by one at an exact due time.
        while count > self.first and self.due_ns(count - 1) > now_ns:
            count -= 1
        while self.due_ns(count) <= now_ns:
            count += 1
        return count
