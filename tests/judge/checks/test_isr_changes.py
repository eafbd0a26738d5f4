"""ISR changes proposed by a leader, with and without an answer."""

from __future__ import annotations

import pytest

from evidence.facts import BrokerStop, Outage
from judge.checks.isr_changes import i38_isr_changes_end, proposals
from kafka_files.states import State
from tests.evidence.folders import S, isr_view
from tests.evidence.probed import counted, partition

ZOOKEEPER, KRAFT = "znode", "metadata_log"


def state(t_s, isr, *, epoch=0, leader=1, source=ZOOKEEPER):
    """Return a state of orders-0 in the controller's history."""
    return State("orders", 0, source, t_s, t_s * S, leader, epoch, t_s, (1, 2, 3), tuple(isr))


def line(number, kind, t_s, *, broker=1, **other):
    """Return a line of a broker's server.log."""
    return {"broker_id": broker, "line": number, "kind": kind, "t_ns": t_s * S} | other


SHRINKING = line(1, "isr_shrinking", 5, isr=[1, 2], out_of_sync=[(3, 90)])
WRITTEN = (state(0, [1, 2, 3]), state(6, [1, 2]))  # the controller applied the change, and the leader got no answer


def evidence(*lines, states=WRITTEN, until_s=60, views=(), **known):
    """Return a minute of evidence in which the leader's metadata shows the old ISR."""
    known = {"effective_min_isr": 3, "strict_min_isr": True} | known
    shown = [isr_view(at * S, 1, 0, [1, 2, 3]) for at in (1, until_s)]
    return partition((), [*shown, *views], states=states, **known, lines=[SHRINKING, *lines])


def checked(*lines, **known):
    """Return (checked, violations) of the changes."""
    return counted(i38_isr_changes_end(evidence(*lines, **known)))


def test_i38_a_change_that_is_never_answered():
    """I38 is violated if an ISR change has no answer in time, without a fault."""
    assert checked() == (1, 1)
    assert checked(line(2, "isr_updated", 6, isr=[1, 2])) == (1, 0)
    assert checked(line(2, "isr_updated", 50, isr=[1, 2])) == (1, 1)


def test_i38_evidence_names_the_change_and_its_duration():
    """I38's evidence has the leader, the change, the leaving replicas and the duration."""
    told = i38_isr_changes_end(evidence()).evidence(0)

    assert (told["leader"], told["isr"], told["leaving"], told["leader_epoch"]) == (1, [1, 2], [3], 0)
    assert (told["pending_ns"], told["ended"]) == (55 * S + 1_000_000, False)


@pytest.mark.parametrize(
    ("end", "states"),
    [
        (
            line(2, "isr_shrinking", 8, isr=[1], out_of_sync=[(2, 90), (3, 90)]),
            (*WRITTEN, state(9, [2], epoch=1, leader=2)),
        ),
        (line(2, "follower_started", 8, leader_epoch=1), WRITTEN),
        (line(2, "log_loaded", 8), WRITTEN),
        (line(2, "isr_reset", 8), WRITTEN),
        (line(1, "isr_updated", 8, broker=2), (*WRITTEN, state(8, [2, 3], epoch=1, leader=2))),
    ],
)
def test_i38_a_change_is_over_with_the_next_one_or_a_new_epoch(end, states):
    """A new proposal, a new epoch, another leader or a restart ends a pending ISR change."""
    assert checked(end, states=states)[1] == 0


def test_i38_another_brokers_line_ends_nothing():
    """Another broker's log line does not end the change."""
    assert checked(line(1, "isr_updated", 8, broker=2)) == (1, 1)


@pytest.mark.parametrize(
    "known",
    [
        {"until_s": 40},  # the recording ended before it had to be over
        {"outages": [Outage(None, 20 * S, 40 * S)]},  # the controller was out of reach for a while
        {"outages": [Outage(3, 10 * S, 30 * S)]},  # with ZooKeeper any broker may be the controller
        {"stops": [BrokerStop(2, 20 * S, 21 * S, 40 * S)]},
        {"isr_change_limit_ns": 60 * S},
    ],
)
def test_i38_says_nothing_without_a_long_calm(known):
    """I38 needs enough time without a fault: a request may be lost or wait for a broker that is down."""
    assert checked(**known) == (0, 0)


def test_i38_a_calm_after_the_fault_is_enough():
    """A sufficient time after the fault is enough for I38."""
    assert checked(outages=[Outage(1, 4 * S, 15 * S)]) == (1, 1)


def test_i38_the_leaders_own_metadata_ends_a_change_of_kraft_alone():
    """The leader's metadata ends the change in KRaft only; in ZooKeeper mode metadata come from the controller."""
    views = [isr_view(7 * S, 1, 0, [1, 2])]
    kraft = (state(0, [1, 2, 3], source=KRAFT), state(6, [1, 2], source=KRAFT))

    assert checked(views=views, states=kraft) == (1, 0)
    assert checked(views=[isr_view(7 * S, 1, 0, [1, 2], observer="2")], states=kraft) == (1, 1)
    assert checked(views=views) == (1, 1)


def test_a_line_without_a_time_or_of_no_leader_is_no_proposal():
    """A log line without a time, or of a broker that did not lead, is no proposal."""

    def of(states, **change):
        found = proposals(partition(states=states, lines=[SHRINKING | change]))
        return [each.from_ns for own in found.values() for each in own]

    assert of(WRITTEN) == [5 * S]
    assert (of(WRITTEN, t_ns=None), of(WRITTEN, broker_id=2), of(())) == ([], [], [])
