"""Keys and sizes of records, from a seed and their numbers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from history.draws import Keys, Sizes, draws, partitions_of
from history.payload import MAX_SEQ

SEQS = np.arange(100_000)
LOGNORMAL = {"lognormal": {"median": 500, "p99": 20_000, "max": 50_000}}


@given(seq=st.integers(0, MAX_SEQ), seed=st.text(max_size=5))
def test_a_draw_is_a_function_of_seed_and_number(seq: int, seed: str) -> None:
    """Alone or among others, from 0 to below 1."""
    (alone,) = draws(seed, np.array([seq]))
    among = draws(seed, np.array([3, seq, 5]))

    assert 0 <= alone == among[1] < 1


def test_draws_are_evenly_spread() -> None:
    """Each tenth has a tenth of them, neighbours are not alike, and another seed has others."""
    found = draws("7", SEQS)

    assert np.histogram(found, 10, (0, 1))[0] / SEQS.size == pytest.approx(np.full(10, 0.1), abs=0.004)
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 0.01
    assert not np.any(found == draws("8", SEQS))


@pytest.mark.parametrize(
    ("told", "smallest", "largest", "mean"),
    [
        (100, 100, 100, 100),
        ({"uniform": [100, 199]}, 100, 199, 149.5),
        ({"mix": {"100": 0.9, "10000": 0.1}}, 100, 10_000, 1090),
        (LOGNORMAL, 64, 50_000, 1688),
    ],
)
def test_sizes_are_distributed_as_was_asked(told: Any, smallest: int, largest: int, mean: float) -> None:
    """Their bounds and mean are known beforehand, and the records keep them."""
    sizes = Sizes.of(told, "7")
    found = sizes.of_records(SEQS)

    assert (sizes.smallest, sizes.largest, sizes.mean) == (smallest, largest, pytest.approx(mean, abs=0.1))
    assert smallest <= found.min() <= found.max() <= largest
    assert found.mean() == pytest.approx(mean, rel=0.03)


def test_a_lognormal_has_its_quantiles() -> None:
    """Half are at most as long as its median, 99 % as its p99, and longer ones are cut."""
    likely = Sizes.of(LOGNORMAL).likely

    assert np.quantile(likely, [0.5, 0.99]) == pytest.approx([500, 20_000], rel=0.01)
    assert (likely == 50_000).sum() > 1


@pytest.mark.parametrize(
    ("told", "first", "second"),
    [
        ({"count": 100, "distribution": "uniform"}, 0.01, 0.01),
        ({"count": 100, "distribution": "hot", "hot": 0.5}, 0.5, 0.5 / 99),
        ({"count": 3, "distribution": "zipf", "exponent": 1.0}, 6 / 11, 3 / 11),
    ],
)
def test_keys_are_distributed_as_was_asked(told: dict[str, Any], first: float, second: float) -> None:
    """All are drawn, each as often as its distribution says."""
    counts = np.bincount(Keys.of(told, "7").numbers(SEQS))

    assert counts.size == told["count"]
    assert counts.min() > 0
    assert counts[:2] / SEQS.size == pytest.approx([first, second], abs=0.005)


def test_a_key_is_its_number_in_eight_digits() -> None:
    """As bytes, the same for the same number of a record."""
    keys = Keys.of({"count": 1000, "distribution": "uniform"}, "7")
    (key,) = keys.of_records(np.array([41]))

    assert key.tobytes() == b"%08d" % keys.numbers(np.array([41]))[0]


@given(keys=st.lists(st.integers(0, 10**8 - 1), min_size=1, max_size=20), partitions=st.integers(1, 1000))
def test_a_key_goes_where_a_client_sends_it(keys: list[int], partitions: int) -> None:
    """As kafka-python's own partitioner, which is Java's."""
    told = [b"%08d" % key for key in keys]
    found = partitions_of(np.frombuffer(b"".join(told), np.uint8).reshape(-1, 8), partitions)

    assert found.tolist() == [(murmur2(key) & 0x7FFFFFFF) % partitions for key in told]


def test_what_is_no_distribution_is_refused() -> None:
    """By its value."""
    with pytest.raises(ValueError, match="is no distribution of sizes"):
        Sizes.of({"normal": 1})
