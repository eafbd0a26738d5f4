"""Values made in blocks are equal to values made one by one."""

import gzip
from collections.abc import Callable
from typing import Any

import cramjam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.clients.payloads import MADE_BYTES, Filling, Values
from history.draws import Keys, Sizes
from history.errors import BadInput
from history.payload import MAX_SEQ, MIN_RECORD_BYTES, encode

CODECS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data, 3)),
}


@given(
    first=st.one_of(st.integers(0, MAX_SEQ - 50), st.sampled_from([0, 980, 9_990, 999_990])),
    record_bytes=st.integers(MIN_RECORD_BYTES, 3000),
)
def test_each_value_is_its_own(first: int, record_bytes: int) -> None:
    """Each value carries its own number, at any size and where the number gets another digit."""
    assert _values(Values("load-1", Sizes.of(record_bytes)), first, 40) == [
        encode("load-1", first + at, record_bytes) for at in range(40)
    ]


def _values(made: Values, first: int, count: int) -> list[bytes]:
    found = list[bytes]()
    while len(found) < count:
        block = made.block(first + len(found), count - len(found))
        found += block.cut()
    return found


SHAPES: list[dict[str, Any]] = [
    {"uniform": [64, 300]},
    {"lognormal": {"median": 100, "p99": 5000, "max": 20_000}},
    {"mix": {"64": 0.5, "65": 0.3, "4000": 0.2}},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: next(iter(shape)))
@given(first=st.one_of(st.integers(0, MAX_SEQ - 50), st.sampled_from([0, 980, 9_990, 999_990])))
def test_each_value_is_its_own_whatever_the_sizes(shape: dict[str, Any], first: int) -> None:
    """With sizes from a distribution, each value carries its own number and has the length of that number."""
    sizes = Sizes.of(shape, "7 load-1")
    lengths = sizes.of_records(np.arange(first, first + 40)).tolist()

    assert _values(Values("load-1", sizes), first, 40) == [
        encode("load-1", first + at, length) for at, length in enumerate(lengths)
    ]


@given(first=st.integers(0, MAX_SEQ - 50), record_bytes=st.sampled_from([20_000, 350_001, 1_100_000]))
def test_few_large_values_are_made_at_a_time(first: int, record_bytes: int) -> None:
    """A block of large values has about 1 MB or a single value, and starts with the requested number."""
    made = Values("load-1", Sizes.of(record_bytes))
    block = made.block(first, 40)

    assert 1 <= block.records <= max(MADE_BYTES // record_bytes, 1)
    assert block.data.size <= max(MADE_BYTES, record_bytes)
    assert _values(made, first, 3) == [encode("load-1", first + at, record_bytes) for at in range(3)]


def test_a_block_has_the_keys_of_its_records() -> None:
    """A block has the keys of its records, wherever it begins; without keys there are none."""
    keys = Keys.of({"count": 9, "distribution": "uniform"}, "7 load-1")
    made = Values("load-1", Sizes.of(100), keys=keys)
    blocks = made.block(990, 40), made.block(1000, 30)

    assert [block.key_of(at) for block in blocks for at in range(block.records)] == [
        key.tobytes() for key in keys.of_records(np.arange(990, 1030))
    ]
    assert Values("load-1", Sizes.of(100)).block(0, 1).key_of(0) is None


def test_numbers_may_be_left_out_and_asked_for_again() -> None:
    """Numbers may be skipped (rejected records) and requested again (retries)."""
    made = Values("load-1", Sizes.of(100))
    asked = [0, 1, 1005, 2006, 3, 3]

    assert [made.block(seq, 1).cut()[0] for seq in asked] == [encode("load-1", seq, 100) for seq in asked]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_batches_compress_to_what_was_asked_for(codec: str, share: float) -> None:
    """Batches compress to about the wanted share; without a filling they compress to less than 15%."""
    filling = Filling.compressing_to(share, Sizes.of(200))
    values = Values("load-1", Sizes.of(200), filling).block(5000, 500).data[: 200 * 500].tobytes()
    alike = Values("load-1", Sizes.of(200)).block(5000, 500).data[: 200 * 500].tobytes()

    assert len(CODECS[codec](values)) / len(values) == pytest.approx(share, abs=0.1)
    assert len(CODECS[codec](alike)) / len(alike) < 0.15


def test_a_file_fills_records_stretch_by_stretch() -> None:
    """Each record's filling begins where the previous one ended, and wraps when no whole stretch is left."""
    filling = Filling(b"0123456789", 1.0, Sizes.of(4))
    begins = filling.starts(0, np.full(1000, 4))[:4].tolist()

    assert begins == [0, 4, 1, 5]
    assert [filling.of(begin, 4, 3) for begin in begins] == [b"012", b"456", b"123", b"567"]
    assert filling.of(0, 4, 6) == b"0123ab"


@pytest.mark.parametrize("seq", [1, 7_001])
def test_records_of_different_sizes_are_filled_from_a_file(seq: int) -> None:
    """With records of different sizes, each filling begins where the previous one ended."""
    source, sizes = bytes(range(251)) * 2000, Sizes.of({"uniform": [64, 200]})
    before, own = (Values("p", sizes, Filling(source, 1.0, sizes)).block(each, 1).cut()[0] for each in (seq - 1, seq))
    head = len(f"p|{seq}|")

    assert own[head] == (before[head] + len(before)) % 251
    assert own[head:-8] in source


def test_a_record_that_is_too_small_is_refused() -> None:
    """A record size that cannot carry the producer id is rejected."""
    with pytest.raises(BadInput, match="cannot carry producer id"):
        Values("x" * 60, Sizes.of(64))
