"""Whether batches follow each other by their offsets: gaps, offsets that go back, and single wrong base offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]


class Misfit(NamedTuple):
    """A batch that does not begin at the offset ``expected``, behind the batch before it."""

    row: int
    kind: Literal["gap", "back", "alone"]  # alone: only this batch does not fit its neighbours
    expected: int


def misfits(first: Offsets, ends: Offsets, may_hide: npt.NDArray[np.bool_], expected: int) -> Iterator[Misfit]:
    """Yield the batches that do not follow the batch before.

    ``ends`` are the offsets behind each batch. ``may_hide`` is set for a batch behind damage, which hides offsets.
    ``expected`` is the offset behind the batch before the first one.
    """
    before = np.concatenate([[expected], ends[:-1]])
    alone_at, expected_there = -2, 0
    for row in np.flatnonzero(first != before).tolist():
        follows_alone = row == alone_at + 1
        here = expected_there if follows_alone else int(before[row])
        if first[row] == here:
            continue
        if _is_alone(first, ends, row, here):
            alone_at, expected_there = row, here
            yield Misfit(row, "alone", here)
        elif first[row] < here or not (follows_alone or may_hide[row]):
            yield Misfit(row, "gap" if first[row] > here else "back", here)


def _is_alone(first: Offsets, ends: Offsets, row: int, expected: int) -> bool:
    """Return whether the batches behind go on from the batch before this one."""
    if row + 1 >= len(first) or first[row + 1] < expected:
        return False
    if first[row] < expected or first[row + 1] == expected + ends[row] - first[row]:
        return bool(first[row + 1] != ends[row])
    return bool(row + 2 < len(first) and first[row + 1] < ends[row] and first[row + 2] < ends[row])
