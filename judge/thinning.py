"""Divide a large partition into ranges of offsets, and return the rows of each that checks need.

A worker's memory then depends on the number of unusual rows, not of records, and several tasks read one partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.columns import Log, Names, Polls, Seeks, Sends
from evidence.counts import Counts, of_clients
from evidence.facts import PartitionFacts, RunFacts
from evidence.log_rows import add_last_offsets, last_offsets_of
from evidence.pieces import Alike, Piece, PlainRange, Rows
from evidence.reader import ENDLESS, NOWHERE, Tables, concatenated, largest
from evidence.remainder import TABLES, offset_windows, outside
from evidence.windows import Source
from history.folder import RunFolder
from history.tables import SEEKS
from judge.measures import latency

WHOLE_SENDS = 500_000  # a partition with more is divided
PART_SENDS = 8_000_000
MOST_ROWS = 200_000  # that a part returns; the task that judges the partition reads more than that itself
_MOST_RANGES = 64  # of a window


@dataclass(frozen=True)
class Sums:
    """What a plain range adds to its partition's counts and measures."""

    counts: Counts
    loads: latency.Phases
    seconds: latency.Seconds


def parts(run: RunFacts, facts: PartitionFacts) -> list[PartitionFacts]:
    """Return the parts of a partition; none if it is small, or has imported records or transactions."""
    group, share = run.group, run.share
    grouped = facts.where.topic in {each.topic for each in (group, share) if each is not None}
    if run.foreign or run.transactional or grouped or facts.input is not None or not facts.kept:
        return []
    tables = Tables(RunFolder(run.folder))
    places = tables.places_of("sends", facts.where)
    sends = sum(place.rows for place in places)
    if sends <= WHOLE_SENDS:
        return []
    tops = [largest(place, "offset") or 0 for place in (*places, *tables.places_of("polls", facts.where))]
    number = -(-sends // PART_SENDS)
    step = -(-(max(0, *tops) + 1) // number)
    edges = [NOWHERE, *range(step, step * number, step), ENDLESS]
    return [replace(facts, offsets=offsets, size=facts.size // number) for offsets in pairwise(edges)]


def thin(run: RunFacts, facts: PartitionFacts) -> Piece:
    """Find the plain ranges of one part of a partition, and return them with all other rows."""
    assert facts.offsets is not None
    piece, names, kept = Piece(), Names(), dict[Source, list[pa.Table]]()
    for rows in offset_windows(run, facts, *facts.offsets):
        for name in TABLES:
            piece.tallies.add(name, rows[name], whole=False)
        for broker in rows.keys() - set(TABLES):
            add_last_offsets(piece.last_offsets.setdefault(int(broker), {}), last_offsets_of(rows[broker]))
        found = _plain_ranges(run, facts, rows, names)
        piece.plain += found
        for source, table in rows.items():
            kept.setdefault(source, []).append(outside(source, table, [(each.first, each.last) for each in found]))
    piece.rows = {source: concatenated(tables) for source, tables in kept.items()}
    if sum(table.num_rows for table in piece.rows.values()) > MOST_ROWS:
        piece.rows = {source: table.schema.empty_table() for source, table in piece.rows.items()}
        piece.again = [facts.offsets]
    return piece


def _plain_ranges(
    run: RunFacts, facts: PartitionFacts, rows: Mapping[Source, pa.Table], names: Names
) -> list[PlainRange]:
    sends, polls = Sends.of(rows["sends"], names), Polls.of(rows["polls"], names)
    logs = {int(source): table for source, table in rows.items() if source not in TABLES}
    if any(table[name].null_count < table.num_rows for table in logs.values() for name in ("problem", "marker")):
        return []
    of_logs = {broker: Log.of(table.filter(pc.is_valid(table["offset"])), names) for broker, table in logs.items()}
    if not (sends.offset >= 0).any():
        return []
    alike = Alike(Rows(sends, polls, of_logs), facts.deleted_before or 0)
    runs = sorted(alike.runs(), key=lambda run: run.start - run.stop)[:_MOST_RANGES]
    by_offset = polls.take(np.argsort(polls.offset, kind="stable"))
    found = []
    for each in sorted(runs, key=lambda run: run.start):
        edges = alike.offsets[each.start - 1 : each.stop + 1 : each.stop - each.start + 1]
        begin, end = np.searchsorted(by_offset.offset, [edges[0], edges[1] + 1]).tolist()
        plain, own_sends = alike.plain_range(each, by_offset.take(slice(begin, end)), names)
        begin, end = np.searchsorted(by_offset.offset, [plain.first, plain.last + 1]).tolist()
        own = by_offset.take(slice(begin, end))
        counts = of_clients(own_sends, own, Seeks.of(SEEKS.empty_table()), names)
        loads = latency.phase_loads(own_sends, own, names, run.load_spans)
        found.append(plain._replace(sums=Sums(counts, loads, latency.by_second(own_sends))))
    return found
