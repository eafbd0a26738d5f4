"""Clients' views compared with the order of a log: each anomaly and its near misses."""

from evidence.facts import Drain
from judge.checks import reading_order as order
from tests.evidence.folders import MS, S, polled, sent, sought
from tests.evidence.partitions import evidence, explanations, offsets


def live(position, offset, seq=None, **other):
    """Return a record that the live consumer read as its ``position``-th."""
    return polled(offset, offset if seq is None else seq, final=False, position=position, **other)


def of_steps(check, polls, *seeks):
    """Return offsets and explanations of a check on consumers' steps."""
    of = evidence(polls=polls, seeks=seeks)
    cases = check(of, order.steps(of))
    return offsets(cases), explanations(cases)


def test_poll_skip():
    """A consumer that passes records of the drain skips them; offsets without a record do not count."""
    drain = [polled(offset, offset) for offset in (0, 1, 2, 3, 5)]
    passing = [*drain, live(0, 0), live(1, 3), live(2, 5)]

    assert of_steps(order.poll_skip, passing) == (
        [1],
        ["Consumer consumer-1 went from offset 0 to 3 past 2 records that are in the log."],
    )
    assert of_steps(order.poll_skip, [*drain, live(0, 2), live(1, 3), live(2, 5)])[0] == []
    assert of_steps(order.poll_skip, passing, sought(1, 1, 3))[0] == []
    assert of_steps(order.poll_skip, passing, sought(2, 4, 5))[0] == [1]  # it sought later


def test_nonmonotonic_poll():
    """A consumer that returns to an equal or lower offset steps back; consumers are independent."""
    back = [live(0, 2), live(1, 1), live(2, 2), live(3, 2)]

    assert of_steps(order.nonmonotonic_poll, back) == (
        [1, 2],
        ["Consumer consumer-1 went back from offset 2 to 1.", "Consumer consumer-1 went back from offset 2 to 2."],
    )
    assert of_steps(order.nonmonotonic_poll, [live(0, 2), live(1, 1, consumer_id="other")])[0] == []


def test_rows_of_consumers_may_be_mixed():
    """Each consumer's own positions give its order, whatever the order of the rows."""
    mixed = [live(1, 1), live(0, 7, consumer_id="other"), live(0, 0), live(2, 2)]

    assert of_steps(order.nonmonotonic_poll, mixed)[0] == []
    assert of_steps(order.nonmonotonic_poll, [*mixed, live(3, 2)])[0] == [2]


def test_a_consumer_that_sought_is_a_new_reader():
    """Steps across a consumer's own seek are no anomalies; all other steps are checked."""
    back = [live(0, 5, leader_epoch=1), live(1, 2, leader_epoch=0), live(2, 2), live(3, 3)]

    def steps_back(*seeks):
        return of_steps(order.nonmonotonic_poll, back, *seeks)[0]

    assert steps_back() == [2, 2]
    assert steps_back(sought(1, 6, 2)) == [2]  # offset 2 was given twice behind the seek
    assert steps_back(sought(1, 6, 2), sought(2, 3, 2)) == []
    assert steps_back(sought(0, 0, 5), sought(3, 3, 3), sought(4, 4, 2)) == [2, 2]  # it sought elsewhere
    assert steps_back(sought(1, 6, 2, consumer_id="other")) == [2, 2]

    up = [live(0, 1, leader_epoch=1), live(1, 2, leader_epoch=0)]
    assert of_steps(order.leader_epoch_regression, up)[0] == [2]
    assert of_steps(order.leader_epoch_regression, up, sought(1, 2, 2))[0] == []


def test_leader_epoch_regression():
    """A lower leader epoch after a higher one is a regression, except after a step back or with an unknown epoch."""

    def check(*polls):
        return of_steps(order.leader_epoch_regression, polls)[0]

    assert check(live(0, 1, leader_epoch=1), live(1, 2, leader_epoch=0)) == [2]
    assert check(live(0, 1, leader_epoch=0), live(1, 2, leader_epoch=1), live(2, 1, leader_epoch=0)) == []
    assert check(live(0, 1, leader_epoch=1), live(1, 2, leader_epoch=None)) == []


def reread(polls, drain, **known):
    """Return the offsets that could not be read again."""
    return offsets(order.nonrepeatable_read(evidence(polls=polls, drain=drain, **known)))


def test_nonrepeatable_read():
    """A live read that the drain contradicts or lacks is nonrepeatable, within the drained and undeleted range."""
    drained, early = Drain(4, 4, True), Drain(2, 4, False)
    seen = [polled(0, 0), polled(1, 1), polled(3, 3), live(0, 0), live(1, 1, seq=9), live(2, 2), live(3, 4)]

    assert reread(seen, drained) == [1, 2]
    assert reread(seen, early) == [1]
    assert reread([polled(3, 3), live(0, 2), live(1, 3)], drained) == []
    assert reread(seen, drained, deleted_before=3) == [1]
    assert reread(seen, drained, deleted_before=2) == [1, 2]


def test_compaction_takes_records_and_puts_none_in_their_place():
    """Compaction may remove a record, but not replace it."""
    seen = [polled(0, 0), polled(1, 1), polled(3, 3), live(1, 1, seq=9), live(2, 2)]

    assert reread(seen, Drain(4, 4, True), kept=False) == [1]
    assert reread(seen, Drain(4, 4, True)) == [1, 2]


def test_a_committed_drain_may_pass_what_others_read_early():
    """A read_committed drain may lack records that a read_uncommitted consumer got."""
    committed, drained = {"isolation": "read_committed"}, Drain(4, 4, True)
    final = [polled(0, 0, **committed), polled(2, 2, **committed)]

    assert reread([*final, live(0, 1)], drained) == []
    assert reread([*final, live(0, 1, **committed)], drained) == [1]


def test_a_read_record_that_the_drain_ended_below_is_gone():
    """A record read before the drain began, at or above the drain's end, is nonrepeatable."""

    def check(drain, **of_live):
        return reread([*(polled(offset, offset) for offset in range(4)), live(0, 3), live(1, 4, **of_live)], drain)

    assert check(Drain(4, 4, True), received_ns=20 * S) == [4]
    assert check(Drain(4, 4, True), received_ns=31 * S) == []
    assert check(Drain(4, 5, False), received_ns=20 * S) == []


def test_realtime_order_violation():
    """An acknowledged offset below one that was known before the send violates real-time order."""
    first, later = sent(0, offset=4, at_ns=10 * S), sent(1, offset=3, at_ns=10 * S + 5 * MS)

    def check(*sends, seen=()):
        cases = order.realtime_order_violation(evidence(sends, seen))
        return offsets(cases), explanations(cases)

    assert check(first, later) == (
        [3],
        ["Record load-1/1 was acknowledged at offset 3; offset 4 was known to be filled before it was sent."],
    )
    assert check(first, {**later, "sent_ns": 10 * S + MS})[0] == []
    assert check(first, {**later, "outcome": "info"})[0] == []
    assert check(later, seen=[live(0, 3, received_ns=9 * S)])[0] == [3]
    alone = first | {"acks": "1"}  # only a leader that was lost had it
    assert check(alone, later)[0] == []
    assert check(alone, later, seen=[live(0, 4, received_ns=10 * S + 4 * MS)])[0] == [3]
    assert check(alone, later | {"acks": "1"})[0] == [3]


def of_sends(check, *sends):
    """Return offsets and explanations of a check on acknowledgements."""
    of = evidence(sends)
    cases = check(of, order.acknowledged(of))
    return offsets(cases), explanations(cases)


def test_nonmonotonic_send():
    """A producer's later record at a lower offset is nonmonotonic; producers are independent."""
    first, second = sent(0, offset=4), sent(1, offset=3)

    assert of_sends(order.nonmonotonic_send, first, second) == (
        [3],
        ["Record load-1/1 was acknowledged at offset 3, after load-1/0 at 4."],
    )
    assert of_sends(order.nonmonotonic_send, second, first)[0] == [3]  # a ledger has the order of the answers
    assert of_sends(order.nonmonotonic_send, first, {**second, "offset": 5})[0] == []
    assert of_sends(order.nonmonotonic_send, first, {**second, "producer_id": "load-2"})[0] == []


def test_bad_ack_offset():
    """An acknowledgement without an offset, with -1, or with 0 after a higher one is bad, except with acks 0 or 1."""

    def check(*sends):
        return of_sends(order.bad_ack_offset, *sends)

    assert check(sent(0, offset=None)) == ([None], ["Record load-1/0 was acknowledged with no offset."])
    assert check(sent(0, offset=-1))[0] == [-1]
    assert check(sent(0, offset=4), sent(1, offset=0))[0] == [0]
    assert check(sent(0, offset=4, acks="1"), sent(1, offset=0, acks="1"))[0] == []
    assert check(sent(0, offset=0), sent(1, offset=4), sent(2, outcome="info"), sent(3, acks="0"))[0] == []


def test_a_batch_that_the_leader_has_already_needs_no_offset():
    """An acknowledgement without an offset is permitted to a producer that may have retried the batch."""
    of = evidence([sent(0, offset=4), sent(1, offset=None), sent(2, offset=0)])
    told = order.acknowledged(of)

    def why(*resending):
        cases = order.bad_ack_offset(of, told, resending)
        return [cases.why(place) is not None for place in range(cases.values.size)]

    assert why("load-1") == [True, False]
    assert why("load-2") == [False, False]


def test_nothing_seen_is_no_case():
    """All checks of this module accept empty columns."""
    of = evidence()
    taken, told = order.steps(of), order.acknowledged(of)

    found = [
        order.poll_skip(of, taken),
        order.nonmonotonic_poll(of, taken),
        order.leader_epoch_regression(of, taken),
        order.nonrepeatable_read(of),
        order.realtime_order_violation(of),
        order.nonmonotonic_send(of, told),
        order.bad_ack_offset(of, told),
    ]
    assert [offsets(cases) for cases in found] == [[]] * 7
