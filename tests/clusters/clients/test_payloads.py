"""Values that are made ahead are those that are made one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.clients.payloads import Values
from history.errors import BadInput
from history.payload import MAX_SEQ, MIN_RECORD_BYTES, encode


@given(
    first=st.one_of(st.integers(0, MAX_SEQ - 50), st.sampled_from([0, 980, 9_990, 999_990])),
    record_bytes=st.integers(MIN_RECORD_BYTES, 3000),
)
def test_each_value_is_its_own(first: int, record_bytes: int) -> None:
    """Whatever the size, and where the numbers get another digit."""
    made = Values("load-1", record_bytes)

    assert [made.of(first + at) for at in range(40)] == [encode("load-1", first + at, record_bytes) for at in range(40)]


def test_numbers_may_be_left_out_and_asked_for_again() -> None:
    """Records that were refused have no value; one that is tried again has its own."""
    made = Values("load-1", 100)
    asked = [0, 1, 1005, 2006, 3, 3]

    assert [made.of(seq) for seq in asked] == [encode("load-1", seq, 100) for seq in asked]


def test_a_record_that_is_too_small_is_refused() -> None:
    """In the words of one value."""
    with pytest.raises(BadInput, match="cannot carry producer id"):
        Values("x" * 60, 64)
