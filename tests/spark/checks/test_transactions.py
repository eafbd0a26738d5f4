"""Transactions that are torn or hang, and what their records' reads prove; a producer or a partition for each case."""

import json

import pyarrow as pa
import pytest

from history.events import Event
from history.tables import ISR, POLLS, REPLICAS, SENDS
from kafka_files.segments import SEGMENTS
from spark.checks import anomalies, delivery, invariants, order, transactions
from spark.checks.transactions import longest_quiet_ns
from spark.folder.recorded import DRAINS, leaders
from spark.folder.tables import rows
from tests.spark.checks.test_anomalies import logged
from tests.spark.checks.test_delivery import WHOLE
from tests.spark.folders import TP, S, isr_view, manifest, polled, sample, sent

pytestmark = pytest.mark.pipeline  # many queries: it belongs to the part that may take long

COMMITTED = {"isolation": "read_committed"}
P0, P1 = {"partition": 0}, {"partition": 1}


def of(name, outcome, *places, transaction=0):
    """The records of one transaction of a producer: seq n stands at ``places[n]`` = (partition, offset)."""
    error = {"ok": None, "fail": "transaction_aborted", "info": "commit _TIMED_OUT"}[outcome]
    return [
        sent(
            n,
            producer_id=name,
            outcome=outcome,
            error=error,
            offset=offset,
            transaction=transaction,
            partition=p,
        )
        for n, (p, offset) in enumerate(places)
    ]


def reads(name, *found, **other):
    """Final reads of a producer's records: (seq, partition, offset)."""
    return [polled(at, seq, producer_id=name, partition=p, **(COMMITTED | other)) for seq, p, at in found]


# Producer → its sends, the reads, and how many of its records were read and are gone where its transaction is torn.
# All share two partitions; the final drain got as far as offset 99 in both.
TORN = {
    "whole": (of("whole", "ok", (0, 0), (1, 0)), reads("whole", (0, 0, 0), (1, 1, 0)), None),
    "torn": (of("torn", "ok", (0, 1), (1, 1)), reads("torn", (0, 0, 1)), (1, 1)),
    "lost": (of("lost", "ok", (0, 2), (1, 2)), [], None),  # all of it: nothing is torn
    "half": (of("half", "info", (0, 3), (1, 3), (0, 4)), reads("half", (0, 0, 3), (2, 0, 4)), (2, 1)),
    "unknown": (of("unknown", "info", (0, 5), (1, 5)), [], None),
    "aborted": (of("aborted", "fail", (0, 6), (1, 6)), reads("aborted", (0, 0, 6)), None),  # an aborted_read instead
    "above": (of("above", "ok", (0, 7), (1, 200)), reads("above", (0, 0, 7)), None),  # above the bound, and in a log
    "cut": (of("cut", "ok", (0, 8), (1, 201)), reads("cut", (0, 0, 8)), (1, 1)),  # above the bound, and in no log
    "none": ([sent(0, producer_id="none", offset=9, **P0), sent(1, producer_id="none", offset=9, **P1)],
             reads("none", (0, 0, 9)), None),  # in no transaction
    "early": (of("early", "info", (0, 10), (1, 10)), reads("early", (0, 0, 10), isolation="read_uncommitted"), None),
    "two": ([*of("two", "ok", (0, 11)), *of("two", "ok", (0, 0), (0, 12), transaction=1)[1:]],
            reads("two", (0, 0, 11)), None),  # each transaction by itself
    "end": ([*of("end", "ok", (0, 99), (1, 99))], reads("end", (0, 0, 99), (1, 1, 99)), None),
}  # fmt: skip


@pytest.fixture(scope="module")
def judged(spark):
    """All producers' sends with their fates, and every record anomaly."""
    sends = rows(spark, SENDS, [row for of_one, _, _ in TORN.values() for row in of_one])
    polls = transactions.stable(rows(spark, POLLS, [row for _, of_one, _ in TORN.values() for row in of_one]), sends)
    held = rows(spark, SEGMENTS, [logged(200, 1, producer_id="above", **P1)])
    drains = rows(spark, DRAINS, [TP | p | {"position": 100, "end_offset": 100, "complete": True} for p in (P0, P1)])
    whole = rows(spark, WHOLE, [{"topic": "orders"} | p for p in (P0, P1)])
    fates = (
        sends.transform(delivery.with_read, polls)
        .transform(transactions.with_siblings)
        .transform(delivery.with_index, polls)
        .transform(delivery.with_fate, held, drains, whole)
        .localCheckpoint()
    )
    torn = {row["producer_id"]: row for row in transactions.torn_transaction(fates).collect()}
    aborted = {row["producer_id"]: row for row in anomalies.aborted_read(sends, polls).collect()}
    return {row["producer_id"]: row for row in fates.filter("fate = 'lost_write'").collect()}, torn, aborted


def test_torn_transactions(judged):
    """Only what was partly read, while the rest is proven to be gone, whatever its outcome was but aborted."""
    _, torn, _ = judged
    found = {name: json.loads(row["evidence"]) for name, row in torn.items()}

    assert {name: (told["read"], told["gone"]) for name, told in found.items()} == {
        name: counts for name, (_, _, counts) in TORN.items() if counts
    }
    assert (torn["half"]["seq"], torn["half"]["partition"], torn["half"]["offset"]) == (1, 1, 3)
    assert torn["half"]["explanation"] == (
        "Transaction 0 of half is torn: 2 of its 3 records were read and 1 are gone, the first of them record half/1."
    )


def test_one_record_that_was_read_proves_its_transaction(judged):
    """The unread record of an unknown transaction is lost then; without a committed read nothing is promised."""
    lost, _, _ = judged

    assert lost.keys() == {"torn", "lost", "half", "none", "two"}


def test_an_aborted_record_that_a_committed_reader_saw(judged):
    """And nothing else is an aborted read."""
    _, _, aborted = judged

    assert [(name, row["seq"], row["offset"]) for name, row in aborted.items()] == [("aborted", 0, 6)]
    assert "failed for good (transaction_aborted)" in aborted["aborted"]["explanation"]


def test_uncommitted_reads_prove_nothing_of_open_transactions(spark):
    """Of a committed one they do, and so do reads of records in no transaction, and committed reads of any."""
    sends = rows(
        spark,
        SENDS,
        [
            *of("ok", "ok", (0, 0)),
            *of("fail", "fail", (0, 1)),
            *of("info", "info", (0, 2)),
            sent(0, producer_id="x", outcome="fail"),
        ],
    )
    names = ["ok", "fail", "info", "x"]
    early = [polled(n, 0, producer_id=name, isolation="read_uncommitted") for n, name in enumerate(names)]
    late = [row | COMMITTED for row in early]

    def kept(polls):
        return sorted(row["producer_id"] for row in transactions.stable(rows(spark, POLLS, polls), sends).collect())

    assert kept(early) == ["ok", "x"]
    assert kept(late) == sorted(names)


def held_back(partition, seconds, stable, hw=50, *, since=20, broker_id=1):
    """One sample a second of a replica whose last stable offset stands still."""
    return [
        sample(broker_id, (since + n) * S, hw, hw, last_stable_offset=stable, partition=partition)
        for n in range(seconds + 1)
    ]


def test_hanging_transactions(spark):
    """Below HW for longer than the limit without a fault; shorter, at HW, moving on, or of a follower it is legal."""
    samples = rows(
        spark,
        REPLICAS,
        [
            *held_back(0, 31, 40),
            *held_back(1, 30, 40),
            *held_back(2, 40, 50),
            *held_back(3, 20, 40),
            *held_back(3, 20, 45, since=41),
            *held_back(4, 40, 40, broker_id=2),
            *held_back(5, 40, 41),
        ],
    )
    led = leaders(rows(spark, ISR, [isr_view(9 * S, 1, 0, [1, 2, 3], partition=n) for n in range(6)]))
    sends = rows(spark, SENDS, [sent(3, offset=40, transaction=7, outcome="info")])

    def hanging(faults=()):
        found = transactions.hanging_transaction(samples, led, sends, 30 * S, faults).collect()
        return {row["partition"]: row for row in found}

    alone = hanging()
    assert alone.keys() == {0, 5}
    assert alone[0]["explanation"] == (
        "The last stable offset stayed at 40 for 31.0 s with no fault active, below the high watermark 50: "
        "transaction 7 of load-1 never ended."
    )
    assert (alone[0]["producer_id"], alone[0]["seq"], alone[0]["offset"]) == ("load-1", 3, 40)
    assert alone[5]["producer_id"] is None
    assert alone[5]["explanation"].endswith(": a transaction that nobody here began never ended.")
    assert hanging([(22 * S, 25 * S)]).keys() == {5}


@pytest.mark.parametrize(
    ("faults", "quiet"),
    [
        ([], 100),
        ([(10, 20), (30, 40)], 60),
        ([(30, 40), (35, 90)], 30),
        ([(0, 50)], 50),
        ([(0, 200)], 0),
        ([(150, 160)], 100),
    ],
)
def test_the_longest_time_without_a_fault(faults, quiet):
    """Faults may overlap, and begin before or end after the span from 0 to 100."""
    assert longest_quiet_ns(0, 100, faults) == max(quiet, 0)


def test_a_fault_is_active_until_its_recovery_is_verified():
    """By its target; one that never went lasts on."""
    events = [
        Event(5, "", "inject", target="broker-1"),
        Event(6, "", "injected", target="broker-1"),
        Event(7, "", "inject", target="broker-2"),
        Event(8, "", "healed", target="broker-1"),
    ]

    assert transactions.faults(events) == [(5, 8), (7, 2**63 - 1)]


def test_how_long_a_transaction_may_be_open():
    """The producer's time-out, 10 s of the coordinator's, and 10 s to settle; a run without has no transactions."""
    assert transactions.limit_ns(manifest(transaction_timeout_ms=20_000)) == 40 * S
    assert transactions.transactional(manifest(transaction_timeout_ms=20_000))
    assert not transactions.transactional(manifest())


# --- other checks, on transactions ---------------------------------------------------------------


def test_i26_the_last_stable_offset_has_its_bounds(spark):
    """Wrong above a later HW or below the log start; not above the HW of its own reply, or on a follower."""
    histories = [
        [sample(1, 20 * S, 5, 9, last_stable_offset=5), sample(1, 21 * S, 4, 9, last_stable_offset=4)],
        [sample(1, 20 * S, 4, 9, last_stable_offset=5), sample(1, 21 * S, 5, 9, last_stable_offset=5)],
        [sample(1, 20 * S, 5, 9), sample(1, 21 * S, 5, 9, last_stable_offset=2, log_start_offset=3)],
        [sample(2, 20 * S, 5, 9, last_stable_offset=5), sample(2, 21 * S, 4, 9, last_stable_offset=4)],
        [sample(1, 20 * S, 5, 9, last_stable_offset=5), sample(1, 21 * S, 4, 9, incarnation=2)],
    ]
    samples = rows(spark, REPLICAS, [row | {"partition": n} for n, history in enumerate(histories) for row in history])
    led = leaders(rows(spark, ISR, [isr_view(9 * S, 1, 0, [1, 2, 3], partition=n) for n in range(len(histories))]))
    found = invariants.i26_stable_offset(samples, led).collect()

    assert sorted((row["partition"], row["violated"]) for row in found) == [(0, True), (1, False), (2, True)]


def test_a_committed_drain_passes_what_only_uncommitted_readers_saw(spark):
    """Had a committed reader seen it, or were the drain uncommitted, it would have vanished."""
    ends = [polled(0, 0), polled(2, 2)]
    middle = polled(1, 1, final=False)
    histories = [
        [*(row | COMMITTED for row in ends), middle],
        [*(row | COMMITTED for row in ends), middle | COMMITTED],
        [*ends, middle],
    ]
    polls = rows(spark, POLLS, [row | {"partition": n} for n, history in enumerate(histories) for row in history])
    drained = TP | {"position": 3, "end_offset": 3, "complete": True}
    drains = rows(spark, DRAINS, [drained | {"partition": n} for n in range(3)])
    nothing = rows(spark, delivery.DELETED, [])

    assert sorted(row["partition"] for row in order.nonrepeatable_read(polls, drains, nothing).collect()) == [1, 2]


def test_a_committed_reader_stops_at_the_last_stable_offset(spark):
    """At it a record was given out too early, below it not, and to an uncommitted reader only HW counts."""
    given = [
        polled(offset, n, final=False, received_ns=20 * S, isolation=isolation)
        for n, (offset, isolation) in enumerate(
            [(40, "read_committed"), (39, "read_committed"), (40, "read_uncommitted"), (50, "read_uncommitted")]
        )
    ]
    led = leaders(rows(spark, ISR, [isr_view(9 * S, 1, 0, [1, 2, 3])]))
    samples = rows(spark, REPLICAS, [sample(1, 21 * S, 50, 50, last_stable_offset=40)])
    found = order.precommitted_read(rows(spark, POLLS, given), samples, led).collect()

    assert sorted(row["seq"] for row in found) == [0, 3]


def in_log(*batches, broker_id=1, pid=7):
    """A log's rows: (offset, producer's name) for a record, (offset, None, kind) for a marker."""
    found = []
    for offset, name, *kind in batches:
        row = logged(offset, 0, producer_id=name, last_offset=offset, transactional=True, kafka_producer_id=pid)
        if name is None:
            row |= {"offset": None, "seq": None, "checksum_ok": None, "marker": kind[0]}
        found.append(row | {"broker_id": broker_id})
    return found


def test_i27_markers_agree_with_the_outcome(spark):
    """Of each replica's log: the next marker of the same Kafka producer id, where there is one."""
    sends = [
        *of("ok", "ok", (0, 0)),
        *of("fail", "fail", (0, 0)),
        *of("info", "info", (0, 0)),
        *of("mixed", "info", (0, 0)),
        sent(0, producer_id="plain"),
    ]
    sends += [row | {"partition": 1} for row in of("mixed", "info", (0, 0))]
    logs = [
        *in_log((0, "ok"), (1, None, "commit"), (2, "fail"), (3, None, "abort"), (4, "plain"), (5, None, "abort")),
        *in_log((0, "ok"), (2, "fail"), (3, None, "abort"), (4, "ok"), broker_id=2),
        *in_log((6, "info"), (8, None, "abort"), (9, "mixed"), (10, None, "abort"), pid=8),
        *in_log((7, None, "commit"), (20, "fail"), pid=9),
        *(row | {"partition": 1} for row in in_log((0, "mixed"), (1, None, "commit"))),
    ]
    segments = rows(spark, pa.schema([*SEGMENTS, pa.field("broker_id", pa.int32())]), logs)
    found = invariants.i27_markers(rows(spark, SENDS, sends), segments).collect()
    wrong = [json.loads(row["evidence"]) for row in found if row["violated"]]

    assert len(found) == 7
    assert sorted((row["producer_id"], row["broker_id"], row["held_offset"], row["ends"]) for row in wrong) == [
        ("mixed", 1, 0, "commit"),
        ("ok", 2, 0, "abort"),
    ]
