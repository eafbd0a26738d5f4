"""Time three ways of delivery accounting on the same ledgers: ``python -m bench.accounting RUN``.

DuckDB, Python sets as in ducktape, and the judge must count the same records (``docs/verdicts.md``).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import targets
from bench.host import host
from evidence.columns import Names, Polls, Sends
from evidence.reader import Tables
from history.folder import RunFolder
from history.partition import TopicPartition
from history.tables import POLLS, SENDS
from judge.checks.account import account, counts

ROUNDS = 5
SUMS = ("sent", "acked", "indeterminate", "failed", "read", "lost", "unseen", "duplicated", "duplicate_copies")
COUNTS = (*SUMS, "phantom")
OF_SENDS = ("producer_id", "seq", "outcome", "offset", "acks")
OF_POLLS = ("producer_id", "seq", "offset", "pass", "checksum_ok")
Accounts = dict[tuple[str, int], dict[str, int]]
Method = Callable[[Path], Accounts]

_SQL = """
WITH places AS (
    SELECT topic, partition, producer_id, seq, "offset" AS place,
           bool_or("pass" = 'final') AS final, bool_or(checksum_ok) AS sound
    FROM read_parquet($polls) WHERE producer_id IS NOT NULL GROUP BY ALL
), reads AS (
    SELECT topic, partition, producer_id, seq, bool_or(final) AS read, count(*) FILTER (final) AS copies,
           bool_or(sound) AS sound, min(place) AS first_place, max(place) AS last_place
    FROM places GROUP BY ALL
), records AS (
    SELECT *, s.outcome IS NOT NULL AS sent_here,
           s.outcome = 'ok' OR (s.outcome = 'info' AND r.first_place IS NOT NULL) AS committed,
           CASE WHEN s.outcome = 'ok' OR (s.outcome = 'info' AND r.first_place IS NOT NULL) THEN s.place END AS acked_at
    FROM (SELECT topic, partition, producer_id, seq, outcome, "offset" AS place FROM read_parquet($sends)) AS s
    FULL JOIN reads AS r USING (topic, partition, producer_id, seq)
), bounds AS (
    SELECT topic, partition, max(least(first_place, acked_at)) AS bound FROM records WHERE read GROUP BY ALL
), fates AS (
    SELECT *, committed AND NOT coalesce(read, false) AS missing,
           coalesce(greatest(last_place, acked_at) <= bound, false) AS passed
    FROM records LEFT JOIN bounds USING (topic, partition)
)
SELECT topic, partition,
       count(*) FILTER (sent_here) AS sent,
       count(*) FILTER (outcome = 'ok') AS acked,
       count(*) FILTER (outcome = 'info') AS indeterminate,
       count(*) FILTER (outcome = 'fail') AS failed,
       count(*) FILTER (sent_here AND read) AS read,
       count(*) FILTER (missing AND passed) AS lost,
       count(*) FILTER (missing AND NOT passed) AS unseen,
       count(*) FILTER (sent_here AND copies > 1) AS duplicated,
       coalesce(sum(copies - 1) FILTER (sent_here AND copies > 1), 0)::BIGINT AS duplicate_copies,
       count(*) FILTER (NOT sent_here AND sound) AS phantom
FROM fates GROUP BY ALL
"""


class Timing(NamedTuple):
    """The seconds of one method over all rounds."""

    name: str
    seconds: list[float]

    @property
    def middle(self) -> float:
        return median(self.seconds)


def by_duckdb(run: Path) -> Accounts:
    """Count by one SQL query over the Parquet files."""
    import duckdb  # in the development lock only

    with duckdb.connect() as connection:
        cursor = connection.execute(_SQL, {"sends": f"{run}/sends/*.parquet", "polls": f"{run}/polls/*.parquet"})
        return {(row[0], row[1]): dict(zip(COUNTS, row[2:], strict=True)) for row in cursor.fetchall()}


class _Reads:
    def __init__(self) -> None:
        self.first: dict[tuple[str, int], int] = {}
        self.last: dict[tuple[str, int], int] = {}
        self.final: dict[tuple[str, int], set[int]] = defaultdict(set)
        self.sound: set[tuple[str, int]] = set()


def by_sets(run: Path) -> Accounts:
    """Count by sets of acknowledged and read records."""
    reads = _reads(run)
    ledgers: dict[tuple[str, int], dict[tuple[str, int], tuple[str, int | None]]] = defaultdict(dict)
    columns = ("topic", "partition", "producer_id", "seq", "outcome", "offset")
    for topic, partition, producer, seq, outcome, offset in _rows(run / "sends", columns):
        ledgers[topic, partition][producer, seq] = outcome, offset
    return {where: _account(ledgers[where], reads[where]) for where in {*ledgers, *reads}}


def _rows(folder: Path, names: Sequence[str]) -> Any:
    table = pq.read_table(folder, columns=list(names))
    return zip(*(table.column(name).to_pylist() for name in names), strict=True)


def _reads(run: Path) -> dict[tuple[str, int], _Reads]:
    reads: dict[tuple[str, int], _Reads] = defaultdict(_Reads)
    columns = ("topic", "partition", "producer_id", "seq", "offset", "pass", "checksum_ok")
    for topic, partition, producer, seq, offset, which, sound in _rows(run / "polls", columns):
        if producer is None:
            continue
        own, value = reads[topic, partition], (producer, seq)
        own.first[value] = min(offset, own.first.get(value, offset))
        own.last[value] = max(offset, own.last.get(value, offset))
        if which == "final":
            own.final[value].add(offset)
        if sound:
            own.sound.add(value)
    return reads


def _account(ledger: Mapping[tuple[str, int], tuple[str, int | None]], reads: _Reads) -> dict[str, int]:
    places = {
        value: offset
        for value, (outcome, offset) in ledger.items()
        if outcome == "ok" or (outcome == "info" and value in reads.first)
    }
    bound = max((_at(min, value, reads.first, places) for value in reads.final), default=-1)
    missing = places.keys() - reads.final.keys()
    lost = sum(0 <= _at(max, value, reads.last, places) <= bound for value in missing)
    outcomes = Counter(outcome for outcome, _ in ledger.values())
    copies = [len(offsets) for value, offsets in reads.final.items() if value in ledger and len(offsets) > 1]
    return {
        "sent": len(ledger),
        "acked": outcomes["ok"],
        "indeterminate": outcomes["info"],
        "failed": outcomes["fail"],
        "read": len(ledger.keys() & reads.final.keys()),
        "lost": lost,
        "unseen": len(missing) - lost,
        "duplicated": len(copies),
        "duplicate_copies": sum(copies) - len(copies),
        "phantom": len(reads.sound - ledger.keys()),
    }


def _at(
    which: Callable[[list[int]], int],
    value: tuple[str, int],
    read: Mapping[tuple[str, int], int],
    acked: Mapping[tuple[str, int], int | None],
) -> int:
    """Return -1 if the record was neither read nor acknowledged."""
    known = [offset for offset in (read.get(value), acked.get(value)) if offset is not None]
    return which(known) if known else -1


def by_judge(run: Path) -> Accounts:
    """Count as the judge does, one partition per core."""
    tables = Tables(RunFolder(run))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(partial(_judged, tables), tables.partitions("sends", "polls"))
        return {(where.topic, where.partition): counted for where, counted in found}


def _widened(table: pa.Table, schema: pa.Schema) -> pa.Table:
    for each in schema:
        if each.name not in table.column_names:
            table = table.append_column(each, pa.nulls(table.num_rows, each.type))
    return table


def _judged(tables: Tables, where: TopicPartition) -> tuple[TopicPartition, dict[str, int]]:
    names = Names()
    sends = Sends.of(_widened(tables.read("sends", where, OF_SENDS), SENDS), names)
    polls = Polls.of(_widened(tables.read("polls", where, OF_POLLS), POLLS), names)
    told = account(sends, polls, {}, drain=None, whole=False)
    unsent = polls.value[(polls.value >= 0) & ~polls.damaged & (told.groups.of_read < 0)]
    counted = counts(sends, told)
    return where, {name: counted[name] for name in SUMS} | {"phantom": int(np.unique(unsent).size)}


def methods() -> dict[str, Method]:
    """Return all methods by name."""
    return {"duckdb": by_duckdb, "sets": by_sets, "judge": by_judge}


def compare(run: Path, rounds: int, ways: Mapping[str, Method]) -> list[Timing]:
    """Time each method in interleaved rounds.

    Raises:
        AssertionError: two methods give different numbers.
    """
    names, seconds = list(ways), {name: list[float]() for name in ways}
    expected: Accounts | None = None
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            began_s = time.perf_counter()
            accounts = ways[name](run)
            seconds[name].append(time.perf_counter() - began_s)
            expected = accounts if expected is None else expected
            assert accounts == expected, f"{name} gives other numbers than {names[0]}: {accounts} instead of {expected}"
    return [Timing(name, seconds[name]) for name in names]


def results(timings: Sequence[Timing], records: int) -> list[targets.Json]:
    """Return the judge's speed relative to the others."""
    by_name = {timing.name: timing for timing in timings}
    judge = by_name.pop("judge", None)
    if judge is None:
        return []
    rows = []
    for name, other in by_name.items():
        ratios = [theirs / own for theirs, own in zip(other.seconds, judge.seconds, strict=True)]
        measured = {"low": min(ratios), "high": max(ratios), "rounds": len(ratios), "records": records}
        rows.append(targets.row(f"accounting_over_{name}", median(ratios), **measured, host=host()))
    return rows


def main(argv: Sequence[str]) -> int:
    """Compare the methods on a run folder."""
    parser = argparse.ArgumentParser(prog="python -m bench.accounting", description="Time delivery accounting.")
    parser.add_argument("run", type=Path, help="a run folder, such as bench.folders writes")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--record", action="store_true", help="append the figures to bench/results.json")
    arguments = parser.parse_args(argv)
    timings = compare(arguments.run, arguments.rounds, methods())
    records = sum(pq.read_metadata(file).num_rows for file in (arguments.run / "sends").glob("*.parquet"))
    measured_on = host()
    print(f"{records:,} records, {arguments.rounds} rounds on {measured_on['cores']} x {measured_on['cpu']}")
    for timing in timings:
        low, high = min(timing.seconds), max(timing.seconds)
        print(f"{timing.name:<8}{timing.middle:8.2f} s, {low:.2f} to {high:.2f}; {records / timing.middle:,.0f} /s")
    rows = results(timings, records)
    for row in rows:
        print(f"{row['target']}: {row['figure']:.1f} {row['unit']}, {'met' if row['met'] else 'NOT met'}")
    if arguments.record:
        targets.record(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
