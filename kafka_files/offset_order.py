"""Check whether batches follow each other by their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]


class Misfit(NamedTuple):
    """A batch that does not begin at the end of the batch before."""

    row: int
    kind: Literal["gap", "back", "alone"]  # alone: only this batch does not fit
    expected: int


def misfits(first: Offsets, ends: Offsets, may_hide: npt.NDArray[np.bool_], expected: int) -> Iterator[Misfit]:
    """Yield the batches that do not follow the one before.

    ``may_hide`` marks batches behind damage, which hides offsets.
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
    if row + 1 >= len(first) or first[row + 1] < expected:
        return False
    if first[row] < expected or first[row + 1] == expected + ends[row] - first[row]:
        return bool(first[row + 1] != ends[row])
    return bool(row + 2 < len(first) and first[row + 1] < ends[row] and first[row + 2] < ends[row])
