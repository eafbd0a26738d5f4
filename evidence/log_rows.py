"""Read a replica's segments in windows of offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.batches import ReplicaBatches
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


def log_windows(replica: Replica, begin: int, end: int) -> Iterator[Window]:
    """Yield a log's rows in a range by their ``place``: the offset of a record, marker or unreadable batch.

    A torn tail, which has none, is at the last offset before it. A segment has no offset of the next one.
    """
    waiting = LOG.empty_table()
    following = [*(int(file.stem) for file in replica.segments[1:]), FOREVER_NS]
    for file, next_base in zip(replica.segments, following, strict=True):
        if int(file.stem) < end and next_base > begin:
            with mapped(file) as data:
                for rows, ends in _slices(file, data, next_base, (begin, end)):
                    waiting = concatenated([waiting, rows])
                    yield Window(within(waiting, "place", begin, ends), ends)
                    waiting = within(waiting, "place", ends, FOREVER_NS)
    yield Window(waiting, FOREVER_NS)


def _slices(file: Path, data: Data, next_base: int, of: tuple[int, int]) -> Iterator[Window]:
    """Yield some batches' rows with an offset in a range, and the least offset of all later ones."""
    starts, leasts, lasts = [], [], [int(file.stem)]
    for found in header_slices(data, BATCHES, verify=False):
        whole = found[found["problem"] != Problem.TORN_TAIL]
        starts.append(int(found["position"][0]))
        told = np.maximum(last_offsets(whole), whole["base_offset"] + np.maximum(whole["record_count"] - 1, 0))
        lasts.append(int(told.max(initial=lasts[-1])))
        leasts.append(int(whole["base_offset"].min()) if whole.size else lasts[-1])
    ends = begins_of([*leasts, next_base])[1:]
    for start, least, last, following in zip(starts, leasts, lasts[1:], ends, strict=True):
        if least < of[1] and last >= of[0]:
            rows = within(_rows(file, data, headers(data, start, BATCHES), last), "place", *of)
            yield Window(rows, following)


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


def in_order(replica: Replica, of: ReplicaBatches) -> bool:
    """Return whether offsets rise in a log, and each segment has those from its name up to the next one's."""
    batches = of.batches
    bases = [int(file.stem) for file in replica.segments][: len(of.begins)]
    segment = np.searchsorted(of.begins, np.arange(len(batches)), side="right") - 1
    first, following = np.array(bases)[segment], np.array([*bases[1:], FOREVER_NS])[segment]
    rising = (np.diff(batches.base_offset) > 0).all()
    return bool(rising and (batches.base_offset >= first).all() and (batches.last_offset < following).all())


def add_last_offsets(found: dict[int, int], more: Mapping[int, int]) -> None:
    """Add other batches' last offsets."""
    for segment, last in more.items():
        found[segment] = max(last, found.get(segment, last))


def last_offsets_of(rows: pa.Table) -> dict[int, int]:
    """Return by segment (its first offset) the greatest offset of readable batches."""
    good = rows.filter(pc.is_null(rows["problem"]))
    found = good.group_by("segment").aggregate([("last_offset", "max")])
    return dict(zip(found["segment"].to_pylist(), found["last_offset_max"].to_pylist(), strict=True))
