"""Headers of batches as rows, with damage as a problem in its row."""

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
    """Return the problems of a segment's batches."""
    return headers(data)["problem"].tolist()


def changed(data, at, byte):
    """Return bytes with one of them replaced."""
    return data[:at] + bytes([byte]) + data[at + 1 :]


def test_every_field_of_a_header_comes_back():
    """Every header field is read with its written value, and the batch has its position and size."""
    told = (2**40, 90, 3, 2, 4, -2, 5, 6, 2**50, 8, 9, 10, -11)
    (row,) = headers(HEADER.pack(*told) + bytes(41))

    assert tuple(row[name].item() for name in FIELDS) == told
    assert (row["position"], row["size"]) == (0, 102)
    assert headers(TWO)["position"].tolist() == [0, len(batch(0, values(0, 1)))]
    assert last_offsets(headers(TWO)).tolist() == [1, 2]


@pytest.mark.parametrize("cut", [1, 40, 100])
def test_a_torn_tail_is_the_last_row(cut):
    """A torn tail is the last row, and the batches before it are kept."""
    assert problems(TWO[:-cut]) == [0, Problem.TORN_TAIL]
    assert len(whole_batches(TWO[:-cut])) == 1
    assert problems(TWO) == [0, 0]


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 2**31 - 1])
def test_a_length_that_leads_nowhere_ends_the_segment(length):
    """An impossible length ends the segment without reserving memory for it."""
    lying = TWO[:LENGTH_AT] + struct.pack(">i", length) + TWO[LENGTH_AT + 4 :]

    (row,) = headers(lying)
    assert (row["problem"], row["size"]) == (Problem.TORN_TAIL, len(TWO))


def test_preallocated_zeros_are_a_torn_tail():
    """Preallocated zeros are a torn tail."""
    assert problems(TWO + bytes(200)) == [0, 0, Problem.TORN_TAIL]


def test_a_changed_byte_is_a_bad_crc_and_the_next_batch_is_read():
    """A flipped bit is a bad CRC, and the next batch is read; the CRC does not cover the leader epoch."""
    damaged = changed(TWO, 90, TWO[90] ^ 1)

    assert problems(damaged) == [Problem.BAD_CRC, 0]
    assert headers(damaged, verify=False)["problem"].tolist() == [0, 0]
    assert problems(changed(TWO, EPOCH_AT, TWO[EPOCH_AT] ^ 1)) == [0, 0]


def test_a_large_batch_is_verified_in_pieces():
    """A large batch is verified in pieces up to its last byte."""
    data = batch_of(0, [Record(bytes(3 << 20))])

    assert problems(data) == [0]
    assert problems(changed(data, len(data) - 2, 1)) == [Problem.BAD_CRC]


def test_an_unknown_format_is_named():
    """An unknown format is named, and its checksum is not verified."""
    (row, sound) = headers(changed(TWO, MAGIC_AT, 3))

    assert (problem_text(row), problem_text(sound)) == ("magic 3", None)


def test_a_batch_behind_old_messages_is_read():
    """A batch behind messages of formats 0 and 1 is read; each message is named, sound or damaged."""
    old = message(0, b"tiny", magic=0) + message(1, b"tiny", magic=1)

    assert problems(old + batch(2, values(2))) == [Problem.MAGIC, Problem.MAGIC, 0]
    assert problems(changed(old, len(old) - 1, 0)) == [Problem.MAGIC, Problem.BAD_CRC]
    assert problems(old[:-1]) == [Problem.MAGIC, Problem.TORN_TAIL]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_slices_are_the_whole(most):
    """Slices of any size yield the same rows as the whole; an empty segment has no slice."""
    data = TWO + batch(3, values(3)) + b"torn"
    rows = [row["position"] for found in header_slices(data, most) for row in found]

    assert rows == headers(data)["position"].tolist()
    assert list(header_slices(b"", most)) == []


def test_a_file_is_mapped(tmp_path):
    """A file can be mapped, also an empty one, and its headers outlive the mapping."""
    for data, count in ((TWO, 2), (b"", 0)):
        (tmp_path / "segment").write_bytes(data)
        with mapped(tmp_path / "segment") as found:
            assert len(headers(found)) == count


@given(st.binary(max_size=300))
def test_any_bytes_are_rows(data):
    """Any bytes yield rows that are contiguous to the end of the data."""
    ends = [0]
    for found in header_slices(data, 2):
        for row in found:
            assert row["position"] == ends[-1]
            ends.append(int(row["position"] + row["size"]))
    assert ends[-1] == len(data)


@given(st.lists(st.tuples(st.integers(0, len(TWO) - 1), st.integers(0, 255)), max_size=4), st.integers(0, len(TWO)))
def test_damaged_batches_are_rows(changes, end):
    """Damaged and cut batches yield rows that cover the data."""
    data = TWO
    for at, byte in changes:
        data = changed(data, at, byte)
    data = data[:end]

    assert sum(int(row["size"]) for found in header_slices(data) for row in found) == len(data)
