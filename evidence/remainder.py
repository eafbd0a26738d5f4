"""The rows of a large partition outside of its plain ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from evidence.columns import Bools, covered, ints
from evidence.facts import PartitionFacts, RunFacts
from evidence.log_rows import add_last_offsets, log_windows
from evidence.pieces import PlainRange
from evidence.reader import Tables, concatenated
from evidence.windows import Source, Window, aligned, windows
from expectations.tallies import AT
from history.folder import RunFolder

TABLES = ("sends", "polls")
_NEAR = 1 << 20  # offsets


def offset_windows(run: RunFacts, facts: PartitionFacts, begin: int, end: int) -> Iterator[dict[Source, pa.Table]]:
    """Yield the rows of sends, polls and each log (by broker id) in common ranges of offsets."""
    tables = Tables(RunFolder(run.folder), within=(begin, end))
    found: dict[Source, Iterator[Window]] = {name: windows(tables, name, facts.where, "offset") for name in TABLES}
    for replica in facts.replicas:
        if replica.segments:
            found[replica.broker_id] = log_windows(replica, begin, end)
    return aligned(found, {source: offset_of(source) for source in found})


def offset_of(source: Source) -> str:
    """Return the column with a row's offset."""
    return "offset" if isinstance(source, str) else "place"


def outside(source: Source, rows: pa.Table, ranges: Sequence[tuple[int, int]]) -> pa.Table:
    """Return the rows whose offset is in no range (first, last)."""
    return rows.filter(pa.array(~_covered(source, rows, ranges)))


def _covered(source: Source, rows: pa.Table, ranges: Sequence[tuple[int, int]]) -> Bools:
    first, last = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    return covered(first, last, ints(rows[offset_of(source)]))


class Remainder:
    """Collects the rows of a partition's pieces, and reads those of contradicted plain ranges again."""

    def __init__(self, run: RunFacts, facts: PartitionFacts) -> None:
        self._run, self._facts = run, facts
        self.plain = [plain for piece in facts.pieces for plain in piece.plain]
        self._parts: dict[Source, list[pa.Table]] = {}
        for piece in facts.pieces:
            self._add(piece.rows)
        self._read([(begin, end - 1) for piece in facts.pieces for begin, end in piece.again])

    def table(self, source: Source) -> pa.Table:
        """Return a source's rows in the order in which they were recorded."""
        keys = [AT] if isinstance(source, str) else ["segment", "position", "offset"]
        return concatenated(self._parts[source]).sort_by([(key, "ascending") for key in keys])

    def last_offsets(self, broker_id: int) -> Mapping[int, int]:
        """Return each segment's greatest offset of readable batches."""
        found: dict[int, int] = {}
        for piece in self._facts.pieces:
            add_last_offsets(found, piece.last_offsets.get(broker_id, {}))
        return found

    def without(self, wrong: Sequence[PlainRange]) -> None:
        """Read the rows of these plain ranges again."""
        gone = {each.first for each in wrong}
        self.plain = [each for each in self.plain if each.first not in gone]
        self._read([(each.first, each.last) for each in wrong])

    def _read(self, wanted: Sequence[tuple[int, int]]) -> None:
        """Read the rows in these ranges (first, last) that are in no plain range."""
        inner = [(each.first, each.last) for each in self.plain]
        for begin, end in _spans(wanted):
            for rows in offset_windows(self._run, self._facts, begin, end):
                asked = {source: table.filter(_covered(source, table, wanted)) for source, table in rows.items()}
                self._add({source: outside(source, table, inner) for source, table in asked.items()})

    def _add(self, rows: Mapping[Source, pa.Table]) -> None:
        for source, table in rows.items():
            self._parts.setdefault(source, []).append(table)


def _spans(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what to read at once (from, until): near ranges share row groups."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first - found[-1][1] <= _NEAR:
            found[-1] = found[-1][0], max(last + 1, found[-1][1])
        else:
            found.append((first, last + 1))
    return found
