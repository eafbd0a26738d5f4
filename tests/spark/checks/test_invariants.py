"""Every replica invariant on a handful of samples: a violation, and what looks like one and is legal."""

import json
from functools import reduce

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from history.tables import ISR, REPLICAS, SENDS
from kafka_files.states import State
from spark.checks import invariants
from spark.checks.invariants import Outage
from spark.checks.sources import decided
from spark.folder.recorded import EPOCHS, final_isr, isr_changes, leaders
from spark.folder.tables import rows
from tests.spark.checks.test_anomalies import logged
from tests.spark.folders import MS, TP, S, isr_view, sample, sent


def verdicts(checks):
    """(checked, violations) of some checks."""
    found = [row["violated"] for row in checks.collect()]
    return len(found), sum(found)


def samples(spark, *literal):
    """Samples as a DataFrame."""
    return rows(spark, REPLICAS, literal)


def side_by_side(*histories):
    """The rows of several histories, each as a partition of its own."""
    return [row | {"partition": number} for number, history in enumerate(histories) for row in history]


def of_each(checks, histories):
    """(checked, violations) of each history."""
    found = [(row["partition"], row["violated"]) for row in checks.collect()]
    return [
        (sum(of == number for of, _ in found), sum(bad for of, bad in found if of == number))
        for number in range(histories)
    ]


@pytest.fixture
def judge(spark):
    """(checked, violations) of each history of samples, judged side by side by one invariant."""

    def judged(invariant, *histories, also=()):
        return of_each(invariant(samples(spark, *side_by_side(*histories)), *also), len(histories))

    return judged


def test_i1_log_start_above_the_high_watermark(judge):
    """A log start above HW is out of bounds; equal to it is not, and a reply without it is not checked."""
    above, equal, silent = ([sample(1, 0, 5, 9, log_start_offset=start)] for start in (6, 5, None))

    assert judge(invariants.i1_bounds, above, equal, silent) == [(1, 1), (1, 0), (0, 0)]


def test_i2_high_watermark_above_the_log_end(judge):
    """HW 6 with LEO 5 in one reply is a violation, and so is an earlier HW above a later LEO of one incarnation;
    read the other way round, or across incarnations, they prove nothing.
    """
    first, later = sample(1, 0, 6, 6, single_reply=False), sample(1, 5 * MS, 5, 5, single_reply=False)
    above, equal, turned = [sample(1, 0, 6, 5)], [sample(1, 0, 5, 5)], [sample(1, 0, 6, 5, single_reply=False)]
    restarted = [first, {**later, "incarnation": 2}]

    assert judge(invariants.i2_hw_below_leo, above, equal, turned, [first, later], restarted) == [
        (1, 1),
        (1, 0),
        (0, 0),
        (1, 1),
        (0, 0),
    ]


def test_i2_below_a_high_watermark_an_unclean_leader_may_have_cut(judge):
    """LEO 5 after HW 6 on a topic with unclean elections proves nothing; in one reply it does, as on other topics."""
    apart = [sample(1, 0, 6, 6, single_reply=False), sample(1, 5 * MS, 5, 5, single_reply=False)]
    together = [sample(1, 0, 6, 5)]

    assert judge(invariants.i2_hw_below_leo, apart, together, also=[["orders"]]) == [(0, 0), (1, 1)]
    assert judge(invariants.i2_hw_below_leo, apart, [sample(1, 0, 5, 5)], also=[["sales"]]) == [(1, 1), (1, 0)]


def test_i3_a_leader_goes_back(spark, judge):
    """HW falls on the leader of the epoch; on a follower, in the next epoch, or in overlapping probes it may."""
    leader = [sample(1, 0, 6, 9), sample(1, 5 * MS, 5, 9)]
    still = [sample(1, 0, 6, 9), sample(1, 5 * MS, 6, 9)]
    follower = [sample(2, 0, 6, 9), sample(2, 5 * MS, 5, 9)]
    next_epoch = [sample(1, 0, 6, 9), sample(1, 5 * MS, 5, 9, epoch=1)]
    overlapping = [sample(1, 0, 6, 9), sample(1, MS // 2, 5, 9)]
    led = leaders(rows(spark, ISR, side_by_side(*[[isr_view(0, 1, 0, [1, 2, 3])]] * 5)))

    found = judge(invariants.i3_leader_monotonic, leader, still, follower, next_epoch, overlapping, also=[led])
    assert found == [(1, 1), (1, 0), (0, 0), (0, 0), (0, 0)]


def test_i6_a_log_end_below_its_own_high_watermark(judge):
    """Truncated below a HW that it showed in an earlier life; another replica's HW proves nothing."""
    below, kept = ([sample(1, 0, 6, 9), sample(1, S, 0, leo, epoch=1, incarnation=2)] for leo in (5, 6))
    anothers = [sample(2, 0, 8, 9), sample(1, 0, 4, 9), sample(1, S, 0, 5, epoch=1)]

    assert judge(invariants.i6_own_floor, below, kept, anothers) == [(1, 1), (1, 0), (1, 0)]


def test_i6_a_new_log_has_no_floor(judge):
    """The broker's disk was wiped in between; another broker's, or a cut after that, is still held to its floor."""
    below = [sample(1, 0, 6, 9), sample(1, 5 * S, 0, 5, epoch=1, incarnation=2)]
    again = [*below, sample(1, 6 * S, 5, 5, epoch=1), sample(1, 7 * S, 0, 4, epoch=1)]
    wiped, others = [[invariants.NewLog(broker_id, 3 * S)] for broker_id in (1, 2)]

    assert judge(invariants.i6_own_floor, below, again, also=[wiped]) == [(0, 0), (2, 1)]
    assert judge(invariants.i6_own_floor, below, also=[others]) == [(1, 1)]
    assert judge(invariants.i6_own_floor, below, also=[[invariants.NewLog(None, 3 * S)]]) == [(0, 0)]
    assert judge(invariants.i6_own_floor, below, also=[[invariants.NewLog(None, 3 * S, "orders")]]) == [(0, 0)]
    assert judge(invariants.i6_own_floor, below, also=[[invariants.NewLog(None, 3 * S, "sales")]]) == [(1, 1)]


def test_i8_an_epoch_that_starts_below_an_earlier_high_watermark(spark, judge):
    """Epoch 1 starts at 5: HW 6 in epoch 0 was lost, HW 5 was not. A HW that dips within epoch 1 is legal."""
    starts = [
        {**TP, "broker_id": b, "leader_epoch": e, "start_offset": o} for b, e, o in [(2, 0, 0), (2, 1, 5), (3, 1, 7)]
    ]
    epochs = rows(spark, EPOCHS, side_by_side(starts, starts))
    lost, kept = [sample(1, 0, 6, 9)], [sample(1, 0, 5, 9), sample(2, S, 3, 9, epoch=1)]

    assert judge(invariants.i8_leader_completeness, lost, kept, also=[epochs]) == [(1, 1), (1, 0)]


def quiet(leader_hw, seconds, *, isr=(1, 2), topic="orders", follower=(9, 9)):
    """A leader whose LEO stands at 9, its HW, and a follower, over some seconds; eviction takes 4.5 s."""
    literal = [sample(1, t * S, leader_hw, 9, topic=topic) for t in range(seconds + 1)]
    literal += [sample(2, t * S + S // 2, *follower, topic=topic) for t in range(seconds)]
    return literal, [isr_view(-S, 1, 0, list(isr), topic=topic)]


def out(spark, *outages):
    """Outages as a DataFrame."""
    return rows(spark, invariants.OUTAGES, (outage._asdict() for outage in outages))


def cured(history, *, at):
    """The same history with a leader whose HW reaches its LEO after all, in a given second."""
    literal, views = history
    reached = {"high_watermark": 9}
    return [row | reached if row["broker_id"] == 1 and row["sent_ns"] >= at * S else row for row in literal], views


def test_i10_a_high_watermark_that_stays_behind(spark):
    """Stuck for longer than an eviction takes is a violation, even if it was cured later; reached in time is a pass,
    too short says nothing. An in-sync follower must follow, one outside the ISR may stay behind, and below min ISR
    (topic strict) nothing is asked.
    """
    histories = [
        quiet(5, 10),
        quiet(9, 10),
        quiet(5, 4),
        quiet(9, 10, follower=(5, 9)),
        quiet(9, 10, follower=(5, 5), isr=(1,)),
        quiet(5, 10, isr=(1,), topic="strict"),
        cured(quiet(5, 10), at=9),
        cured(quiet(5, 10), at=5),
    ]
    changes = isr_changes(rows(spark, ISR, side_by_side(*(views for _, views in histories))))
    limits = spark.createDataFrame(
        [("orders", 4_500_000_000, 1), ("strict", 4_500_000_000, 2)],
        "topic string, max_isr_lag_ns long, effective_min_isr int",
    )
    literal = side_by_side(*(of_history for of_history, _ in histories))
    checks = invariants.i10_quiescence(samples(spark, *literal), changes, limits, out(spark))

    found = of_each(checks, len(histories))
    assert found == [(1, 1), (1, 0), (0, 0), (1, 1), (1, 0), (0, 0), (1, 1), (1, 0)]


def test_i10_who_was_out_of_reach_is_not_compared(spark):
    """Follower 2 has the whole log and an old HW: legal if nobody could tell it the last one, and no excuse for the
    leader. While the leader, or a controller, was out of reach nothing is said; before the stretch it does not matter.
    """
    histories = [quiet(9, 10, follower=(5, 9)), quiet(5, 10)]
    changes = isr_changes(rows(spark, ISR, side_by_side(*(views for _, views in histories))))
    limits = spark.createDataFrame(
        [("orders", 4_500_000_000, 1)], "topic string, max_isr_lag_ns long, effective_min_isr int"
    )
    told = samples(spark, *side_by_side(*(of_history for of_history, _ in histories)))

    def check(*outages):
        return of_each(invariants.i10_quiescence(told, changes, limits, out(spark, *outages)), 2)

    assert check() == [(1, 1), (1, 1)]
    assert check(Outage(2, S, 3 * S)) == [(1, 0), (1, 1)]
    assert check(Outage(3, S, 3 * S), Outage(2, -3 * S, -S)) == [(1, 1), (1, 1)]
    assert check(Outage(1, S, 3 * S)) == check(Outage(None, S, 3 * S)) == [(0, 0), (0, 0)]


def test_i10_a_leader_that_was_cut_off_is_judged_by_the_controller(spark):
    """Metadata shows ISR [1, 2] all the time; the controller chose another leader after 3 seconds, or did not."""
    cut, stuck = quiet(5, 10), quiet(5, 10)
    first = State("orders", 0, "metadata_log", 0, -S, 1, 0, 0, (1, 2), (1, 2))
    states = [first, first._replace(t_ns=3 * S, leader=2, leader_epoch=1, isr=(2,)), first._replace(partition=1)]
    limits = spark.createDataFrame(
        [("orders", 4_500_000_000, 1)], "topic string, max_isr_lag_ns long, effective_min_isr int"
    )
    told = samples(spark, *side_by_side(cut[0], stuck[0]))
    checks = invariants.i10_quiescence(told, decided(spark, states), limits, out(spark))

    assert of_each(checks, 2) == [(0, 0), (1, 1)]


def test_i15_a_promised_record_that_an_isr_member_lacks(spark):
    """Broker 2 lacks record 1; acks=1 promised nothing; broker 3 is out of the ISR."""
    members = final_isr(rows(spark, ISR, [isr_view(0, 1, 0, [1, 2], observer=o) for o in "12"]))
    segments = [{**logged(n, n), "broker_id": b} for b, n in [(1, 0), (1, 1), (2, 0)]]
    held = spark.createDataFrame(
        [(r["broker_id"], "orders", 0, r["offset"], "load-1", r["seq"]) for r in segments],
        "broker_id int, topic string, partition int, offset long, producer_id string, seq long",
    )

    def check(*sends, second_from=None):
        own = F.when(F.col("broker_id") == 2, F.lit(second_from).cast("bigint"))
        asked = members.withColumn("from_offset", own)
        return verdicts(invariants.i15_durability(rows(spark, SENDS, sends), held, asked))

    assert check(sent(0, offset=0), sent(1, offset=1)) == (4, 1)
    assert check(sent(0, offset=0), sent(1, offset=1, acks="1"), sent(2, outcome="info")) == (2, 0)
    # What a replica's own retention took is not asked of it; the other one, and what lies above, is.
    assert check(sent(0, offset=0), sent(1, offset=1), second_from=2) == (2, 0)
    assert check(sent(0, offset=0), sent(1, offset=1), second_from=1) == (3, 1)


def test_views_behind_a_newer_epoch_are_passed_over(spark):
    """A broker that still shows epoch 0 after epoch 1 was seen changes nothing, nor does one that does not lead; the
    final ISR needs all views.
    """
    views = [isr_view(0, 1, 0, [1, 2, 3]), isr_view(S, 2, 1, [2, 3], observer="2"), isr_view(2 * S, 1, 0, [1, 2, 3])]
    isr = rows(spark, ISR, [*views, isr_view(3 * S, 2, 1, [3], observer="3")])

    assert [(row["leader_epoch"], row["isr"]) for row in isr_changes(isr).orderBy("received_ns").collect()] == [
        (0, [1, 2, 3]),
        (1, [2, 3]),
    ]
    assert [row["broker_id"] for row in final_isr(isr).collect()] == [3]


def test_nothing_checked_is_unknown(spark):
    """A summary of no checks is unknown, of good ones a pass, of a bad one a failure with its evidence."""
    bad, good = sample(1, 0, 6, 5), sample(1, S, 5, 5)
    found = [
        invariants.summary("I2", invariants.i2_hw_below_leo(samples(spark, *literal))).collect()[0]
        for literal in ((), (good,), (good, bad))
    ]

    assert [(row["verdict"], row["checked"], row["violations"]) for row in found] == [
        ("unknown", 0, 0),
        ("pass", 1, 0),
        ("fail", 2, 1),
    ]
    assert json.loads(found[2]["evidence"])["log_end_offset"] == 5


def test_nothing_checked_is_unknown_whatever_the_invariant(spark):
    """Each of the checks in Spark, with nothing to check."""
    nothing = spark.createDataFrame([], "topic string, partition int, t_ns long, violated boolean, evidence string")
    summaries = [invariants.summary(name, nothing) for name in invariants.INVARIANTS]
    found = {row["invariant"]: row for row in reduce(DataFrame.union, summaries).collect()}

    assert {name: (row["verdict"], row["reason"]) for name, row in found.items()} == dict.fromkeys(
        invariants.INVARIANTS, ("unknown", "nothing that was recorded could be checked")
    )


def test_a_missing_log_turns_a_pass_into_unknown(spark):
    """Missing evidence changes a pass, and never a failure."""
    table = spark.createDataFrame(
        [("I15", "pass", None), ("I2", "fail", "x")], "invariant string, verdict string, reason string"
    )
    found = invariants.with_missing_evidence(table, [("I15", "no segments"), ("I2", "no segments")])

    assert [tuple(row) for row in found.collect()] == [("I15", "unknown", "no segments"), ("I2", "fail", "x")]
