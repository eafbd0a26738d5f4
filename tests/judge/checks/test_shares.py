"""What a share group may do with one partition, and what it must not."""

from dataclasses import replace

import pyarrow as pa
import pytest

from evidence.shares import Acks, Deliveries, ShareEvidence, ShareFacts
from history.tables import SHARE_ACKS, SHARE_READS
from judge.checks import shares
from tests.evidence.folders import TP, S, polled
from tests.evidence.partitions import evidence, explanations, offsets
from tests.evidence.probed import counted

A, B = "member-1.1", "member-2.1"
FACTS = ShareFacts("orders", 4 * S, 13 * S, 5, 100 * S, frozenset(), (0, 0))


def given(member, first, last, at_s, count=1, *, since_s=None):
    """Return a stretch delivered to a member, fetched at most 0.1 s earlier."""
    since_ns = int((at_s - 0.1 if since_s is None else since_s) * S)
    told = {"member": member, **TP, "first_offset": first, "last_offset": last, "delivery_count": count}
    return told | {"since_ns": since_ns, "received_ns": int(at_s * S)}


def acked(member, first, last, asked_s, answered_s=None, *, kind="accept", error=None):
    """Return the rows of an acknowledgement: its request and its answer."""
    told = {"member": member, **TP, "first_offset": first, "last_offset": last, "kind": kind}
    answer = told | {"answered_ns": int(answered_s * S), "error": error} if answered_s else None
    return [told | {"asked_ns": int(asked_s * S)}, *([answer] if answer else [])]


def partition(reads, acks=(), *, faults=(), drained=range(4), facts=FACTS, **known):
    """Return evidence of a group with 4 s locks that came to rest at 20 s; the final drain found four records."""
    of = evidence(polls=[polled(offset, offset) | {"received_ns": 20 * S} for offset in drained], **known)
    told = Deliveries.of(pa.Table.from_pylist(list(reads), SHARE_READS), of.names)
    answers = Acks.of(pa.Table.from_pylist([row for each in acks for row in each], SHARE_ACKS), of.names)
    return replace(of, share=ShareEvidence(told, answers, facts, faults))


ALL = [given(A, 0, 3, 10)]
TAKEN = acked(A, 0, 2, 10.1, 10.2)


def stuck(*args, **given_):
    """Return the stuck offsets."""
    return offsets(shares.stuck_record(partition(*args, **given_)))


def archived(*args, **given_):
    """Return the archived offsets, and whether each is permitted."""
    found = shares.archived_record(partition(*args, **given_))
    return [(offset, found.why(place) is not None) for place, offset in enumerate(offsets(found))]


def test_stuck_record():
    """A record that was never delivered, or never acknowledged, is stuck; an accepted one is not."""
    assert stuck(ALL, [TAKEN]) == [3]
    assert stuck([given(A, 0, 2, 10)], [TAKEN]) == [3]
    assert stuck(ALL, [acked(A, 0, 3, 10.1, 10.2)]) == []


def test_a_stuck_record_is_named():
    """The explanation of a stuck record has its number of deliveries."""
    assert explanations(shares.stuck_record(partition(ALL, [TAKEN]))) == [
        "Record load-1/3 at offset 3 was delivered 1 times of at most 5, and not accepted."
    ]
    assert explanations(shares.stuck_record(partition([], [acked(A, 0, 2, 1, 2)]))) == [
        "Record load-1/3 at offset 3 was never delivered to a member, and not accepted."
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"facts": FACTS._replace(ended_ns=32 * S)},  # it may be delivered yet
        {"faults": [(5 * S, 90 * S)]},  # which kept the group from it until 90 s
        {"clean": False},  # the record may have taken the place of another one
        {"drained": range(3)},  # a marker, or compacted away
        {"reads": [given(A, 0, 3, 10, count=None)]},  # unknown delivery count
        {"reads": [given(A, 0, 3, 10, count=5)]},  # given up, not stuck
        {"acks": [TAKEN, acked(A, 3, 3, 10.1, 10.2, error="_TRANSPORT")]},  # it may have been taken
        {
            "acks": [TAKEN, acked(A, 3, 3, 10.1)],
            "facts": FACTS._replace(unclean=frozenset({A})),
        },  # killed, and so may this
    ],
)
def test_a_record_is_stuck_only_where_nothing_else_can_be(change):
    """A record is stuck only if there was enough time and no other explanation."""
    told = {"reads": ALL, "acks": [TAKEN]} | change
    assert stuck(told.pop("reads"), told.pop("acks"), **told) == []


def test_a_share_group_that_may_not_have_come_to_rest_is_undecided():
    """If the group may not have come to rest within 13 s, its remaining records are undecided."""
    early, unknown = FACTS._replace(ended_ns=32 * S), FACTS._replace(ended_ns=0)
    accepted = acked(A, 0, 3, 10.1, 10.2)

    assert shares.undecided_shares(partition(ALL, [TAKEN], facts=early)) == [
        "The share group left 1 records of orders-0: it had been at rest for 12 s of the 13 s that prove a record "
        "stuck."
    ]
    assert shares.undecided_shares(partition([], facts=unknown)) == [
        "The share group left 4 records of orders-0: no member ended in order, which would show whether it had come to "
        "rest."
    ]
    assert shares.undecided_shares(partition(ALL, [accepted], facts=early)) == []
    assert shares.undecided_shares(partition(ALL, [TAKEN], facts=FACTS._replace(ended_ns=33 * S))) == []
    assert shares.undecided_shares(evidence()) == []


def test_a_killed_member_that_had_not_acknowledged_cannot_have_accepted():
    """A killed member's unanswered acknowledgement does not count, unless it was sent after the last delivery."""
    killed = FACTS._replace(unclean=frozenset({A}))
    assert stuck(ALL, [TAKEN], facts=killed) == [3]
    again = [*ALL, given(B, 3, 3, 15, 2)]
    assert stuck(again, [TAKEN, acked(A, 3, 3, 10.1)], facts=killed) == [3]
    assert stuck(ALL, [TAKEN, acked(A, 3, 3, 10.1)]) == [3]  # a member that is alive must get an answer


FIVE = [given(A, 3, 3, 10 + n, n + 1) for n in range(5)]


def test_archived_record():
    """A record delivered up to the limit without being accepted is archived."""
    told = [given(A, 0, 2, 10), *FIVE]
    assert archived(told, [TAKEN]) == [(3, False)]
    assert archived(told[:-1], [TAKEN]) == []
    assert archived(told, [TAKEN, acked(A, 3, 3, 14.1, 14.2)]) == []
    assert archived(told, [TAKEN], clean=False) == []


def test_a_record_may_be_given_up_after_as_many_faults():
    """An archived record is permitted with as many faults during its deliveries; released deliveries need none."""
    told = [given(A, 0, 2, 10), *FIVE]
    five, long_ago = [(n * S, (n + 1) * S) for n in range(10, 15)], [(0, S)] * 5
    assert archived(told, [TAKEN], faults=five) == [(3, True)]
    assert archived(told, [TAKEN], faults=five[1:]) == [(3, False)]
    assert archived(told, [TAKEN], faults=long_ago) == [(3, False)]
    released = [acked(A, 3, 3, 10 + n, 10.1 + n, kind="release") for n in range(4)]
    assert archived(told, [TAKEN, *released], faults=five[:1]) == [(3, True)]


def test_i33_what_was_accepted_is_not_delivered_again():
    """I33 is violated if a record is fetched again after its acceptance was confirmed."""
    late = [*ALL, given(B, 1, 1, 13, 2)]
    assert counted(shares.i33_accepted_for_good(partition(late, [TAKEN]))) == (3, 1)
    paused = [*ALL, given(B, 1, 1, 13, 2, since_s=9)]
    assert counted(shares.i33_accepted_for_good(partition(paused, [TAKEN]))) == (3, 0)
    assert counted(shares.i33_accepted_for_good(partition([*ALL, given(B, 3, 3, 15, 2)], [TAKEN]))) == (3, 0)


@pytest.mark.parametrize("error", ["INVALID_RECORD_STATE", None])
def test_i33_only_a_confirmed_acknowledgement_counts(error):
    """I33 counts confirmed acknowledgements only, not rejected or unanswered ones."""
    told = acked(A, 0, 3, 10.1, 10.2, error=error) if error else acked(A, 0, 3, 10.1)
    assert counted(shares.i33_accepted_for_good(partition([*ALL, given(B, 1, 1, 15, 2)], [told]))) == (0, 0)


def test_i34_a_record_has_one_holder():
    """I34 is violated if a record is delivered to a second member before the lock expires."""
    assert counted(shares.i34_one_holder(partition([*ALL, given(B, 1, 1, 11, 2)]))) == (5, 1)
    assert counted(shares.i34_one_holder(partition([*ALL, given(B, 1, 1, 14.5, 2)]))) == (5, 0)
    assert counted(shares.i34_one_holder(partition(ALL))) == (4, 0)


def test_i34_what_was_given_back_may_be_given_on():
    """I34 accepts a second delivery after that record was released or its acknowledgement was rejected."""
    both = [*ALL, given(B, 1, 1, 11, 2)]
    assert counted(shares.i34_one_holder(partition(both, [acked(A, 1, 1, 10.1, 10.2, kind="release")]))) == (5, 0)
    refused = acked(A, 1, 1, 10.1, 10.2, error="INVALID_RECORD_STATE")
    assert counted(shares.i34_one_holder(partition(both, [refused]))) == (5, 0)
    others = [acked(A, 2, 2, 10.1, 10.2, kind="release"), acked(A, 0, 0, 10.1, 10.2, kind="release")]
    assert counted(shares.i34_one_holder(partition(both, others))) == (5, 1)
    assert counted(shares.i34_one_holder(partition(both, [acked(A, 1, 1, 9, 9.1, kind="release")]))) == (5, 1)


@pytest.mark.parametrize("change", [{"faults": [(3 * S, 4 * S)]}, {"facts": FACTS._replace(begun_ns=(3 * S,))}])
def test_deliveries_are_compared_only_where_nothing_was_disturbed(change):
    """I34 and I36 skip deliveries within two locks after a fault or a start."""
    told = partition([*ALL, given(B, 1, 1, 11, 1)], **change)
    assert counted(shares.i34_one_holder(told)) == (0, 0)
    assert counted(shares.i36_deliveries_counted(told)) == (0, 0)


def test_a_member_that_stalled_for_a_lock_may_come_late():
    """A member that stalled for a lock may deliver records that it fetched before another member got them."""
    told = partition([*ALL, given(B, 1, 1, 11, 1, since_s=6)])
    assert counted(shares.i34_one_holder(told)) == (5, 0)
    assert counted(shares.i36_deliveries_counted(told)) == (0, 0)


def test_i35_no_more_deliveries_than_the_limit():
    """I35 is violated if a delivery count is above the limit or 0; an unknown count is not checked."""
    assert counted(shares.i35_delivery_limit(partition([given(A, 0, 1, 10, 5)]))) == (2, 0)
    assert counted(shares.i35_delivery_limit(partition([given(A, 0, 1, 10, 6)]))) == (2, 2)
    assert counted(shares.i35_delivery_limit(partition([given(A, 0, 1, 10, 0)]))) == (2, 2)
    assert counted(shares.i35_delivery_limit(partition([given(A, 0, 1, 10, None)]))) == (0, 0)


def test_i36_the_delivery_count_grows():
    """I36 is violated if the delivery count does not grow; it may grow by more than one."""
    for count, violated in ((1, 1), (2, 0), (4, 0)):
        told = partition([*ALL, given(B, 1, 1, 15, count)])
        assert counted(shares.i36_deliveries_counted(told)) == (1, violated)
    assert counted(shares.i36_deliveries_counted(partition([*ALL, given(B, 1, 1, 15, None)]))) == (0, 0)


def test_nothing_is_said_without_a_share_group():
    """Without a share group nothing is checked."""
    without = evidence(polls=[polled(0, 0)])
    assert offsets(shares.stuck_record(without)) == offsets(shares.archived_record(without)) == []
