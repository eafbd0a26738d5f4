"""Every record anomaly, with a near miss beside each hit."""

import pytest

from history.tables import POLLS, SENDS
from spark import anomalies, delivery
from spark.recorded import DRAINS, PRODUCERS
from spark.segments import SEGMENTS
from spark.tables import rows
from tests.spark.folders import TP, polled, sent
from tests.spark.test_delivery import WHOLE


def logged(offset, seq, *, node="broker-1", **other):
    """A record in a replica's log."""
    row = {"node": node, **TP, "segment": "0.log", "position": 0, "batch_offset": offset, "offset": offset}
    return row | {"leader_epoch": 0, "producer_id": "load-1", "seq": seq, "checksum_ok": True} | other


@pytest.fixture
def find(spark):
    """(anomaly, offset, seq) of every case in a history."""

    def found(kind, sends, polls, logs=(), clean=True):
        sent_rows, poll_rows, segments = (
            rows(spark, SENDS, sends),
            rows(spark, POLLS, polls),
            rows(spark, SEGMENTS, logs),
        )
        drains = rows(spark, DRAINS, [{**TP, "position": 10, "end_offset": 10, "complete": True}])
        producers = rows(spark, PRODUCERS, [{"producer_id": "load-1", "clean": clean}])
        reads = anomalies.all_reads(poll_rows, segments)

        def fates():
            indexed = sent_rows.transform(delivery.with_read, poll_rows).transform(delivery.with_index, poll_rows)
            return indexed.transform(delivery.with_fate, segments, drains, rows(spark, WHOLE, [TP]))

        cases = {
            "unread": lambda: anomalies.unread_acknowledged(fates()),
            "duplicate": lambda: anomalies.duplicate(sent_rows.transform(delivery.with_read, poll_rows)),
            "phantom": lambda: anomalies.phantom_record(sent_rows, reads, producers),
            "corrupt": lambda: anomalies.corrupt_record(reads, segments),
            "aborted": lambda: anomalies.aborted_read(sent_rows, poll_rows),
            "inconsistent": lambda: anomalies.inconsistent_offset(
                sent_rows.transform(delivery.with_read, poll_rows), poll_rows
            ),
            "any": lambda: anomalies.anomalies(fates().localCheckpoint(), sent_rows, poll_rows, segments, producers),
        }[kind]()
        return sorted(((row["anomaly"], row["offset"], row["seq"]) for row in cases.collect()), key=str)

    return found


def test_a_clean_history_has_none(find):
    """Acknowledged once, read once, live and finally."""
    assert find("any", [sent(0, offset=0)], [polled(0, 0), polled(0, 0, final=False)], [logged(0, 0)]) == []


def test_lost_write(find):
    """An acknowledged record that a later read has passed."""
    assert find("unread", [sent(0, offset=0), sent(1, offset=1)], [polled(1, 1)]) == [("lost_write", 0, 0)]


def test_duplicate(find):
    """The same record at two offsets, but not the same offset read twice."""
    assert find("duplicate", [sent(0, offset=0)], [polled(0, 0), polled(1, 0)]) == [("duplicate", 1, 0)]
    assert find("duplicate", [sent(0, offset=0)], [polled(0, 0), polled(0, 0)]) == []


def test_phantom_record(find):
    """A record that was never sent, whether a consumer or a replica's log shows it."""
    assert find("phantom", [sent(0, offset=0)], [polled(0, 0), polled(1, 7)]) == [("phantom_record", 1, 7)]
    assert find("phantom", [sent(0, offset=0)], [polled(0, 0)], [logged(0, 0), logged(1, 7)]) == [
        ("phantom_record", 1, 7)
    ]


def test_the_lost_tail_of_a_dead_producers_ledger_is_no_phantom(find):
    """A producer that died may have sent what it could not write down; within its ledger a gap stays a phantom."""
    sends = [sent(0, offset=0), sent(2, offset=2)]

    assert find("phantom", sends, [polled(0, 0), polled(2, 2), polled(3, 3)], clean=False) == []
    assert find("phantom", sends, [polled(0, 0), polled(1, 1), polled(2, 2)], clean=False) == [("phantom_record", 1, 1)]


def test_corrupt_record(find):
    """A payload with a wrong checksum, or a batch with a wrong CRC; one case for each offset."""
    damaged = polled(0, 0, checksum_ok=False)
    bad = logged(None, None, problem="bad crc", batch_offset=4, producer_id=None, checksum_ok=None)

    assert find("corrupt", [sent(0, offset=0)], [damaged], [logged(0, 0, checksum_ok=False)]) == [
        ("corrupt_record", 0, 0)
    ]
    assert find("corrupt", [sent(0, offset=0)], [polled(0, 0)], [bad]) == [("corrupt_record", 4, None)]
    assert find("corrupt", [sent(0, offset=0)], [polled(0, 0)], [{**bad, "problem": "torn tail"}]) == []


def test_aborted_read(find):
    """A send that failed for good and was read; an indeterminate one may be."""
    assert find("aborted", [sent(0, outcome="fail", error="TOO_LARGE")], [polled(0, 0)]) == [("aborted_read", None, 0)]
    assert find("aborted", [sent(0, outcome="info")], [polled(0, 0)]) == []


def test_inconsistent_offset(find):
    """Two records acknowledged at one offset; the one that is not there is named."""
    sends = [sent(0, offset=0), sent(1, offset=0)]

    assert find("inconsistent", sends, [polled(0, 1)]) == [("inconsistent_offset", 0, 0)]
    assert find("inconsistent", [sent(0, offset=0), sent(1, offset=1)], [polled(0, 0), polled(1, 1)]) == []


def test_an_unread_tail_is_named_by_its_fate(find):
    """The drain reached offset 10: a record acknowledged at 12 and in no log was truncated."""
    assert find("unread", [sent(0, offset=0), sent(1, offset=12)], [polled(0, 0)]) == [("truncated_ack", 12, 1)]
    assert find("unread", [sent(0, offset=0), sent(1, offset=12)], [polled(0, 0)], [logged(12, 1)]) == [
        ("invisible_ack", 12, 1)
    ]


def test_delivery_counts_what_was_found(spark):
    """Counts, and a loss rate that is an interval."""
    sends = [sent(0, offset=0), sent(1, offset=1), sent(2, offset=2), sent(3, outcome="info"), sent(4, outcome="fail")]
    polls = rows(spark, POLLS, [polled(0, 0), polled(2, 2), polled(3, 2)])
    fates = (
        rows(spark, SENDS, sends)
        .transform(delivery.with_read, polls)
        .transform(delivery.with_index, polls)
        .transform(delivery.with_fate, rows(spark, SEGMENTS, []), rows(spark, DRAINS, []), rows(spark, WHOLE, []))
    )
    row = delivery.delivery(fates, spark.createDataFrame([], "anomaly string, topic string, partition int")).collect()[
        0
    ]

    assert (row["sent"], row["acked"], row["indeterminate"], row["failed"], row["read"]) == (5, 3, 1, 1, 2)
    assert (row["lost"], row["unseen"], row["duplicated"], row["duplicate_copies"]) == (1, 0, 1, 1)
    assert (row["loss_rate_low"], row["loss_rate_high"], row["duplicate_rate"]) == (1 / 3, 1 / 3, 0.5)
