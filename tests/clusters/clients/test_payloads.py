"""Values that are made ahead are those that are made one by one."""

import gzip
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.clients.payloads import Filling, Values
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
    """Whatever the size, and where the numbers get another digit."""
    assert _values(Values("load-1", record_bytes), first, 40) == [
        encode("load-1", first + at, record_bytes) for at in range(40)
    ]


def _values(made: Values, first: int, count: int) -> list[bytes]:
    found = list[bytes]()
    while len(found) < count:
        block = made.block(first + len(found), count - len(found))
        found += [block.of(at) for at in range(block.records)]
    return found


def test_numbers_may_be_left_out_and_asked_for_again() -> None:
    """Records that were refused have no value; one that is tried again has its own."""
    made = Values("load-1", 100)
    asked = [0, 1, 1005, 2006, 3, 3]

    assert [made.block(seq, 1).of(0) for seq in asked] == [encode("load-1", seq, 100) for seq in asked]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_batches_compress_to_what_was_asked_for(codec: str, share: float) -> None:
    """About: of records of 200 bytes, in a batch of 500; those that repeat themselves to a tenth."""
    values = Values("load-1", 200, Filling.compressing_to(share, 200)).block(5000, 500).data[: 200 * 500].tobytes()
    alike = Values("load-1", 200).block(5000, 500).data[: 200 * 500].tobytes()

    assert len(CODECS[codec](values)) / len(values) == pytest.approx(share, abs=0.1)
    assert len(CODECS[codec](alike)) / len(alike) < 0.15


def test_a_file_fills_records_stretch_by_stretch() -> None:
    """Each begins where the one before it ended, and at the beginning again once no whole stretch is left."""
    filling = Filling(b"0123456789", 1.0, 4)

    assert [filling.of(seq, 3) for seq in range(4)] == [b"012", b"345", b"678", b"123"]
    assert filling.of(0, 6) == b"0123ab"
    assert encode("p", 1, 64, lambda size: filling.of(1, size)) == Values("p", 64, filling).block(1, 1).of(0)


def test_a_record_that_is_too_small_is_refused() -> None:
    """In the words of one value."""
    with pytest.raises(BadInput, match="cannot carry producer id"):
        Values("x" * 60, 64)
