"""Every record anomaly, with a near miss beside each hit; histories are judged side by side, a partition each."""

from dataclasses import dataclass

import pytest

from history.tables import POLLS, SENDS
from kafka_files.segments import SEGMENTS
from spark.checks import anomalies, delivery
from spark.folder.recorded import DRAINS, PRODUCERS
from spark.folder.tables import rows
from tests.spark.checks.test_delivery import WHOLE
from tests.spark.folders import TP, polled, sent


def logged(offset, seq, *, node="broker-1", **other):
    """A record in a replica's log."""
    row = {"node": node, **TP, "segment": "0.log", "position": 0, "batch_offset": offset, "offset": offset}
    return row | {"leader_epoch": 0, "producer_id": "load-1", "seq": seq, "checksum_ok": True} | other


@dataclass
class Case:
    """A history of one partition; ``found`` is what is expected: (offset, seq) of each case of ``kind``, or of any.

    ``misses`` names the anomaly that it narrowly misses.
    """

    behaviour: str
    found: list
    sends: list
    polls: list
    logs: tuple = ()
    kind: str | None = None
    clean: bool = True
    misses: str | None = None


DAMAGED_BATCH = logged(None, None, problem="bad crc", batch_offset=4, producer_id=None, checksum_ok=None)
TAIL = [sent(0, offset=0), sent(2, offset=2)]
ONE = [sent(0, offset=0)]
CASES = [
    Case("acknowledged once, read once, live and finally", [], ONE, [polled(0, 0), polled(0, 0, final=False)],
         (logged(0, 0),)),
    Case("a record that a later read has passed is lost", [(0, 0)], [sent(0, offset=0), sent(1, offset=1)],
         [polled(1, 1)], (logged(1, 1),), "lost_write"),
    Case("an acknowledged record in no log, behind the drain's end, was truncated", [(12, 1)],
         [*ONE, sent(1, offset=12)], [polled(0, 0)], (), "truncated_ack"),
    Case("an acknowledged record above the drain's end is invisible", [(12, 1)],
         [*ONE, sent(1, offset=12)], [polled(0, 0)], (logged(12, 1),), "invisible_ack"),
    Case("a record at two offsets is a duplicate", [(1, 0)], ONE, [polled(0, 0), polled(1, 0)], (), "duplicate"),
    Case("an offset that was read twice is none", [], ONE, [polled(0, 0), polled(0, 0)], misses="duplicate"),
    Case("a record that nobody sent is a phantom", [(1, 7)], ONE, [polled(0, 0), polled(1, 7)], (), "phantom_record"),
    Case("a record that nobody sent is a phantom in a replica's log, too", [(1, 7)], ONE, [polled(0, 0)],
         (logged(0, 0), logged(1, 7)), "phantom_record"),
    Case("what a dead producer sent after the end of its ledger is no phantom", [], TAIL,
         [polled(0, 0), polled(2, 2), polled(3, 3)], (), "phantom_record", clean=False, misses="phantom_record"),
    Case("what a dead producer had in flight is none either, whatever was answered meanwhile", [], TAIL,
         [polled(0, 0), polled(1, 1), polled(2, 2)], (), "phantom_record", clean=False, misses="phantom_record"),
    Case("a gap within the ledger of one that ended cleanly is", [(1, 1)], TAIL,
         [polled(0, 0), polled(1, 1), polled(2, 2)], (), "phantom_record"),
    Case("a payload that does not fit its checksum, once however many saw it", [(0, 0)], ONE,
         [polled(0, 0, checksum_ok=False)], (logged(0, 0, checksum_ok=False),), "corrupt_record"),
    Case("a batch with a wrong CRC is corrupt", [(4, None)], ONE, [polled(0, 0)], (DAMAGED_BATCH,), "corrupt_record"),
    Case("a torn tail is not", [], ONE, [polled(0, 0)], ({**DAMAGED_BATCH, "problem": "torn tail"},),
         misses="corrupt_record"),
    Case("a send that failed for good and was read", [(0, 0)], [sent(0, outcome="fail", error="TOO_LARGE")],
         [polled(0, 0)], (), "aborted_read"),
    Case("an indeterminate send may be read", [], [sent(0, outcome="info")], [polled(0, 0)], misses="aborted_read"),
    Case("of two records acknowledged at one offset the one that is not there is named", [(0, 0)],
         [sent(0, offset=0), sent(1, offset=0)], [polled(0, 1)], (), "inconsistent_offset"),
    Case("two records at two offsets are consistent", [], [sent(0, offset=0), sent(1, offset=1)],
         [polled(0, 0), polled(1, 1)], misses="inconsistent_offset"),
]  # fmt: skip


@pytest.fixture(scope="module")
def found(spark):
    """The cases found, by partition, which is the number of the case; each history has a producer of its own."""

    def at(number, row):
        own = {"producer_id": f"load-{number}"} if row.get("producer_id") else {}
        return row | own | {"partition": number}

    sends, polls, logs = (
        [at(number, row) for number, case in enumerate(CASES) for row in getattr(case, name)]
        for name in ("sends", "polls", "logs")
    )
    where = [TP | {"partition": number} for number in range(len(CASES))]
    drains = [{**partition, "position": 10, "end_offset": 10, "complete": True} for partition in where]
    producers = [{"producer_id": f"load-{number}", "clean": case.clean} for number, case in enumerate(CASES)]
    sent_rows, read, held = rows(spark, SENDS, sends), rows(spark, POLLS, polls), rows(spark, SEGMENTS, logs)
    fates = (
        sent_rows.transform(delivery.with_read, read)
        .transform(delivery.with_index, read)
        .transform(delivery.with_fate, held, rows(spark, DRAINS, drains), rows(spark, WHOLE, where))
        .localCheckpoint()
    )
    return anomalies.anomalies(fates, sent_rows, read, held, rows(spark, PRODUCERS, producers)).collect()


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.behaviour for case in CASES])
def test_a_history_shows_its_anomaly_and_no_other_history_does(found, number):
    """Each case's behaviour is its name."""
    case = CASES[number]
    shown = [row for row in found if row["partition"] == number and case.kind in {None, row["anomaly"]}]

    assert case.found == [(row["offset"], row["seq"]) for row in shown]


def test_an_offset_that_was_given_twice_says_what_it_holds_now(found):
    """The sentence names the record that is gone and the one that stands there."""
    (explanation,) = [row["explanation"] for row in found if row["anomaly"] == "inconsistent_offset"]
    number = next(number for number, case in enumerate(CASES) if case.kind == "inconsistent_offset")

    assert explanation == f"Offset 0 was that of record load-{number}/0 and holds record load-{number}/1 now."


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
    none = spark.createDataFrame([], "anomaly string, topic string, partition int")
    row = delivery.delivery(fates, none).collect()[0]

    assert (row["sent"], row["acked"], row["indeterminate"], row["failed"], row["read"]) == (5, 3, 1, 1, 2)
    assert (row["lost"], row["unseen"], row["duplicated"], row["duplicate_copies"]) == (1, 0, 1, 1)
    assert (row["loss_rate_low"], row["loss_rate_high"], row["duplicate_rate"]) == (1 / 3, 1 / 3, 0.5)
