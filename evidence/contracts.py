"""Complete the tallies of the tables' contracts with what no partition's pass has read."""

from __future__ import annotations

from collections.abc import Collection

from evidence.reader import Tables
from evidence.run import Run
from expectations.tallies import BY_PARTITION, COLUMNS, UNCOUNTED, WHOLE, Tallies
from history.partition import TopicPartition


def complete(run: Run, tallies: Tallies, judged: Collection[TopicPartition]) -> None:
    """Count the tables that the driver reads, and rows of other partitions than the judged ones."""
    tables = Tables(run.folder)
    for name in WHOLE:
        tallies.add(name, run.whole[name])
    for name in BY_PARTITION:
        recorded = tables.rows(name)
        if tallies.rows[name] != recorded:
            for where in tables.partitions(name):
                if where not in judged:
                    tallies.add(name, tables.read(name, where))
        if tallies.rows[name] != recorded:
            tallies.add_broken(name, UNCOUNTED, abs(recorded - tallies.rows[name]))
    for name in (*WHOLE, *BY_PARTITION):
        if undeclared := tables.undeclared(name):
            tallies.add_broken(name, COLUMNS, tallies.rows[name], [{"column": column} for column in undeclared])
