"""Read one partition's rows of a recorded table in windows of time, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from evidence.facts import FOREVER_NS
from evidence.reader import Tables
from history.partition import TopicPartition

ROWS = 1 << 18


class Window(NamedTuple):
    """Rows of a table; no later row has a time before ``ends_ns``."""

    rows: pa.Table
    ends_ns: int


def windows(tables: Tables, name: str, where: TopicPartition, by: str, rows: int = ROWS) -> Iterator[Window]:
    """Yield a partition's rows by the time ``by``; at least one window, which may have no rows."""
    if sum(place.rows for place in tables.places_of(name, where)) <= rows:
        yield Window(tables.read(name, where), FOREVER_NS)
        return
    begins_ns = [_begins_ns(batches, by) for batches in tables.batches(name, where, rows, [by])]
    batches = tables.batches(name, where, rows)
    waiting: list[pa.Table] = []
    while any(begins_ns):
        earliest = min((own for own in begins_ns if own), key=lambda own: own[0])
        at = next(place for place, own in enumerate(begins_ns) if own is earliest)
        waiting.append(next(batches[at]))
        del earliest[0]
        ends_ns = min((own[0] for own in begins_ns if own), default=FOREVER_NS)
        table = pa.concat_tables(waiting, promote_options="default")
        over = pc.less(table[by], ends_ns)
        yield Window(table.filter(over), ends_ns)
        waiting = [table.filter(pc.invert(over))]


def _begins_ns(batches: Iterator[pa.Table], by: str) -> list[int]:
    """Return for each batch the earliest time of it and all later ones of its file."""
    found = [FOREVER_NS if not batch.num_rows else pc.min(batch[by]).as_py() for batch in batches]
    for place in range(len(found) - 1, 0, -1):
        found[place - 1] = min(found[place - 1 : place + 1])
    return found
