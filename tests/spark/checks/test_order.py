"""Clients' views against the order that a log promises: each case, and what looks like one and is legal."""

from history.tables import ISR, POLLS, REPLICAS, SEEKS, SENDS
from spark.checks import order
from spark.checks.anomalies import CASE
from spark.checks.delivery import DELETED
from spark.folder.recorded import DRAINS, leaders
from spark.folder.tables import rows
from tests.spark.folders import MS, TP, S, isr_view, polled, sample, sent, sought


def found(cases):
    """The offsets of some cases, and the first one's sentence."""
    listed = sorted(cases.collect(), key=lambda row: (row["offset"] is None, row["offset"]))
    return [row["offset"] for row in listed], listed[0]["explanation"] if listed else None


def polls(spark, *literal):
    """Records that consumers saw."""
    return rows(spark, POLLS, literal)


def live(position, offset, seq=None, **other):
    """A record that the live consumer saw as its ``position``-th."""
    return polled(offset, offset if seq is None else seq, final=False, position=position, **other)


def seeks(spark, *literal):
    """Seeks of the live consumer."""
    return rows(spark, SEEKS, literal)


def skips(read, own_seeks):
    """Against what the final drain found."""
    return found(order.poll_skip(read, own_seeks, order.drained(read)))


def test_poll_skip(spark):
    """From 0 to 3 past 1 and 2, which the drain found; a gap that holds nothing of ours is legal."""
    drain = [polled(offset, offset) for offset in (0, 1, 2, 3, 5)]

    passing = polls(spark, *drain, live(0, 0), live(1, 3), live(2, 5))
    assert skips(passing, seeks(spark)) == (
        [1],
        "Consumer consumer-1 went from offset 0 to 3 past 2 records that are in the log.",
    )
    assert skips(polls(spark, *drain, live(0, 2), live(1, 3), live(2, 5)), seeks(spark)) == ([], None)
    assert skips(passing, seeks(spark, sought(1, 1, 3))) == ([], None)
    assert skips(passing, seeks(spark, sought(2, 4, 5)))[0] == [1]  # it sought later


def test_nonmonotonic_poll(spark):
    """Offset 1 after 2, and 2 again; another consumer's sequence is its own."""
    back = polls(spark, live(0, 2), live(1, 1), live(2, 2), live(3, 2))

    assert found(order.nonmonotonic_poll(back, seeks(spark))) == (
        [1, 2],
        "Consumer consumer-1 went back from offset 2 to 1.",
    )
    other = polls(spark, live(0, 2), live(1, 1, consumer_id="other"))
    assert found(order.nonmonotonic_poll(other, seeks(spark))) == ([], None)


def test_a_consumer_that_sought_is_a_new_reader(spark):
    """Neither a step back nor an older epoch across its own seek is Kafka's; all that is not across it still is."""
    back = polls(spark, live(0, 5, leader_epoch=1), live(1, 2, leader_epoch=0), live(2, 2), live(3, 3))

    def steps_back(*of):
        return found(order.nonmonotonic_poll(back, seeks(spark, *of)))[0]

    assert steps_back() == [2, 2]
    assert steps_back(sought(1, 6, 2)) == [2]  # offset 2 was given twice behind the seek
    assert steps_back(sought(1, 6, 2), sought(2, 3, 2)) == []
    assert steps_back(sought(0, 0, 5), sought(3, 3, 3), sought(4, 4, 2)) == [2, 2]  # it sought elsewhere
    assert steps_back(sought(1, 6, 2, consumer_id="other"), sought(1, 6, 2, partition=1)) == [2, 2]

    up = polls(spark, live(0, 1, leader_epoch=1), live(1, 2, leader_epoch=0))
    assert found(order.leader_epoch_regression(up, seeks(spark)))[0] == [2]
    assert found(order.leader_epoch_regression(up, seeks(spark, sought(1, 2, 2))))[0] == []


def test_leader_epoch_regression(spark):
    """Epoch 0 above epoch 1; after going back an older epoch is legal, and an unknown one says nothing."""

    def check(*literal):
        return found(order.leader_epoch_regression(polls(spark, *literal), seeks(spark)))[0]

    assert check(live(0, 1, leader_epoch=1), live(1, 2, leader_epoch=0)) == [2]
    assert check(live(0, 1, leader_epoch=0), live(1, 2, leader_epoch=1), live(2, 1, leader_epoch=0)) == []
    assert check(live(0, 1, leader_epoch=1), live(1, 2, leader_epoch=None)) == []


def test_nonrepeatable_read(spark):
    """Offset 1 had two values and offset 2 is gone; what lies above the drain or before its first record is not, nor
    what was deleted after the drain had begun.
    """
    nothing, below_2, below_3 = (rows(spark, DELETED, [TP | {"deleted_before": n}] if n else []) for n in (0, 2, 3))
    drained = rows(spark, DRAINS, [{**TP, "position": 4, "end_offset": 4, "complete": True}])
    early = rows(spark, DRAINS, [{**TP, "position": 2, "end_offset": 4, "complete": False}])
    seen = polls(spark, polled(0, 0), polled(1, 1), polled(3, 3), live(0, 0), live(1, 1, seq=9), live(2, 2), live(3, 4))

    assert found(order.nonrepeatable_read(seen, drained, nothing))[0] == [1, 2]
    assert found(order.nonrepeatable_read(seen, early, nothing))[0] == [1]
    before = polls(spark, polled(3, 3), live(0, 2), live(1, 3))
    assert found(order.nonrepeatable_read(before, drained, nothing))[0] == []
    assert found(order.nonrepeatable_read(seen, drained, below_3))[0] == [1]
    assert found(order.nonrepeatable_read(seen, drained, below_2))[0] == [1, 2]


def test_a_read_record_that_the_drain_ended_below_is_gone(spark):
    """Offset 4 was read before the drain, whose log ends at 4; read after its begin it may be newer than that end."""
    nothing = rows(spark, DELETED, [])
    drained, partly = (
        rows(spark, DRAINS, [{**TP, "position": 4, "end_offset": end, "complete": end == 4}]) for end in (4, 5)
    )

    def check(drains, **of_live):
        seen = polls(spark, *(polled(offset, offset) for offset in range(4)), live(0, 3), live(1, 4, **of_live))
        return found(order.nonrepeatable_read(seen, drains, nothing))[0]

    assert check(drained, received_ns=20 * S) == [4]
    assert check(drained, received_ns=31 * S) == []
    assert check(partly, received_ns=20 * S) == []


def test_many_offsets_that_were_read_twice_alike_had_one_value(spark):
    """With more groups than Spark 4.3.0 hashes, a set of structs held equal ones twice; a changed value still shows."""
    nothing = rows(spark, DELETED, [])
    drained = rows(spark, DRAINS, [{**TP, "position": 200, "end_offset": 200, "complete": True}])
    final, alive = ([reads(offset, offset) for offset in range(200)] for reads in (polled, live))

    same = polls(spark, *final, *alive).coalesce(1)
    assert found(order.nonrepeatable_read(same, drained, nothing))[0] == []
    changed = polls(spark, *final, *alive[:7], live(7, 7, seq=9), *alive[8:]).coalesce(1)
    assert found(order.nonrepeatable_read(changed, drained, nothing))[0] == [7]


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


def test_realtime_order_violation(spark):
    """Offset 3 acknowledged although 4 was acknowledged (or read) before it was sent; overlapping sends are legal."""
    first, later = sent(0, offset=4, at_ns=10 * S), sent(1, offset=3, at_ns=10 * S + 5 * MS)

    def check(*sends, seen=()):
        return found(order.realtime_order_violation(rows(spark, SENDS, sends), polls(spark, *seen)))

    assert check(first, later) == (
        [3],
        "Record load-1/1 was acknowledged at offset 3; offset 4 was known to be filled before it was sent.",
    )
    assert check(first, {**later, "sent_ns": 10 * S + MS})[0] == []
    assert check(first, {**later, "outcome": "info"})[0] == []
    assert check(later, seen=[live(0, 3, received_ns=9 * S)])[0] == [3]
    alone = first | {"acks": "1"}  # only a leader that was lost had it
    assert check(alone, later)[0] == []
    assert check(alone, later, seen=[live(0, 4, received_ns=10 * S + 4 * MS)])[0] == [3]
    assert check(alone, later | {"acks": "1"})[0] == [3]


def test_nonmonotonic_send(spark):
    """A producer's second record below its first; another producer's may be."""
    first, second = sent(0, offset=4), sent(1, offset=3)

    def check(*sends):
        return found(order.nonmonotonic_send(rows(spark, SENDS, sends)))[0]

    assert check(first, second) == [3]
    assert check(first, {**second, "offset": 5}) == []
    assert check(first, {**second, "producer_id": "load-2"}) == []


def test_bad_ack_offset(spark):
    """No offset, -1, or 0 after 4; offset 0 first and acks=0 without one are as they should be."""

    def check(*sends):
        return found(order.bad_ack_offset(rows(spark, SENDS, sends)))

    assert check(sent(0, offset=None)) == ([None], "Record load-1/0 was acknowledged with no offset.")
    assert check(sent(0, offset=-1))[0] == [-1]
    assert check(sent(0, offset=4), sent(1, offset=0))[0] == [0]
    assert check(sent(0, offset=4, acks="1"), sent(1, offset=0, acks="1"))[0] == []
    assert check(sent(0, offset=0), sent(1, offset=4), sent(2, outcome="info"), sent(3, acks="0"))[0] == []


def test_all_kinds_together(spark):
    """The union of all cases has the columns of a case; without anything seen there is none."""
    nothing = [rows(spark, schema, []) for schema in (SENDS, POLLS, SEEKS, REPLICAS)]
    led, drains = leaders(rows(spark, ISR, [])), rows(spark, DRAINS, [])

    found = order.cases(*nothing, led, drains=drains, deleted=rows(spark, DELETED, []))

    assert (found.columns, found.collect()) == (CASE, [])
