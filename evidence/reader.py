"""Read recorded tables, each of one or more Parquet files, by partition.

Collected tables have one partition per row group; mixed ones are filtered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from expectations.tallies import AT
from history.folder import RunFolder
from history.partition import TopicPartition
from history.remote import may_pass, parquet_file
from history.tables import IMPORTED, LATER, RECORDED

_SCHEMAS = {**RECORDED, "imported": IMPORTED}
_STRINGS = {name: [f.name for f in schema if f.type == pa.string()] for name, schema in _SCHEMAS.items()}


NOWHERE, ENDLESS = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


class Place(NamedTuple):
    """A row group with its first and last partition, if known; ``before`` are its file's rows before it."""

    file: Path
    group: int
    rows: int
    bytes: int
    first: TopicPartition | None
    last: TopicPartition | None
    before: int = 0

    def may_hold(self, where: TopicPartition) -> bool:
        if self.first is None or self.last is None:
            return True
        topics = self.first.topic <= where.topic <= self.last.topic
        return topics and self.first.partition <= where.partition <= self.last.partition

    def holds_only(self, where: TopicPartition) -> bool:
        return self.first == self.last == where


@dataclass(frozen=True)
class Tables:
    """A run folder's recorded tables, without unreadable files.

    ``within``: only rows with an ``offset`` from the first to before the second number, and an unknown one in the range
    that begins with ``NOWHERE``. A column ``at`` then numbers them as they were recorded.
    """

    folder: RunFolder
    within: tuple[int, int] | None = None

    def _files(self, name: str) -> list[Footer]:
        found = sorted(self.folder.table(name).glob("*.parquet"))
        return [footer_of(file) for file in found if problem_of(file, _SCHEMAS[name]) is None]

    def _places(self, *names: str) -> Iterator[Place]:
        for footer in (footer for name in names for footer in self._files(name)):
            yield from footer.places

    def rows(self, name: str) -> int:
        return sum(place.rows for place in self._places(name))

    def sizes(self) -> Counter[TopicPartition]:
        """Return each partition's approximate bytes, without shared row groups."""
        found: Counter[TopicPartition] = Counter()
        for place in self._places(*_SCHEMAS):
            if place.first is not None and place.first == place.last:
                found[place.first] += place.bytes
        return found

    def counted(self, name: str, column: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for place in self._places(name):
            metadata = footer_of(place.file).metadata
            held = metadata.row_group(place.group).column(metadata.schema.names.index(column)).statistics
            if held is not None and held.has_min_max and held.min == held.max and not held.null_count:
                found[held.min] += place.rows
            else:
                values = _opened(place.file).read_row_group(place.group, columns=[column])[column]
                found.update({each["values"]: each["counts"] for each in values.value_counts().to_pylist()})
        return found

    def undeclared(self, name: str) -> list[str]:
        """Return columns that the format does not have."""
        found = {column for footer in self._files(name) for column in footer.schema.names}
        return sorted(found.difference(_SCHEMAS[name].names))

    def partitions(self, *names: str) -> list[TopicPartition]:
        found: set[TopicPartition] = set()
        for place in self._places(*names):
            if place.first is not None and place.holds_only(place.first):
                found.add(place.first)
            elif place.rows:
                group = _opened(place.file).read_row_group(place.group, columns=["topic", "partition"])
                distinct = group.group_by(["topic", "partition"]).aggregate([])
                found |= {TopicPartition.of(row) for row in distinct.to_pylist() if None not in row.values()}
        return sorted(found)

    def places_of(self, name: str, where: TopicPartition) -> list[Place]:
        found = [place for footer in self._files(name) for place in footer.of(where)]
        return found if self.within is None else [place for place in found if _meets(place, *self.within)]

    def read(self, name: str, where: TopicPartition, columns: Sequence[str] | None = None) -> pa.Table:
        wanted = list(columns or _SCHEMAS[name].names)
        found = [part for batches in self._of_files(name, where, wanted) for part in batches]
        if not found:
            numbers = [] if self.within is None else [pa.field(AT, pa.int64())]
            return pa.schema([_SCHEMAS[name].field(column) for column in wanted] + numbers).empty_table()
        return pa.concat_tables(found, promote_options="default")

    def batches(
        self, name: str, where: TopicPartition, rows: int, columns: Sequence[str] | None = None
    ) -> list[Iterator[pa.Table]]:
        """Return each file's rows of a partition, as batches of at most ``rows``."""
        return self._of_files(name, where, list(columns or _SCHEMAS[name].names), rows)

    def _of_files(
        self, name: str, where: TopicPartition, wanted: Sequence[str], rows: int | None = None
    ) -> list[Iterator[pa.Table]]:
        def of_file(number: int, places: Sequence[Place]) -> Iterator[pa.Table]:
            for place in places:
                parts = _parts(place, where, wanted, _STRINGS[name], rows)
                yield from parts if self.within is None else _numbered(parts, number, place, *self.within)

        files = enumerate(self._files(name))
        return [of_file(number, places) for number, footer in files if (places := footer.of(where))]


@dataclass(frozen=True)
class Footer:
    """A file's footer, parsed once per process: it may have megabytes."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    places: tuple[Place, ...]

    @cached_property
    def _own(self) -> dict[TopicPartition, list[Place]]:
        found: dict[TopicPartition, list[Place]] = {}
        for place in self.places:
            if place.first is not None and place.holds_only(place.first):
                found.setdefault(place.first, []).append(place)
        return found

    @cached_property
    def _shared(self) -> list[Place]:
        return [place for place in self.places if place.first is None or not place.holds_only(place.first)]

    def of(self, where: TopicPartition) -> list[Place]:
        shared = [place for place in self._shared if place.may_hold(where)]
        return sorted([*self._own.get(where, ()), *shared], key=lambda place: place.group)


def footer_of(file: Path) -> Footer:
    """Return a file's footer.

    Raises: ArrowException: not Parquet. OSError.
    """
    stat = file.stat()
    return _parsed(file, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=256)
def _parsed(file: Path, size: int, changed_ns: int) -> Footer:  # noqa: ARG001  # cache keys that change with the file
    metadata = parquet_file(file).metadata
    return Footer(metadata, metadata.schema.to_arrow_schema(), tuple(_row_groups(file, metadata)))


def _row_groups(file: Path, metadata: pq.FileMetaData) -> Iterator[Place]:
    names = metadata.schema.names
    keys = [names.index(name) for name in ("topic", "partition") if name in names]
    before = 0
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        bounds = [found.column(key).statistics for key in keys]
        first = last = None
        if len(bounds) == 2 and all(each is not None and each.has_min_max for each in bounds):
            topic, partition = bounds
            first, last = TopicPartition(topic.min, partition.min), TopicPartition(topic.max, partition.max)
        yield Place(file, group, found.num_rows, found.total_byte_size, first, last, before)
        before += found.num_rows


def largest(place: Place, column: str) -> int | None:
    """Return the largest value of an integer column, None if the file does not show it or there is none."""
    found = _statistics(place, column)
    return found.max if found is not None and found.has_min_max else None


def _statistics(place: Place, column: str) -> pq.Statistics | None:
    metadata = footer_of(place.file).metadata
    return metadata.row_group(place.group).column(metadata.schema.names.index(column)).statistics


def _numbered(parts: Iterator[pa.Table], file: int, place: Place, begin: int, end: int) -> Iterator[pa.Table]:
    """Number a row group's rows, and yield those in a range of offsets."""
    if not _meets(place, begin, end):
        return
    at = (file << 40) + place.before
    for part in parts:
        numbered = part.append_column(AT, pa.array(np.arange(at, at + part.num_rows)))
        at += part.num_rows
        yield within(numbered, "offset", begin, end)


def _meets(place: Place, begin: int, end: int) -> bool:
    """Return whether a row group may have rows with an offset in a range."""
    found = _statistics(place, "offset")
    if found is None or not found.has_min_max or not found.has_null_count:
        return True
    return ((found.min < end or end == ENDLESS) and found.max >= begin) or (begin == NOWHERE and found.null_count > 0)


def concatenated(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all parts; empty ones may have other types."""
    return pa.concat_tables([part for part in parts if part.num_rows] or parts[:1], promote_options="default")


def within(rows: pa.Table, column: str, begin: int, end: int) -> pa.Table:
    """Return the rows from ``begin`` to before ``end``; an unknown value is ``NOWHERE``."""
    place = pc.fill_null(rows[column], NOWHERE).to_numpy()
    inside = (place >= begin) & ((place < end) | (end == ENDLESS))
    kept = np.flatnonzero(inside)
    if kept.size and int(kept[-1] - kept[0]) + 1 == kept.size:  # most rows are in order
        return rows.slice(int(kept[0]), kept.size)
    return rows.filter(pa.array(inside))


def _opened(file: Path, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    return parquet_file(file, read_dictionary=list(dictionaries), metadata=footer_of(file).metadata)


def _parts(
    place: Place, where: TopicPartition, wanted: Sequence[str], strings: Sequence[str], rows: int | None = None
) -> Iterator[pa.Table]:
    """Yield a partition's rows of a row group, as batches of at most ``rows``."""
    alone = place.holds_only(where)
    asked = wanted if alone else sorted({*wanted, "topic", "partition"})
    file = _opened(place.file, [name for name in strings if name in asked])
    there = [name for name in asked if name in file.schema_arrow.names]
    if rows is None:
        parts: Iterable[pa.Table] = [file.read_row_group(place.group, columns=there)]
    else:
        parts = map(pa.Table.from_batches, zip(file.iter_batches(rows, row_groups=[place.group], columns=there)))
    own = (pc.field("topic") == where.topic) & (pc.field("partition") == where.partition)
    for part in parts:
        whole = part
        for name in (name for name in asked if name in LATER and name not in there):
            whole = whole.append_column(name, pa.nulls(part.num_rows, pa.int64()))
        yield (whole if alone else whole.filter(own)).select(wanted)


def problem_of(file: Path, schema: pa.Schema) -> str | None:
    """Return why a file does not match this schema, or None.

    Raises: OSError: the file may be readable later.
    """
    name = f"{file.parent.name}/{file.name}"
    try:
        found = footer_of(file).schema
    except (pa.ArrowException, OSError) as error:
        if may_pass(error, file):
            raise
        return f"{name} cannot be read as Parquet: {' '.join(str(error).split())[:160].rstrip('.')}."
    types = {field.name: field.type for field in found}
    owed = [field for field in schema if field.name in types or field.name not in LATER]
    wrong = [field.name for field in owed if not _compatible(types.get(field.name), field.type)]
    return f"{name} is no table of this format: column {wrong[0]} is missing or of another type." if wrong else None


def _compatible(found: pa.DataType | None, wanted: pa.DataType) -> bool:
    # Writers call a list's field item or element.
    if found is not None and pa.types.is_list(wanted):
        return pa.types.is_list(found) and bool(found.value_type == wanted.value_type)
    return bool(found == wanted)
