"""What a change of the leader may have taken, on literal histories of the controller."""

from dataclasses import replace

import numpy as np
import pytest

from evidence.columns import NULL
from evidence.facts import FOREVER_NS, Facts
from evidence.gather import NEW_LEADER, UNCLEAN_LEADER, Permission
from evidence.partition import Replica
from evidence.views import changes
from judge.checks.findings import Cases, Findings
from judge.checks.takeovers import brought_about, is_unclean, is_whole, takeovers
from kafka_files.states import State
from tests.evidence.folders import MS, S, isr_view, sent
from tests.evidence.probed import partition


def state(number, seconds, leader, epoch, isr=(1, 2, 3), **other):
    """A state of the controller's history, the ``number``-th."""
    decided_ns = None if seconds is None else seconds * S
    found = State("orders", 0, "metadata_log", number, decided_ns, leader, epoch, number, (1, 2, 3), isr)
    return found._replace(**other)


# Broker 1 leads until it is killed at 20 s, then broker 2.
KILLED = [state(0, 1, 1, 0), state(1, 20, 2, 1, (2, 3)), state(2, 30, 2, 1)]
UNCLEAN = [state(0, 1, 1, 0, (1,)), state(1, 20, 2, 1, (2,)), state(2, 30, 2, 1)]
FOLLOWER_KILLED = [state(0, 1, 1, 0), state(1, 20, 1, 0, (1, 2)), state(2, 30, 1, 0)]
EPOCHS = [(0, 0), (1, 30)]
KNOWN = [("1", 25, 1)]


def evidence(states=KILLED, epochs=EPOCHS, known=KNOWN, sends=()):
    """A partition of which the controller told these states. ``epochs`` are the last leader's file's; ``known`` says
    of which broker's own metadata showed an epoch when.
    """
    views = [isr_view(s * S, 2, epoch, [1, 2, 3], observer=name) for name, s, epoch in known]
    replicas = (Replica(states[-1].leader, [], epochs),)
    of = partition((), views, sends=sends, facts=Facts(states=states), replicas=replicas, epoch_starts=dict(epochs))
    return replace(of, changes=changes(states, of.views, of.names))


@pytest.mark.parametrize(
    ("states", "epochs", "whole"),
    [
        (KILLED, [0, 1], True),
        (KILLED, [], True),
        (KILLED, [0, 2], False),  # it breaks off
        (KILLED[1:], [1], False),  # it begins with a snapshot
        ([KILLED[0], KILLED[2]], [0, 1], False),  # a state is missing
        ([], [], False),
    ],
)
def test_a_history_is_whole_from_the_creation_to_the_last_epoch_that_was_seen(states, epochs, whole):
    """Each state counts one on."""
    assert is_whole(states, epochs) is whole


@pytest.mark.parametrize(
    ("before", "after", "unclean"),
    [
        (state(0, 1, 1, 0, (1, 2)), state(1, 2, 2, 1, (2,)), False),
        (state(0, 1, 1, 0, (1,)), state(1, 2, 2, 1, (2,)), True),
        (state(0, 1, -1, 0, (1,)), state(1, 2, 1, 1, (1,)), False),
        (state(0, 1, -1, 0, (), elr=(2,)), state(1, 2, 2, 1, (2,)), False),
        (state(0, 1, -1, 0, (), elr=(2,)), state(1, 2, 3, 1, (3,)), True),
        (state(0, 1, -1, 0, (2,)), state(1, 2, 2, 1, (2,), recovering=True), True),
        (state(0, 1, 1, 0, (1,)), state(1, 2, -1, 1, (1,)), False),
        (state(0, 1, 1, 0, (1, 2)), state(1, 2, 1, 1, (1,)), False),
    ],
)
def test_an_election_is_unclean_from_outside_isr_and_elr_or_as_kraft_marks_it(before, after, unclean):
    """That nobody leads, or the same one in another epoch, is none."""
    assert is_unclean(before, after) is unclean


def test_a_takeover_takes_from_its_epochs_start_until_the_former_leader_knows():
    """Two seconds after its own metadata showed the new epoch; another broker's, or of the old epoch, says nothing."""
    assert takeovers(evidence()) == [(30, NULL, 27 * S + MS, False)]
    assert takeovers(evidence(known=[("2", 25, 1), ("1", 26, 0)])) == [(30, NULL, FOREVER_NS, False)]
    assert takeovers(evidence(UNCLEAN)) == [(30, NULL, 27 * S + MS, True)]


def test_the_same_leader_in_another_epoch_takes_nothing():
    """Nor does it where nobody led in between."""
    again = [state(0, 1, 1, 0), state(1, 20, 1, 1, (1, 2)), state(2, 30, -1, 2, (1,)), state(3, 40, 1, 3, (1,))]

    assert takeovers(evidence(again, [(0, 0), (3, 30)])) == []


def test_of_a_takeover_whose_start_nobody_knows_any_offset_may_be_taken():
    """No epoch file has an entry of its epoch or a later one."""
    assert takeovers(evidence(epochs=EPOCHS[:1])) == [(0, NULL, 27 * S + MS, False)]


def test_a_leader_of_which_the_final_log_has_no_epoch_may_have_lost_all_of_its_records():
    """Broker 1 led again before it had cut its log, which ended at 35, to that of broker 2, which began at 30."""
    back = [KILLED[0], state(1, 20, 2, 1), state(2, 22, 1, 2)]
    known = [("1", 21, 1), ("2", 23, 2)]
    first, second = (23 * S + MS, False), (25 * S + MS, False)

    overtaken = takeovers(evidence(back, [(0, 0), (2, 35)], known))
    assert overtaken == [(35, NULL, *first), (35, NULL, *second), (0, 20 * S - 100 * MS, *second)]
    kept = takeovers(evidence(back, [(0, 0), (1, 30), (2, 35)], known))
    assert kept == [(30, NULL, *first), (35, NULL, *second)]


@pytest.mark.parametrize("states", [KILLED[1:], [KILLED[0], state(1, None, 2, 1, (2, 3)), KILLED[2]]])
def test_a_history_that_is_not_whole_or_has_no_times_does_not_tell_of_every_takeover(states):
    """It begins with a snapshot, or the host's clock was set."""
    assert takeovers(evidence(states)) is None


def permitted(states, anomaly, cause=NEW_LEADER, *, known=KNOWN, epochs=EPOCHS):
    """The numbers of the records of which this anomaly is permitted.

    Records 0 and 1 stood at 29 and 30 before the takeover, 2 at 40 long after it; 3 has no place, 4 has none after it.
    """
    times = [(29, 15), (30, 15), (40, 35), (None, 15), (None, 35)]
    sends = [sent(n, offset=offset, at_ns=s * S, acks="1") for n, (offset, s) in enumerate(times)]
    of = evidence(states, epochs, known, sends)
    cases = Cases(anomaly, of.sends.value, lambda place: {"offset": None})
    findings, found = Findings(), takeovers(of)
    permissions = {"load-1": {anomaly: [Permission("because", cause)]}}
    findings.add_cases(of.where, cases, of.names, permissions, lambda *case: brought_about(of, found, *case))
    return [row["seq"] for kind, rows in findings.examples.items() for row in rows if kind.allowed_why]


@pytest.mark.parametrize("anomaly", ["lost_write", "truncated_ack", "unknown_offset_ack", "inconsistent_offset"])
def test_a_record_is_gone_with_a_takeover_only_from_its_start_on_and_before_it(anomaly):
    """A follower that is killed takes none; nor does an election that came before the record."""
    assert permitted(KILLED, anomaly) == [1, 3]
    assert permitted(FOLLOWER_KILLED, anomaly, known=[], epochs=EPOCHS[:1]) == []
    assert permitted(KILLED, anomaly, known=[]) == [1, 2, 3, 4]  # the former leader may not know yet
    assert permitted(KILLED[1:], anomaly) == [0, 1, 2, 3, 4]  # the history does not tell


@pytest.mark.parametrize("anomaly", ["realtime_order_violation", "nonmonotonic_send"])
def test_a_record_stands_in_the_place_of_one_that_is_gone_from_a_takeovers_start_on(anomaly):
    """Whenever it was written."""
    assert permitted(KILLED, anomaly) == [1, 2, 3, 4]
    assert permitted(FOLLOWER_KILLED, anomaly, known=[], epochs=EPOCHS[:1]) == []


def test_an_unclean_election_takes_records_only_where_one_took_place():
    """That the settings permit one, or that a leader died, is not enough."""
    assert permitted(UNCLEAN, "lost_write", UNCLEAN_LEADER) == [1, 3]
    assert permitted(UNCLEAN, "nonrepeatable_read", UNCLEAN_LEADER) == [0, 1, 2, 3, 4]
    for anomaly in ("lost_write", "nonrepeatable_read", "nonmonotonic_send"):
        assert permitted(KILLED, anomaly, UNCLEAN_LEADER) == []


def test_what_needs_no_takeover_is_permitted_without_one():
    """As with acks=0; and a second reason holds where the first does not."""
    assert permitted(FOLLOWER_KILLED, "lost_write", None, known=[], epochs=EPOCHS[:1]) == [0, 1, 2, 3, 4]
    of = evidence(FOLLOWER_KILLED, EPOCHS[:1], (), sends=[sent(0, offset=9)])
    findings, cases = Findings(), Cases("lost_write", of.sends.value, lambda place: {"offset": 9})
    both = {"load-1": {"lost_write": [Permission("a new leader", NEW_LEADER), Permission("a lost disk")]}}
    findings.add_cases(of.where, cases, of.names, both, lambda *case: brought_about(of, takeovers(of), *case))

    assert [kind.allowed_why for kind in findings.counts] == ["a lost disk"]


def test_a_case_of_a_record_that_nobody_sent_has_no_place_and_no_time():
    """It counts as one that any takeover may have brought about."""
    of, foreign = evidence(), np.array([-1])
    cases = Cases("inconsistent_offset", foreign, lambda place: {"offset": None})

    assert brought_about(of, takeovers(of), cases, NEW_LEADER).tolist() == [True]
    assert brought_about(of, [], cases, NEW_LEADER).tolist() == [False]
