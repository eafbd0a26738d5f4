"""Delivery accounting: every method yields the numbers of a count by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import accounting
from bench.accounting import COUNTS, Timing, by_duckdb, by_judge, by_sets, compare, results
from history.tables import POLLS, SENDS
from tests.evidence.folders import polled, sent

NOTHING = dict.fromkeys(COUNTS, 0)
EIGHT = [sent(n, offset=n) for n in range(8)]
ALL = [polled(n, n) for n in range(8)]
CASES: dict[str, tuple[list[Any], list[Any], dict[str, int]]] = {
    "clean": (EIGHT, ALL, {"sent": 8, "acked": 8, "read": 8}),
    "lost below a read one": (EIGHT, ALL[:3] + ALL[4:], {"sent": 8, "acked": 8, "read": 7, "lost": 1}),
    "not seen above all that was read": (EIGHT, ALL[:7], {"sent": 8, "acked": 8, "read": 7, "unseen": 1}),
    "acknowledged without an offset": (
        [*EIGHT[:3], sent(3), *EIGHT[4:]],
        ALL[:3] + ALL[4:],
        {"sent": 8, "acked": 8, "read": 7, "unseen": 1},
    ),
    "lost, and seen by the live consumer": (
        EIGHT,
        [*ALL[:3], polled(3, 3, final=False), *ALL[4:]],
        {"sent": 8, "acked": 8, "read": 7, "lost": 1},
    ),
    "indeterminate, seen by nobody": (
        [*EIGHT[:7], sent(7, outcome="info")],
        ALL[:7],
        {"sent": 8, "acked": 7, "indeterminate": 1, "read": 7},
    ),
    "indeterminate, seen and then lost": (
        [*EIGHT[:3], sent(3, outcome="info"), *EIGHT[4:]],
        [*ALL[:3], polled(3, 3, final=False), *ALL[4:]],
        {"sent": 8, "acked": 7, "indeterminate": 1, "read": 7, "lost": 1},
    ),
    "failed": ([*EIGHT[:7], sent(7, outcome="fail")], ALL, {"sent": 8, "acked": 7, "failed": 1, "read": 8}),
    "there three times": (
        EIGHT,
        [*ALL, polled(8, 2), polled(9, 2)],
        {"sent": 8, "acked": 8, "read": 8, "duplicated": 1, "duplicate_copies": 2},
    ),
    "read twice at one offset": (EIGHT, [*ALL, polled(2, 2)], {"sent": 8, "acked": 8, "read": 8}),
    "never sent": (EIGHT, [*ALL, polled(8, 99)], {"sent": 8, "acked": 8, "read": 8, "phantom": 1}),
    "never sent, and damaged": (
        EIGHT,
        [*ALL, polled(8, 99, checksum_ok=False)],
        {"sent": 8, "acked": 8, "read": 8},
    ),
    "not one of ours": (
        EIGHT,
        [*ALL, polled(8, None, producer_id=None)],
        {"sent": 8, "acked": 8, "read": 8},
    ),
}


def written(folder: Path, sends: list[Any], polls: list[Any]) -> Path:
    """Return a run folder with two tables."""
    for name, rows, schema in (("sends", sends, SENDS), ("polls", polls, POLLS)):
        (folder / name).mkdir()
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / name / "all.parquet")
    return folder


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", [by_duckdb, by_sets, by_judge])
def test_each_method_counts_as_a_person_does(tmp_path: Path, case: str, method: accounting.Method) -> None:
    """Each method yields the counts by hand, near misses included."""
    sends, polls, counts = CASES[case]

    assert method(written(tmp_path, sends, polls)) == {("orders", 0): NOTHING | counts}


def test_partitions_are_counted_apart(tmp_path: Path) -> None:
    """A record read in another partition than its send's counts as lost there and as a phantom record here."""
    run = written(tmp_path, EIGHT, [*ALL[:3], *ALL[4:], polled(0, 3, partition=1)])

    assert by_duckdb(run) == by_sets(run) == by_judge(run)
    assert {where: (row["lost"], row["phantom"]) for where, row in by_sets(run).items()} == {
        ("orders", 0): (1, 0),
        ("orders", 1): (0, 1),
    }


def test_methods_that_disagree_are_an_error(tmp_path: Path) -> None:
    """Methods that disagree are an error; rounds are interleaved and start with a different method each."""
    called: list[str] = []

    def counting(name: str, lost: int) -> accounting.Method:
        def method(run: Path) -> accounting.Accounts:
            called.append(name)
            return {("orders", 0): NOTHING | {"lost": lost}}

        return method

    timings = compare(tmp_path, 2, {"a": counting("a", 1), "b": counting("b", 1)})
    assert [(timing.name, len(timing.seconds)) for timing in timings] == [("a", 2), ("b", 2)]
    assert called == ["a", "b", "b", "a"]
    with pytest.raises(AssertionError, match="b gives other numbers"):
        compare(tmp_path, 1, {"a": counting("a", 1), "b": counting("b", 2)})


def test_figures_are_ratios_round_by_round() -> None:
    """A figure is the median of the rounds' ratios, with the lowest and the highest."""
    timings = [Timing("duckdb", [3.0, 2.0, 8.0]), Timing("judge", [1.0, 1.0, 2.0])]
    (found,) = results(timings, records=5)

    assert (found["target"], found["figure"], found["low"], found["high"]) == ("accounting_over_duckdb", 3.0, 2.0, 4.0)
    assert results(timings[:1], records=5) == []
