"""Counts and keys of rows that break a rule."""

import numpy as np
import pyarrow as pa
import pytest

from expectations.tallies import MAX_EXAMPLES, NULLS, Tallies
from history.tables import RECORDED
from tests.evidence.folders import polled, sent

KEYS = "producer_id, seq are unique together"


def of_keys(*parts):
    """Return the merged tallies of parts of sends, each with (producer, numbers)."""
    found = []
    for part in parts:
        rows = [sent(seq, offset=seq, producer_id=name) for name, numbers in part for seq in numbers]
        found.append(Tallies())
        found[-1].add("sends", pa.Table.from_pylist(rows, RECORDED["sends"]))
    return Tallies().merge(found)


@pytest.mark.parametrize(
    ("parts", "rows", "keys"),
    [
        ([[("a", [0, 1])], [("a", [2, 3])]], 0, []),
        ([[("a", [0, 1])], [("b", [0, 1])]], 0, []),  # another producer's
        ([[("a", [0, 1])], [("a", [1, 2])]], 2, [("a", 1)]),
        ([[("a", [7, 7])], [("a", [8])], [("a", [7])]], 3, [("a", 7)]),
        ([[("a", [65535])], [("a", [65536])]], 0, []),  # neighbours in two blocks
        ([[("a", [65536, 0])], [("b", [5]), ("a", [65536])]], 2, [("a", 65536)]),
        ([[("a", [2**30])], [("a", [2**30])]], 2, [("a", 2**30)]),
    ],
)
def test_a_number_is_found_again_in_any_part(parts, rows, keys):
    """A producer's number that is used twice is found with its key, in one part or in several."""
    found = [(count, examples) for _, rule, count, examples in of_keys(*parts).violations() if rule == KEYS]

    assert found == ([(rows, [{"producer_id": name, "seq": seq} for name, seq in keys])] if rows else [])


@pytest.mark.parametrize("size", [4095, 4096, 30_000])
def test_many_numbers_are_as_exact_as_few(size):
    """Blocks of two bytes a number and of one bit a number find the same."""
    numbers = np.random.default_rng(size).permutation(65_536)[:size].tolist()
    sound = of_keys([("a", numbers[::2])], [("a", numbers[1::2])])
    twice = of_keys([("a", numbers[::2])], [("a", [*numbers[1::2], numbers[0]])])

    assert not [*sound.violations()]
    assert [count for _, rule, count, _ in twice.violations() if rule == KEYS] == [2]


def test_null_equals_null():
    """Null equals null in a key that should not have any."""
    rows = [polled(0, 0, consumer_id=None), polled(0, 0, consumer_id=None), polled(0, 0)]
    tallies = Tallies()
    tallies.add("polls", pa.Table.from_pylist(rows, RECORDED["polls"]))

    assert {rule: count for _, rule, count, _ in tallies.violations()} == {
        NULLS: 2,
        "consumer_id, pass, topic, partition, position are unique together": 2,
    }


def test_all_rows_are_counted_and_the_first_are_shown():
    """All failing rows are counted, and the first ones in the order of the parts are shown with their keys."""
    parts = []
    for seqs in (range(15), range(15, 30)):
        rows = [sent(seq, offset=seq, outcome="fine") for seq in seqs]
        parts.append(Tallies())
        parts[-1].add("sends", pa.Table.from_pylist([*rows, sent(99, offset=99)], RECORDED["sends"]))
    merged = Tallies().merge(parts)
    count, examples = next((count, rows) for _, rule, count, rows in merged.violations() if "outcome" in rule)

    assert (count, merged.rows["sends"]) == (30, 32)
    assert examples == [{"producer_id": "load-1", "seq": seq, "outcome": "fine"} for seq in range(MAX_EXAMPLES)]
