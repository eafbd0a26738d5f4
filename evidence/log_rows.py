"""Read a replica's segments in windows of offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.facts import FOREVER_NS, Replica
from evidence.reader import concatenated, within
from evidence.windows import Window, begins_of
from kafka_files.batches import Data, Headers, Problem, header_slices, headers, last_offsets, mapped
from kafka_files.records import decode
from kafka_files.segments import SEGMENTS, columns_of

BATCHES = 1 << 11  # at once
_READ = [
    *("position", "batch_offset", "offset", "leader_epoch", "producer_id", "seq", "checksum_ok", "problem"),
    *("last_offset", "kafka_producer_id", "transactional", "marker"),
]
_TEXT = pa.dictionary(pa.int32(), pa.string())
# Rows of ``SEGMENTS``, without what is the same in a log, and with their place in it.
LOG = pa.schema(
    [
        *(SEGMENTS.field(name).with_type(_TEXT) if name == "producer_id" else SEGMENTS.field(name) for name in _READ),
        pa.field("segment", pa.int64()),  # its first offset
        pa.field("place", pa.int64()),
    ]
)


class Part(NamedTuple):
    """Some batches of a segment, from a byte on; ``last`` is their greatest offset."""

    file: Path
    start: int
    least: int
    last: int


def parts(replica: Replica, begin: int, end: int) -> list[Part]:
    """Return the parts of segments that may have offsets in a range, by their headers alone."""
    found = []
    following = [*(int(file.stem) for file in replica.segments[1:]), FOREVER_NS]
    for file, next_base in zip(replica.segments, following, strict=True):
        if int(file.stem) < end and next_base > begin:
            with mapped(file) as data:
                for own in header_slices(data, BATCHES, verify=False):
                    whole = own[own["problem"] != Problem.TORN_TAIL]
                    least = int(whole["base_offset"].min(initial=FOREVER_NS))
                    last = int(last_offsets(whole).max(initial=int(file.stem)))
                    found.append(Part(file, int(own["position"][0]), min(least, last), last))
    return found


def log_windows(replica: Replica, begin: int, end: int) -> Iterator[Window]:
    """Yield a log's rows in a range by their ``place``: the offset of a record, marker or unreadable batch.

    A torn tail, which has none, is at the last offset before it.
    """
    own = parts(replica, begin, end)
    begins = [*begins_of([part.least for part in own]), FOREVER_NS]
    waiting = LOG.empty_table()
    for part, following in zip(own, begins[1:], strict=True):
        if part.least < end and part.last >= begin:
            with mapped(part.file) as data:
                rows = _rows(part.file, data, headers(data, part.start, BATCHES), part.last)
            waiting = concatenated([waiting, within(rows, "place", begin, end)])
        yield Window(within(waiting, "place", begin, following), following)
        waiting = within(waiting, "place", following, FOREVER_NS)
    if not own:
        yield Window(waiting, FOREVER_NS)


def log_rows(file: Path) -> pa.Table:
    """Return a segment's rows."""
    with mapped(file) as data:
        slices = [_rows(file, data, found, int(file.stem)) for found in header_slices(data)]
    return concatenated(slices) if slices else LOG.empty_table()


def _rows(file: Path, data: Data, found: Headers, torn_at: int) -> pa.Table:
    parts = [pa.table(columns_of(data, decoded)).select(_READ) for decoded in decode(data, found)]
    table = concatenated(parts)
    segment = pa.array(np.full(table.num_rows, int(file.stem), dtype=np.int64))
    place = pc.coalesce(table["offset"], table["batch_offset"], pa.scalar(torn_at, pa.int64()))
    return table.append_column("segment", segment).append_column("place", place)


def last_offsets_of(rows: pa.Table) -> dict[int, int]:
    """Return by segment (its first offset) the greatest offset of readable batches."""
    good = rows.filter(pc.is_null(rows["problem"]))
    found = good.group_by("segment").aggregate([("last_offset", "max")])
    return dict(zip(found["segment"].to_pylist(), found["last_offset_max"].to_pylist(), strict=True))
