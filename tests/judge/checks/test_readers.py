"""When a reader below the end is stuck, and when that is undecided."""

from __future__ import annotations

import pytest

from evidence.facts import Drain
from evidence.readers import ReaderEvidence, ReaderFacts
from judge.checks.readers import i37_readers_reach_the_end, undecided_readers
from tests.evidence.folders import S
from tests.evidence.partitions import evidence
from tests.evidence.probed import counted

LIVE, A, B = "consumer", "member-1.1", "member-2.1"
STILL = ReaderFacts(30 * S, 31 * S, frozenset({LIVE, A, B}), topic="orders")


def partition(positions, facts=STILL, **drain):
    """Return partition 0 of orders, drained from 0 to 50."""
    drained = Drain(50, 50, complete=True, start_offset=0)._replace(**drain)
    return evidence(drain=drained, readers=ReaderEvidence(positions, facts))


def told(of):
    """Return the numbers of checked and stuck readers, and of undecided ones."""
    return counted(i37_readers_reach_the_end(of)), len(undecided_readers(of))


def test_i37_a_live_consumer_that_read_nothing_is_stuck():
    """A live consumer that stays below the end for too long is stuck; one at the end is not."""
    assert told(partition({LIVE: 0, A: 50})) == ((2, 1), 0)
    assert told(partition({LIVE: 50, A: 50})) == ((2, 0), 0)


def test_i37_a_member_that_never_fetches_its_partition_is_stuck():
    """A member that never fetches from its partition is stuck, unless the partition is empty."""
    assert told(partition({LIVE: 50, A: None})) == ((2, 1), 0)
    assert told(partition({LIVE: 50, A: None}, start_offset=50)) == ((2, 0), 0)


def test_i37_a_partition_without_a_member_is_stuck():
    """A partition that no live member owns is stuck; without live members it is not checked."""
    assert told(partition({LIVE: 50})) == ((2, 1), 0)
    assert told(partition({LIVE: 50}, STILL._replace(alive=frozenset({LIVE})))) == ((1, 0), 0)
    assert told(partition({LIVE: 50}, STILL._replace(topic="payments"))) == ((1, 0), 0)


@pytest.mark.parametrize(
    "facts",
    [
        STILL._replace(still_ns=29 * S),  # it may be about to read on
        STILL._replace(still_ns=-(2**62)),  # some fault was never healed
        STILL._replace(alive=frozenset({LIVE, B}), silent=frozenset({A})),  # it may hang by itself
    ],
)
def test_i37_says_nothing_of_a_reader_that_may_yet_come_to_the_end(facts):
    """A reader that may still reach the end is undecided."""
    assert told(partition({LIVE: 50, A: 20}, facts)) == ((1, 0), 1)


def test_i37_says_nothing_of_a_consumer_that_reported_no_position():
    """A consumer that reports no position left the partition and is undecided."""
    assert told(partition({A: 50})) == ((1, 0), 1)


def test_i37_says_nothing_of_an_unassigned_partition_while_a_member_is_silent():
    """An unassigned partition is undecided while a member is silent, since that member may own it."""
    silent = STILL._replace(alive=frozenset({LIVE, A}), silent=frozenset({B}))
    assert told(partition({LIVE: 50}, silent)) == ((1, 0), 1)


def test_i37_needs_a_whole_drain():
    """I37 needs a complete drain."""
    assert told(partition({LIVE: 0, A: 0}, complete=False)) == ((0, 0), 0)
    assert told(evidence(drain=Drain(50, 50, complete=True))) == ((0, 0), 0)


def test_an_undecided_reader_is_told_in_a_sentence():
    """An undecided reader is described with its position and the time without progress."""
    early = STILL._replace(still_ns=3 * S)
    assert undecided_readers(partition({LIVE: 50, A: 20}, early)) == [
        "The reader member-1.1 of orders-0 stood at 20 of 50 when the clients were ended; it had been so for 3 s of "
        "the 30 s that prove a reader stuck."
    ]
    assert undecided_readers(partition({LIVE: 50}, early)) == [
        "No member of the group had orders-0 when the clients were ended; it had been so for 3 s of the 30 s that "
        "prove a reader stuck."
    ]
