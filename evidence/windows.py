"""Read one partition's rows of a recorded table in windows of time or of offsets, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.facts import FOREVER_NS
from evidence.reader import NOWHERE, Tables, concatenated, within
from history.partition import TopicPartition

ROWS = 1 << 18
Source = str | int


class Window(NamedTuple):
    """Rows of a table; no later row has a time, or offset, before ``ends``."""

    rows: pa.Table
    ends: int


def windows(
    tables: Tables, name: str, where: TopicPartition, by: str, *, rows: int = ROWS, columns: Sequence[str] | None = None
) -> Iterator[Window]:
    """Yield a partition's rows by the time or offset ``by``; at least one window, which may have no rows."""
    if sum(place.rows for place in tables.places_of(name, where)) <= rows:
        yield Window(tables.read(name, where, columns), FOREVER_NS)
        return
    begins = [_begins(batches, by) for batches in tables.batches(name, where, rows, [by])]
    batches = tables.batches(name, where, rows, columns)
    waiting: list[pa.Table] = []
    while any(begins):
        earliest = min((own for own in begins if own), key=lambda own: own[0])
        at = next(place for place, own in enumerate(begins) if own is earliest)
        waiting.append(next(batches[at]))
        del earliest[0]
        ends = min((own[0] for own in begins if own), default=FOREVER_NS)
        if ends == FOREVER_NS and any(begins):
            continue
        table = concatenated(waiting)
        yield Window(within(table, by, NOWHERE, ends), ends)
        waiting = [within(table, by, ends, FOREVER_NS)]


def _begins(batches: Iterator[pa.Table], by: str) -> list[int]:
    """Return for each batch the earliest time or offset of it and all later ones of its file."""
    return begins_of([_least(batch[by]) for batch in batches])


def begins_of(least: Sequence[int]) -> list[int]:
    """Return the least of each part and all later ones."""
    found: list[int] = np.minimum.accumulate(np.array(least, dtype=np.int64)[::-1])[::-1].tolist()
    return found


def _least(column: pa.ChunkedArray) -> int:
    least = pc.min(column).as_py()  # an unknown one belongs to any window
    return FOREVER_NS if least is None else int(least)


def aligned(sources: Mapping[Source, Iterator[Window]], by: Mapping[Source, str]) -> Iterator[dict[Source, pa.Table]]:
    """Yield the rows of all sources in common ranges of their columns ``by``."""
    latest = {name: next(source) for name, source in sources.items()}
    rows = {name: window.rows for name, window in latest.items()}
    while True:
        ends = min(window.ends for window in latest.values())
        yield {name: within(table, by[name], NOWHERE, ends) for name, table in rows.items()}
        if ends == FOREVER_NS:
            return
        for name, table in rows.items():
            rows[name] = within(table, by[name], ends, FOREVER_NS)
            if latest[name].ends == ends:
                latest[name] = next(sources[name])
                rows[name] = concatenated([rows[name], latest[name].rows])
