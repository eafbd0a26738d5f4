"""Clients' views against the order that a log promises: each case, and what looks like one and is legal."""

from history.tables import ISR, POLLS, REPLICAS, SEEKS
from spark.checks import order
from spark.folder.recorded import leaders
from spark.folder.tables import rows
from tests.spark.folders import S, isr_view, polled, sample


def found(cases):
    """The offsets of some cases, and the first one's sentence."""
    listed = sorted(cases.collect(), key=lambda row: (row["offset"] is None, row["offset"]))
    return [row["offset"] for row in listed], listed[0]["explanation"] if listed else None


def polls(spark, *literal):
    """Records that consumers saw."""
    return rows(spark, POLLS, literal)


def seeks(spark, *literal):
    """Seeks of the live consumer."""
    return rows(spark, SEEKS, literal)


def live(position, offset, seq=None, **other):
    """A record that the live consumer saw as its ``position``-th."""
    return polled(offset, offset if seq is None else seq, final=False, position=position, **other)


def test_precommitted_read(spark):
    """Offset 5 was given out at 10 s while the leader, asked later, was at HW 5; HW 6 would have covered it."""
    led = leaders(rows(spark, ISR, [isr_view(0, 1, 0, [1, 2, 3]), isr_view(18 * S, 2, 1, [2, 3])]))

    def check(*samples, at=10 * S, epoch=0):
        read = polls(spark, live(0, 5, received_ns=at, leader_epoch=epoch))
        return found(order.precommitted_read(read, rows(spark, REPLICAS, samples), led))[0]

    assert check(sample(1, 11 * S, 5, 9)) == [5]
    assert check(sample(1, 11 * S, 6, 9)) == []
    assert check(sample(1, 9 * S, 5, 9), sample(1, 11 * S, 6, 9)) == []  # asked before the read
    assert check(sample(3, 11 * S, 5, 9)) == []  # a follower's may lag
    assert check(sample(2, 26 * S, 5, 9, epoch=1), at=25 * S) == []  # the leader before had committed it
    assert check(sample(2, 26 * S, 5, 9, epoch=1), at=25 * S, epoch=1) == [5]


def test_a_leader_that_was_cut_off_serves_nobody(spark):
    """Broker 1 goes on in epoch 0 at HW 5; what was read since broker 2 leads may be from there."""
    led = leaders(rows(spark, ISR, [isr_view(0, 1, 0, [1, 2, 3]), isr_view(18 * S, 2, 1, [2, 3])]))

    def check(at):
        read = polls(spark, live(0, 5, received_ns=at))
        return found(order.precommitted_read(read, rows(spark, REPLICAS, [sample(1, 20 * S, 5, 9)]), led))[0]

    assert check(19 * S) == []
    assert check(17 * S) == []  # it may have been elected some time before anyone saw it
    assert check(15 * S) == [5]
