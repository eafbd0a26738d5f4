"""Headers of batches: every field comes back, and damage is a row."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_files.batches import (
    FIELDS,
    HEADER,
    Problem,
    header_slices,
    headers,
    last_offsets,
    mapped,
    problem_text,
    whole_batches,
)
from tests.evidence.folders import batch, values
from tests.kafka_files.written import Record, batch_of, message

TWO = batch(0, values(0, 1)) + batch(2, values(2), epoch=1)
LENGTH_AT, MAGIC_AT, EPOCH_AT = 8, 16, 15


def problems(data):
    """The problems of a segment's batches."""
    return headers(data)["problem"].tolist()


def changed(data, at, byte):
    """Some bytes with another one in them."""
    return data[:at] + bytes([byte]) + data[at + 1 :]


def test_every_field_of_a_header_comes_back():
    """As it was written, beside the place of the batch and its size."""
    told = (2**40, 90, 3, 2, 4, -2, 5, 6, 2**50, 8, 9, 10, -11)
    (row,) = headers(HEADER.pack(*told) + bytes(41))

    assert tuple(row[name].item() for name in FIELDS) == told
    assert (row["position"], row["size"]) == (0, 102)
    assert headers(TWO)["position"].tolist() == [0, len(batch(0, values(0, 1)))]
    assert last_offsets(headers(TWO)).tolist() == [1, 2]


@pytest.mark.parametrize("cut", [1, 40, 100])
def test_a_torn_tail_is_the_last_row(cut):
    """A segment that ends within a batch keeps the batches before it."""
    assert problems(TWO[:-cut]) == [0, Problem.TORN_TAIL]
    assert len(whole_batches(TWO[:-cut])) == 1
    assert problems(TWO) == [0, 0]


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 2**31 - 1])
def test_a_length_that_leads_nowhere_ends_the_segment(length):
    """Nothing after it can be found, and nothing of what it claims is reserved; one that is too large by 1 is torn."""
    lying = TWO[:LENGTH_AT] + struct.pack(">i", length) + TWO[LENGTH_AT + 4 :]

    (row,) = headers(lying)
    assert (row["problem"], row["size"]) == (Problem.TORN_TAIL, len(TWO))


def test_preallocated_zeros_are_a_torn_tail():
    """As a segment that is being written has them on some systems."""
    assert problems(TWO + bytes(200)) == [0, 0, Problem.TORN_TAIL]


def test_a_changed_byte_is_a_bad_crc_and_the_next_batch_is_read():
    """One flipped bit below the checksum shows; the batch's epoch is not covered by it."""
    damaged = changed(TWO, 90, TWO[90] ^ 1)

    assert problems(damaged) == [Problem.BAD_CRC, 0]
    assert headers(damaged, verify=False)["problem"].tolist() == [0, 0]
    assert problems(changed(TWO, EPOCH_AT, TWO[EPOCH_AT] ^ 1)) == [0, 0]


def test_a_large_batch_is_verified_in_pieces():
    """Its last byte counts as well as its first."""
    data = batch_of(0, [Record(bytes(3 << 20))])

    assert problems(data) == [0]
    assert problems(changed(data, len(data) - 2, 1)) == [Problem.BAD_CRC]


def test_an_unknown_format_is_named():
    """Its checksum is elsewhere, so that it is not verified."""
    (row, sound) = headers(changed(TWO, MAGIC_AT, 3))

    assert (problem_text(row), problem_text(sound)) == ("magic 3", None)


def test_a_batch_behind_old_messages_is_read():
    """Messages of formats 0 and 1 may be shorter than a header of format 2; each is named, sound or damaged."""
    old = message(0, b"tiny", magic=0) + message(1, b"tiny", magic=1)

    assert problems(old + batch(2, values(2))) == [Problem.MAGIC, Problem.MAGIC, 0]
    assert problems(changed(old, len(old) - 1, 0)) == [Problem.MAGIC, Problem.BAD_CRC]
    assert problems(old[:-1]) == [Problem.MAGIC, Problem.TORN_TAIL]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_slices_are_the_whole(most):
    """Whatever their size, the torn tail included; an empty segment has none."""
    data = TWO + batch(3, values(3)) + b"torn"
    rows = [row["position"] for found in header_slices(data, most) for row in found]

    assert rows == headers(data)["position"].tolist()
    assert list(header_slices(b"", most)) == []


def test_a_file_is_mapped(tmp_path):
    """One without a byte, too; what was read of it lives on."""
    for data, count in ((TWO, 2), (b"", 0)):
        (tmp_path / "segment").write_bytes(data)
        with mapped(tmp_path / "segment") as found:
            assert len(headers(found)) == count


@given(st.binary(max_size=300))
def test_any_bytes_are_rows(data):
    """Which follow one another to the end of the data."""
    ends = [0]
    for found in header_slices(data, 2):
        for row in found:
            assert row["position"] == ends[-1]
            ends.append(int(row["position"] + row["size"]))
    assert ends[-1] == len(data)


@given(st.lists(st.tuples(st.integers(0, len(TWO) - 1), st.integers(0, 255)), max_size=4), st.integers(0, len(TWO)))
def test_damaged_batches_are_rows(changes, end):
    """Sound batches that are changed and cut anywhere still come to an end."""
    data = TWO
    for at, byte in changes:
        data = changed(data, at, byte)
    data = data[:end]

    assert sum(int(row["size"]) for found in header_slices(data) for row in found) == len(data)
