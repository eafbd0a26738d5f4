"""Segments as rows: one for each record, control batch and unreadable place."""

import pyarrow as pa
import pytest

from kafka_files.segments import SEGMENTS, read_segment, segment_files
from tests.evidence.folders import batch, values
from tests.kafka_files.written import Record, batch_of, gzipped

TWO = batch(0, values(0, 1)) + batch(2, values(2), epoch=1)


def segment(folder, data, replica="orders-0"):
    """Write a segment file of one replica of broker-1."""
    path = folder / "broker-1" / "data" / replica
    path.mkdir(parents=True)
    file = path / f"{0:020}.log"
    file.write_bytes(data)
    return file


def rows(folder, data):
    """Return the rows of a segment."""
    return pa.Table.from_batches(read_segment("broker-1", segment(folder, data)), SEGMENTS).to_pylist()


def test_a_row_a_record(tmp_path):
    """A record is a row with its replica, its batch and its payload's fields."""
    last = rows(tmp_path, TWO)[2]

    assert {name: value for name, value in last.items() if name not in ("crc", "position")} == {
        "node": "broker-1",
        "topic": "orders",
        "partition": 0,
        "segment": f"{0:020}.log",
        "batch_offset": 2,
        "offset": 2,
        "leader_epoch": 1,
        "producer_id": "load-1",
        "seq": 2,
        "checksum_ok": True,
        "problem": None,
        "last_offset": 2,
        "kafka_producer_id": None,
        "transactional": False,
        "marker": None,
    }
    assert (last["position"], last["crc"]) == (
        len(batch(0, values(0, 1))),
        int.from_bytes(TWO[last["position"] + 17 :][:4]),
    )


def test_places_that_could_not_be_read_stand_in_their_order(tmp_path):
    """Unreadable places are rows in order among the records: a bad CRC, a malformed batch and a torn tail."""
    changed = bytearray(batch(1, values(1)))
    changed[90] ^= 1
    lying = batch_of(3, [Record()], count=9, epoch=5)
    found = rows(tmp_path, batch(0, values(0)) + changed + batch(2, values(2)) + lying + b"torn")

    told = [(row["offset"], row["batch_offset"], row["leader_epoch"], row["problem"]) for row in found]
    assert told == [
        (0, 0, 0, None),
        (None, 1, 0, "bad crc"),
        (2, 2, 0, None),
        (None, 3, 5, "malformed"),
        (None, None, None, "torn tail"),
    ]
    assert {row["checksum_ok"] for row in found if row["offset"] is None} == {None}


def test_compressed_records_are_rows_like_others(tmp_path):
    """Compressed records are ordinary rows, and an unknown codec is a problem."""
    packed = gzipped(0, [Record(value) for value in values(7)])
    found = rows(tmp_path, packed + batch(1, values(1), attributes=6))

    assert [(row["seq"], row["problem"]) for row in found] == [(7, None), (None, "codec 6")]


@pytest.mark.parametrize(("key", "kind"), [(b"\0\0\0\1", "commit"), (b"\0\0\0\0", "abort"), (b"\0", "other")])
def test_a_control_batch_is_a_row_with_a_marker(tmp_path, key, kind):
    """A control batch is a row with a marker and the last offset; a record has no marker."""
    found = rows(tmp_path, batch(0, values(0), attributes=0x10) + batch_of(1, [Record(b"", key)], attributes=0x30))

    told = [[row[name] for name in ("offset", "last_offset", "transactional", "marker", "problem")] for row in found]
    assert told == [[0, 0, True, None, None], [None, 1, True, kind, None]]


def test_an_empty_segment_has_no_rows(tmp_path):
    """An empty segment, as a new one is, has no rows."""
    assert rows(tmp_path, b"") == []


def test_internal_topics_are_left_out(tmp_path):
    """Internal topics are left out."""
    kept = segment(tmp_path, b"")
    segment(tmp_path, b"", replica="__consumer_offsets-0")

    assert segment_files(tmp_path) == [kept]
