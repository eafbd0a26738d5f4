"""What a leader change, or a disk that lost records, may have taken, on literal histories of the controller."""

from dataclasses import replace

import numpy as np
import pytest

from evidence.columns import NULL
from evidence.facts import FOREVER_NS, Facts, Fault, LostCopy
from evidence.gather import LOST_COPY, NEW_LEADER, UNCLEAN_LEADER, Permission
from evidence.partition import Replica
from evidence.views import changes
from judge.checks.causes import brought_about
from judge.checks.findings import Cases, Findings
from judge.checks.takeovers import holes, is_unclean, is_whole, takeovers
from kafka_files.states import State
from tests.evidence.folders import MS, S, isr_view, sample, sent
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


def evidence(states=KILLED, epochs=EPOCHS, known=KNOWN, sends=(), samples=(), **facts):
    """A partition of which the controller told these states. ``epochs`` are the last leader's file's; ``known`` says
    of which broker's own metadata showed an epoch when.
    """
    views = [isr_view(s * S, 2, epoch, [1, 2, 3], observer=name) for name, s, epoch in known]
    replicas = (Replica(states[-1].leader, [], epochs),) if states else ()
    told = Facts(states=states, **facts)
    of = partition(samples, views, sends=sends, facts=told, replicas=replicas, epoch_starts=dict(epochs))
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


def told(of):
    """Of each leader change its least offset, from when on its records were acknowledged, its takers, and whether it
    was unclean.
    """
    return [(e.from_offset, e.since_ns, dict(e.takers), UNCLEAN_LEADER in e.causes) for e in takeovers(of)]


def test_a_leader_change_takes_from_its_epochs_start_until_the_former_leader_knows():
    """Two seconds after its own metadata showed the new epoch, or once its own replica answered in it; another
    broker's, or of the old epoch, says nothing.
    """
    assert told(evidence()) == [(30, NULL, {1: 27 * S + MS}, False)]
    assert told(evidence(known=[("2", 25, 1), ("1", 26, 0)])) == [(30, NULL, {1: FOREVER_NS}, False)]
    assert told(evidence(UNCLEAN)) == [(30, NULL, {1: 27 * S + MS}, True)]
    samples = [
        sample(1, 22 * S, 30, 30, epoch=0),
        sample(1, 23 * S, 30, 30, epoch=1),
        sample(2, 21 * S, 30, 30, epoch=1),
    ]
    assert told(evidence(samples=samples)) == [(30, NULL, {1: 23 * S + MS}, False)]


def test_the_same_leader_in_another_epoch_takes_nothing():
    """Nor does it where nobody led in between."""
    again = [state(0, 1, 1, 0), state(1, 20, 1, 1, (1, 2)), state(2, 30, -1, 2, (1,)), state(3, 40, 1, 3, (1,))]

    assert told(evidence(again, [(0, 0), (3, 30)])) == []


def test_of_a_leader_change_whose_start_nobody_knows_any_offset_may_be_taken():
    """No epoch file has an entry of its epoch or a later one."""
    assert told(evidence(epochs=EPOCHS[:1])) == [(0, NULL, {1: 27 * S + MS}, False)]


def test_a_leader_of_which_the_final_log_has_no_epoch_may_have_lost_all_of_its_records():
    """Broker 1 led again before it had cut its log, which ended at 35, to that of broker 2, which began at 30."""
    back = [KILLED[0], state(1, 20, 2, 1), state(2, 22, 1, 2)]
    known = [("1", 21, 1), ("2", 23, 2)]
    first, second = ({1: 23 * S + MS}, False), ({2: 25 * S + MS}, False)

    overtaken = told(evidence(back, [(0, 0), (2, 35)], known))
    assert overtaken == [(35, NULL, *first), (35, NULL, *second), (0, 20 * S - 100 * MS, *second)]
    kept = told(evidence(back, [(0, 0), (1, 30), (2, 35)], known))
    assert kept == [(30, NULL, *first), (35, NULL, *second)]


UNDATED = [KILLED[0], state(1, None, 2, 1, (2, 3)), KILLED[2]]
TORN = [KILLED[0], KILLED[2]]
LATER = [*KILLED, state(5, 50, 3, 3, (3,))]  # two states are missing before the last one


@pytest.mark.parametrize(
    ("states", "epochs", "lacks"),
    [
        (KILLED, EPOCHS, []),
        ([], [], ["is missing"]),
        (KILLED[1:], EPOCHS, ["begins at partition epoch 1"]),
        (TORN, EPOCHS, ["has nothing between partition epochs 0 and 2"]),
        (UNDATED, EPOCHS, ["has a state without a time"]),
        (KILLED, [*EPOCHS, (2, 50)], ["ends at leader epoch 1, and epoch 2 was seen"]),
        ([KILLED[0], KILLED[1]._replace(t_ns=27 * S)], EPOCHS, ["dates leader epoch 1 after a broker showed it"]),
        ([KILLED[0], KILLED[1]._replace(t_ns=26 * S)], EPOCHS, []),  # within the precision of clocks
        (LATER[1:], EPOCHS, ["begins at partition epoch 1", "has nothing between partition epochs 2 and 5"]),
    ],
)
def test_every_part_that_a_history_lacks_is_named(states, epochs, lacks):
    """Before its first state, between two of them, behind its last, and its dates."""
    assert [hole.why for hole in holes(evidence(states, epochs))] == [
        f"the controller's history of orders-0 {what}" for what in lacks
    ]


KNOWN_BY_ALL = [*KNOWN, ("3", 21, 1)]


def ruled(states, anomaly, cause=NEW_LEADER, *, known=KNOWN, epochs=EPOCHS, shown_ns=None, **facts):
    """The numbers of the records of which this anomaly is permitted, and of those of which it is undecided.

    Records 0 and 1 stood at 29 and 30 before broker 2 led, 2 at 40 long after it; 3 has no place, 4 has none after it.
    """
    times = [(29, 15), (30, 15), (40, 35), (None, 15), (None, 35)]
    sends = [sent(n, offset=offset, at_ns=s * S, acks="1") for n, (offset, s) in enumerate(times)]
    of = evidence(states, epochs, known, sends, **facts)
    cases = Cases(anomaly, of.sends.value, lambda place: {"offset": None}, shown_ns=shown_ns)
    findings, found = Findings(), takeovers(of)
    permissions = {"load-1": {anomaly: [Permission("because", cause)]}}
    findings.add_cases(of.where, cases, of.names, permissions, lambda *case: brought_about(of, found, *case))

    def of_kind(allowed):
        return [row["seq"] for kind, rows in findings.examples.items() for row in rows if kind.allowed is allowed]

    return of_kind(True), of_kind(None)


def permitted(*case, **known):
    """The numbers of the records of which an anomaly is permitted, and none is undecided."""
    found, undecided = ruled(*case, **known)
    assert undecided == []
    return found


@pytest.mark.parametrize("anomaly", ["lost_write", "truncated_ack", "unknown_offset_ack", "inconsistent_offset"])
def test_a_record_is_gone_with_a_takeover_only_from_its_start_on_and_before_it(anomaly):
    """A follower that is killed takes none; nor does an election that came before the record."""
    assert permitted(KILLED, anomaly) == [1, 3]
    assert permitted(FOLLOWER_KILLED, anomaly, known=[], epochs=EPOCHS[:1]) == []
    assert permitted(KILLED, anomaly, known=[]) == [1, 2, 3, 4]  # the former leader may not know yet


def test_a_history_that_begins_with_a_snapshot_leaves_open_what_came_before_it():
    """And nothing else: a record that was sent once every broker knew of its first state is not excused by what came
    before that. Leader changes after it count as ever.
    """
    assert ruled(KILLED[1:], "lost_write", known=KNOWN_BY_ALL) == ([], [0, 1, 3])
    later = [state(1, 5, 1, 0), KILLED[1]._replace(partition_epoch=2)]
    assert ruled(later, "lost_write", known=[("2", 6, 0), ("3", 6, 0), *KNOWN_BY_ALL]) == ([1, 3], [])
    assert ruled(later, "lost_write", known=[("2", 14, 0), ("3", 6, 0), *KNOWN_BY_ALL]) == ([1, 3], [0])


def test_a_gap_leaves_open_what_was_sent_before_its_end():
    """Nobody knows who led within it."""
    assert ruled(TORN, "lost_write", known=[("1", 25, 1), ("3", 25, 1)]) == ([], [0, 1, 3])
    assert ruled(UNDATED, "lost_write", known=[("1", 25, 1), ("3", 25, 1)]) == ([], [0, 1, 3])


def test_what_a_history_does_not_tell_to_the_end_is_open():
    """A later epoch was seen, or nothing of the history is there; what is known to be permitted stays so."""
    assert ruled(KILLED, "lost_write", epochs=[*EPOCHS, (2, 50)]) == ([1, 3], [0, 2, 4])
    assert ruled([], "lost_write", epochs=[]) == ([], [0, 1, 2, 3, 4])


def test_a_broker_that_was_killed_takes_no_more_records():
    """Records 2 and 4 were sent and acknowledged while broker 1 was down: broker 2, which led by then, lost its own.

    One that was acknowledged after broker 1 came back it may have taken; so it may what was sent before its end.
    """
    dead = [Fault(1, 19 * S, 20 * S, FOREVER_NS)]
    assert permitted(KILLED, "lost_write", known=[], faults=dead) == [1, 3]
    assert permitted(KILLED, "lost_write", known=[], faults=[Fault(1, 19 * S, 20 * S, 30 * S)]) == [1, 2, 3, 4]
    assert permitted(KILLED, "lost_write", known=[], faults=[Fault(1, 35 * S, 35 * S + 2 * MS, FOREVER_NS)]) == [
        1,
        2,
        3,
        4,
    ]
    assert permitted(KILLED, "lost_write", known=[], faults=[Fault(3, 19 * S, 20 * S, FOREVER_NS)]) == [1, 2, 3, 4]


def test_a_leader_whose_process_ended_takes_nothing_that_was_sent_later():
    """Started anew it leads in a later epoch. A pause ends no process, and one before it led ended another one."""
    ended = Fault(1, 19 * S, 20 * S, 22 * S, ended=True)

    assert told(evidence(known=[], faults=[ended])) == [(30, NULL, {1: 20 * S}, False)]
    assert told(evidence(known=[], faults=[ended._replace(ended=False)])) == [(30, NULL, {1: FOREVER_NS}, False)]
    assert told(evidence(known=[], faults=[ended._replace(broker_id=2)])) == [(30, NULL, {1: FOREVER_NS}, False)]
    led_later = [KILLED[0]._replace(t_ns=20 * S), KILLED[1]._replace(t_ns=24 * S)]
    assert told(evidence(led_later, known=[], faults=[ended])) == [(30, NULL, {1: FOREVER_NS}, False)]


def test_a_former_leader_takes_nothing_once_it_knows_of_any_later_epoch():
    """Broker 1 knew of epoch 1 at 22 s. That it learned of epoch 2 at 81 s excuses no loss by broker 3, which takes
    over from broker 2.
    """
    states = [*KILLED[:2], state(2, 51, 3, 2)]
    epochs, known = [(0, 0), (1, 30), (2, 60)], [("1", 22, 1), ("2", 53, 2), ("1", 81, 2)]

    assert told(evidence(states, epochs, known)) == [
        (30, NULL, {1: 24 * S + MS}, False),
        (60, NULL, {2: 55 * S + MS}, False),
    ]
    assert told(evidence(states, epochs, known[1:]))[0] == (30, NULL, {1: 83 * S + MS}, False)


@pytest.mark.parametrize("anomaly", ["lost_write", "torn_transaction"])
def test_a_disk_that_lost_the_only_copy_excuses_what_was_sent_before(anomaly):
    """From where its file was cut; where the step could not tell, nothing is decided."""
    lost = LostCopy(20 * S, 30)
    assert permitted(KILLED, anomaly, LOST_COPY, lost_copies=[lost]) == [1, 3]
    assert permitted(KILLED, anomaly, LOST_COPY) == []
    assert ruled(KILLED, anomaly, LOST_COPY, lost_copies=[lost._replace(unknown="untold")]) == ([], [1, 3])


@pytest.mark.parametrize("anomaly", ["realtime_order_violation", "nonmonotonic_send"])
def test_a_record_stands_in_the_place_of_one_that_is_gone_after_a_leader_change(anomaly):
    """From the start of its epoch on; records 1 and 3 were acknowledged before there was any."""
    assert permitted(KILLED, anomaly) == [2, 4]
    assert permitted(FOLLOWER_KILLED, anomaly, known=[], epochs=EPOCHS[:1]) == []


def test_an_unclean_election_takes_records_only_where_one_took_place():
    """That the settings permit one, or that a leader died, is not enough."""
    assert permitted(UNCLEAN, "lost_write", UNCLEAN_LEADER) == [1, 3]
    assert permitted(UNCLEAN, "nonrepeatable_read", UNCLEAN_LEADER) == [1, 2, 3, 4]
    assert permitted(UNCLEAN, "aborted_read", UNCLEAN_LEADER) == [0, 1, 3]
    for anomaly in ("lost_write", "nonrepeatable_read", "nonmonotonic_send", "aborted_read"):
        assert permitted(KILLED, anomaly, UNCLEAN_LEADER) == []


@pytest.mark.parametrize("anomaly", ["nonmonotonic_poll", "poll_skip"])
def test_a_consumer_goes_back_after_an_unclean_election_and_not_before(anomaly):
    """A second before it, as clocks go."""
    shown_ns = np.array([18, 18, 18, 19, 40]) * S
    assert permitted(UNCLEAN, anomaly, UNCLEAN_LEADER, shown_ns=shown_ns) == [3, 4]


def test_a_second_reason_holds_where_the_first_does_not():
    """No leader changed, and the disk lost the only copy."""
    lost = [LostCopy(20 * S)]
    of = evidence(FOLLOWER_KILLED, EPOCHS[:1], (), sends=[sent(0, offset=9)], lost_copies=lost)
    findings, cases = Findings(), Cases("lost_write", of.sends.value, lambda place: {"offset": 9})
    both = {"load-1": {"lost_write": [Permission("a new leader", NEW_LEADER), Permission("a lost disk", LOST_COPY)]}}
    findings.add_cases(of.where, cases, of.names, both, lambda *case: brought_about(of, takeovers(of), *case))

    assert [kind.allowed_why for kind in findings.counts] == ["a lost disk"]


def test_a_case_of_a_record_that_nobody_sent_has_no_place_and_no_time():
    """It counts as one that any leader change may have brought about."""
    of, foreign = evidence(), np.array([-1])
    cases = Cases("inconsistent_offset", foreign, lambda place: {"offset": None})

    assert brought_about(of, takeovers(of), cases, NEW_LEADER).brought.tolist() == [True]
    assert brought_about(of, [], cases, NEW_LEADER).brought.tolist() == [False]
