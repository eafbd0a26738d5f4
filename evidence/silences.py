"""Find gaps in the probe's reports about a broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evidence.columns import Ints
from history.remote import parquet_file

SILENCE_S = 3.0  # the probe reports 20 times a second, and after 0.25 s without response
MAX_SILENCE_S = 10.0  # even on a busy host
_SECOND_NS = 1_000_000_000
_ROWS_AT_ONCE = 1_000_000
_FAR = np.iinfo(np.int64).max


class Silence(NamedTuple):
    """A report on a broker (``at``), and the one before."""

    at: int
    broker_id: int
    before: int


class Words:
    """First and last report of each second per broker, within ``begun`` to ``ended`` (ns).

    Gaps above 1 s are exact.
    """

    def __init__(self, begun: int, ended: int) -> None:
        self._begun, self._ended = begun, ended
        self._of_broker: dict[int, tuple[Ints, Ints]] = {}

    def add(self, broker_ids: Ints, received_ns: Ints) -> None:
        inside = (received_ns >= self._begun) & (received_ns <= self._ended)
        for broker_id in np.unique(broker_ids[inside]).tolist():
            at = received_ns[inside & (broker_ids == broker_id)]
            second = (at - self._begun) // _SECOND_NS
            first, last = self._of_broker.setdefault(broker_id, self._nothing())
            np.minimum.at(first, second, at)
            np.maximum.at(last, second, at)

    def _nothing(self) -> tuple[Ints, Ints]:
        seconds = max(self._ended - self._begun, 0) // _SECOND_NS + 1
        return np.full(seconds, _FAR), np.full(seconds, -1)

    def gaps(self, longer_than_ns: int) -> list[Silence]:
        found: list[Silence] = []
        for broker_id, (first, last) in self._of_broker.items():
            spoken = np.flatnonzero(last >= 0)
            at, before = first[spoken[1:]], last[spoken[:-1]]
            long = at - before > longer_than_ns
            pairs = zip(at[long].tolist(), before[long].tolist(), strict=True)
            found += [Silence(later, broker_id, earlier) for later, earlier in pairs]
        return sorted(found)


def silences(
    files: Iterable[Path],
    between: tuple[int, int] | None,
    broker_ids: Iterable[int],
    waits: Sequence[tuple[int, float]],
) -> list[Silence]:
    """Return the probe's gaps from the first phase to quiescence (``between``).

    ``waits`` are samples (t_ns, us) of ``psi_cpu_some_us``: waiting for CPU excuses a gap.
    """
    if between is None:
        return []
    words = Words(*between)
    for broker_id in sorted(set(broker_ids)):
        words.add(np.full(2, broker_id), np.array(between))
    for file in files:
        for batch in parquet_file(file).iter_batches(_ROWS_AT_ONCE, columns=["broker_id", "received_ns"]):
            words.add(batch["broker_id"].to_numpy(), batch["received_ns"].to_numpy())
    in_order, gaps = sorted(waits), words.gaps(int(SILENCE_S * 1e9))
    return [gap for gap in gaps if not explained(gap.at - gap.before, pressure(in_order, gap))]


def explained(silence_ns: int, pressure: float) -> bool:
    """Return whether CPU pressure may explain a gap."""
    return silence_ns <= MAX_SILENCE_S * 1e9 and silence_ns * (1 - pressure) <= SILENCE_S * 1e9


def pressure(waits: Sequence[tuple[int, float]], gap: Silence) -> float:
    """Return the share of a gap in which a task waited for CPU."""
    earlier = [wait for wait in waits if wait[0] <= gap.before][-1:]
    later = [wait for wait in waits if wait[0] >= gap.at][:1]
    if not earlier or not later or earlier == later:
        return 0.0
    (from_ns, from_us), (to_ns, to_us) = earlier[0], later[0]
    return min(1.0, 1000 * (to_us - from_us) / (to_ns - from_ns))
