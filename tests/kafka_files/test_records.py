"""Records as columns equal the written ones, and an inconsistent batch has a problem."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from history.errors import EvidenceError
from kafka_files import records
from kafka_files.batches import HEADERS, Problem, headers
from kafka_files.records import RECORDS, decode, marker
from kafka_files.records import values as values_of
from tests.evidence.folders import batch, values, varint
from tests.kafka_files.written import Record, batch_of, gzipped

GIVEN_BYTES = st.none() | st.binary(max_size=200)
GIVEN = st.builds(
    Record,
    value=GIVEN_BYTES,
    key=GIVEN_BYTES,
    after_ms=st.integers(-(2**40), 2**40),
    delta=st.integers(0, 2**31 - 1),
    headers=st.lists(st.tuples(st.binary(max_size=9), GIVEN_BYTES), max_size=3).map(tuple),
)


def read(data, most_bytes=records.SLICE_BYTES):
    """Return a segment's headers after decoding, and the records' rows with their batch's number."""
    heads, rows = [], []
    for found, part in decode(data, headers(data), most_bytes):
        assert part.schema.equals(RECORDS)
        part.validate(full=True)
        rows += [{**row, "batch": row["batch"] + len(heads)} for row in part.to_pylist()]
        heads += list(found)
    return heads, rows


def problems(data):
    """Return the problems of a segment's batches after decoding."""
    return [head["problem"] for head in read(data)[0]]


def expected(batches):
    """Return the rows of (base offset, base time, records)."""
    return [
        {
            "batch": number,
            "base_offset": base,
            "offset": base + one.delta,
            "timestamp_ms": base_ms + one.after_ms,
            "key_length": -1 if one.key is None else len(one.key),
            "value_length": -1 if one.value is None else len(one.value),
        }
        for number, (base, base_ms, found) in enumerate(batches)
        for one in found
    ]


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 2**60), st.integers(0, 2**50), st.lists(GIVEN, min_size=1, max_size=6), st.booleans()),
        max_size=40,
    ),
    st.sampled_from([1, 300, records.SLICE_BYTES]),
)
def test_what_was_written_comes_back(batches, most_bytes):
    """Written records are read back from any number of batches, compressed or not, in slices of any size."""
    data = b"".join((gzipped if packed else batch_of)(b, found, base_ms=ms) for b, ms, found, packed in batches)
    heads, rows = read(data, most_bytes)

    want = expected([each[:3] for each in batches])
    assert [{name: row[name] for name in want[0]} for row in rows] == want if want else rows == []
    assert [head["problem"] for head in heads] == [0] * len(batches)
    assert [value for _, _, value in values_of(data, headers(data))] == [one.value for b in batches for one in b[2]]


@settings(max_examples=20)
@given(
    st.lists(st.lists(GIVEN, min_size=1, max_size=3), min_size=30, max_size=40),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=30),
)
def test_any_body_is_read_to_its_end(batches, changes):
    """Changed bytes under an unverified CRC leave each batch complete or with a problem, and never raise an error."""
    data = bytearray(b"".join(batch_of(n, found) for n, found in enumerate(batches)))
    rows = headers(bytes(data))
    for at, byte in changes:
        data[at % len(data)] = byte
    seen = {}
    for found, part in decode(bytes(data), rows, 500):
        counts = np.bincount(part["batch"].to_numpy(), minlength=len(found))
        seen |= {int(head["position"]): (head["problem"], count) for head, count in zip(found, counts, strict=True)}

    for head in rows:
        problem, count = seen[int(head["position"])]
        assert (problem, count) in {(0, head["record_count"]), (Problem.MALFORMED, 0)}


def test_batches_may_be_chosen():
    """Selected batches are decoded alone, such as one that differs between replicas."""
    data = b"".join(batch(n, values(n)) for n in range(3))
    ((found, part),) = decode(data, headers(data)[1:2])

    assert (found["base_offset"].tolist(), part["seq"].to_pylist()) == ([1], [1])
    assert list(decode(data, headers(data)[:0])) == []


@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.parametrize(
    ("count", "body"),
    [
        (2, None),  # more than there are
        (0, None),
        (-1, None),
        (2**31 - 1, None),
        (1, b""),
        (1, b"\x80" * 30),  # a length without an end
        (1, varint(2**31) + bytes(30)),  # beyond the end
        (1, varint(-5) + bytes(30)),
        (1, varint(7) + b"\0\0\0\1" + varint(100) + b"\0\0"),  # a value beyond the end
        (1, varint(7) + b"\0\0\0" + varint(-2) + b"\1\0\0\0"),  # a key of -2 bytes
        (1, varint(8) + b"\0\0\0\1\1\0\0\0"),  # two bytes more than the record has
        (1, varint(8) + b"\0" + b"\xff" * 7),  # a time without an end
        (1, varint(6) + b"\0\0\0\1\1" + varint(5)),  # headers that are not there
    ],
)
def test_records_that_do_not_fill_their_batch_are_malformed(count, body, times):
    """Records that do not fill their batch are malformed, even under a right CRC; other batches are read."""
    lying = batch_of(0, [Record()], count=count, body=body)
    heads, rows = read(batch(0, values(0)) + lying * times + batch(1, values(1)))

    assert [head["problem"] for head in heads] == [0, *[Problem.MALFORMED] * times, 0]
    assert [row["seq"] for row in rows] == [0, 1]


def test_a_batch_may_be_empty():
    """An empty batch, as compaction leaves it, is valid; an uncounted record is malformed."""
    assert read(batch_of(0, [], body=b""))[1] == []
    assert problems(batch_of(0, [], body=b"")) == [0]


def test_records_have_the_time_of_their_append():
    """Under LogAppendTime records have the batch's largest timestamp, otherwise their timestamps."""
    two = [Record(after_ms=1), Record(after_ms=3, delta=1)]
    _, rows = read(batch_of(0, two, base_ms=10, max_ms=99, attributes=8) + batch_of(2, two, base_ms=10, max_ms=99))

    assert [row["timestamp_ms"] for row in rows] == [99, 99, 11, 13]


def test_payloads_are_decoded():
    """Payloads yield producer and number; foreign ones are null and have no right checksum."""
    theirs = batch_of(2, [Record(None), Record(b"foreign", delta=1)], epoch=4)
    _, rows = read(batch(0, [*values(7), *values(8, producer_id="other")]) + theirs)

    told = [(row["producer"], row["seq"], row["checksum_ok"], row["leader_epoch"]) for row in rows]
    assert told == [("load-1", 7, True, 0), ("other", 8, True, 0), (None, None, False, 4), (None, None, False, 4)]


def control(key):
    """Return a control batch: one record with this key."""
    return batch_of(1, [Record(b"\0" * 4, key)], attributes=0x30)


@pytest.mark.parametrize(
    ("key", "kind"),
    [(b"\0\0\0\1", "commit"), (b"\0\0\0\0", "abort"), (b"\0\0\0\2", "other"), (b"\0", "other"), (None, "other")],
)
def test_a_control_batch_is_a_marker_and_holds_no_records(key, kind):
    """A control batch is a marker without records; a transactional batch of records is not."""
    data = batch(0, values(0), attributes=0x10) + control(key)
    heads, rows = read(data)

    assert [marker(data, head) for head in heads] == [None, kind]
    assert [row["batch"] for row in rows] == [0]


def test_an_unknown_codec_and_too_many_bytes_are_problems(monkeypatch):
    """An unknown codec, and a batch over the size limit, compressed or plain, are problems."""
    three = [Record(b"v" * 1000)] * 3
    body = len(batch_of(0, three)) - 61
    data = batch_of(0, three) + gzipped(3, three) + batch_of(6, three, attributes=7)
    for most, found in ((body, 0), (body - 1, Problem.TOO_LARGE)):
        monkeypatch.setattr(records, "MAX_BATCH_BYTES", most)
        assert problems(data) == [found, found, Problem.CODEC]


def test_values_end_at_a_batch_that_cannot_be_read():
    """Values are yielded up to a batch that cannot be read, which raises an error."""
    data = batch(0, values(0)) + batch_of(1, [Record()], count=9) + batch(2, values(2))
    found = values_of(data, headers(data))

    assert next(found)[1:] == (0, values(0)[0])
    with pytest.raises(EvidenceError, match=f"byte {len(batch(0, values(0)))} cannot be read: malformed"):
        next(found)


def test_headers_are_not_changed():
    """Decoding does not change the given headers; problems are in the returned rows."""
    data = batch_of(1, [Record()], count=9)
    before = headers(data)
    assert before.dtype == HEADERS
    ((after, _),) = decode(data, before)

    assert (before["problem"][0], after["problem"][0]) == (0, Problem.MALFORMED)


# Lengths of records: equal in a run, as producers write them, or different each time.
RUNS = st.lists(
    st.tuples(st.sampled_from([0, 5, 63, 64, 200, 9_000]), st.sampled_from([1, 2, 15, 16, 17, 80])), max_size=30
)
# A batch: its records, the excess of its record count, the bytes cut off, and a changed byte.
BATCH = st.tuples(
    RUNS, st.integers(0, 3), st.integers(0, 1 << 16), st.none() | st.tuples(st.integers(0), st.integers(0, 255))
)


@settings(deadline=None)
@given(st.lists(BATCH, max_size=4))
def test_records_that_are_alike_are_taken_together(batches):
    """Records of equal length are parsed together with the results of one-by-one parsing, also in damaged batches."""
    data, starts, ends, counts = bytearray(b"abc"), list[int](), list[int](), list[int]()
    for runs, more, short, damage in batches:
        start = len(data)
        for length, times in runs:
            data += (varint(length) + b"\x0a" * length) * times
        if damage and len(data) > start:
            data[start + damage[0] % (len(data) - start)] = damage[1]
        starts.append(start)
        ends.append(len(data) - (short if short < (len(data) - start) // 2 else 0))
        counts.append(sum(times for _, times in runs) + more)
    alone, broken = np.zeros((2, sum(counts)), np.int64), list[bool]()
    for start, limit, count, first in zip(starts, ends, counts, np.cumsum([0, *counts]), strict=False):
        bodies, body_ends = alone[:, first : first + count]
        found, end = records._walk_singly(bytes(data[start:limit]), 0, bodies, body_ends)
        bodies[:found] += start
        body_ends[:found] += start
        bodies[found:] = body_ends[found:] = 0
        broken.append(count > 0 and (found < count or start + end != limit))

    told = records._bodies(np.frombuffer(bytes(data), np.uint8), *np.array([starts, ends, counts], np.int64))
    assert (told[0] == alone[0]).all()
    assert (told[1] == alone[1]).all()
    assert told[2].tolist() == broken
