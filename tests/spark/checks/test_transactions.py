"""Transactions that are torn or hang, and what their records' reads prove; a producer or a partition for each case."""

import pytest

from history.events import Event
from history.tables import ISR, POLLS, REPLICAS, SENDS
from spark.checks import invariants, order, transactions
from spark.checks.visibility import longest_quiet_ns
from spark.folder.recorded import leaders
from spark.folder.tables import rows
from tests.spark.folders import S, isr_view, manifest, polled, sample, sent

pytestmark = pytest.mark.pipeline  # many queries: it belongs to the part that may take long


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
