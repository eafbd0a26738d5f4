"""Which records a leader change, or a disk that lost records, may have removed, on literal controller histories."""

from dataclasses import replace

import numpy as np
import pytest

from evidence.columns import NULL
from evidence.facts import FOREVER_NS, BrokerStop, Cause, LostCopy, Permission, Replica
from evidence.views import changes
from judge.checks.causes import brought_about
from judge.checks.findings import Cases, Findings
from judge.checks.leader_changes import history_gaps, is_unclean, is_whole, possible_losses
from kafka_files.states import State
from tests.evidence.folders import MS, S, isr_view, sample, sent
from tests.evidence.probed import facts_of, partition


def state(number, seconds, leader, epoch, isr=(1, 2, 3), **other):
    """Return the ``number``-th state of the controller's history."""
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
    """Return a partition with these states of the controller, and ``epochs`` as in the last leader's file.

    ``known`` lists when a broker's own metadata showed an epoch.
    """
    views = [isr_view(s * S, 2, epoch, [1, 2, 3], observer=name) for name, s, epoch in known]
    replicas = (Replica(states[-1].leader, [], epochs),) if states else ()
    told = facts_of(states=states, **facts)
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
    """A history is whole if it begins at the creation, has no gap, and reaches the last epoch that was seen."""
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
    """An election is unclean from outside ISR and ELR, or if KRaft marks it; the same leader again is clean."""
    assert is_unclean(before, after) is unclean


def told(of):
    """Return (least offset, time since, brokers, unclean) of each leader change."""
    return [
        (e.from_offset, e.since_ns, dict(e.acceptors), Cause.UNCLEAN_LEADER in e.causes) for e in possible_losses(of)
    ]


def test_a_leader_change_takes_from_its_epochs_start_until_the_former_leader_knows():
    """A change may remove records from its epoch's start, until 2 s after the old leader's metadata showed the epoch.

    A reply of its replica in the new epoch ends that time at once; another broker or an older epoch does not.
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
    """The same leader in a new epoch removes nothing, even after a time without a leader."""
    again = [state(0, 1, 1, 0), state(1, 20, 1, 1, (1, 2)), state(2, 30, -1, 2, (1,)), state(3, 40, 1, 3, (1,))]

    assert told(evidence(again, [(0, 0), (3, 30)])) == []


def test_of_a_leader_change_whose_start_nobody_knows_any_offset_may_be_taken():
    """If no epoch file has the start of the epoch, the leader change may remove records at any offset."""
    assert told(evidence(epochs=EPOCHS[:1])) == [(0, NULL, {1: 27 * S + MS}, False)]


def test_a_leader_of_which_the_final_log_has_no_epoch_may_have_lost_all_of_its_records():
    """If the final log lacks a leader's epoch, that leader may have lost all of its records."""
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
        (KILLED[1:], EPOCHS, ["begins at partition epoch 1 (a snapshot at offset 1)"]),
        ([each._replace(source="znode") for each in KILLED[1:]], EPOCHS, ["begins at partition epoch 1"]),
        (TORN, EPOCHS, ["has nothing between partition epochs 0 and 2"]),
        (UNDATED, EPOCHS, ["has a state without a time: the host's clock was set near it, or not recorded"]),
        (KILLED, [*EPOCHS, (2, 50)], ["ends at leader epoch 1, and epoch 2 was seen"]),
        ([KILLED[0], KILLED[1]._replace(t_ns=27 * S)], EPOCHS, ["dates leader epoch 1 after a broker showed it"]),
        ([KILLED[0], KILLED[1]._replace(t_ns=26 * S)], EPOCHS, []),  # within the precision of clocks
        (
            LATER[1:],
            EPOCHS,
            ["begins at partition epoch 1 (a snapshot at offset 1)", "has nothing between partition epochs 2 and 5"],
        ),
    ],
)
def test_every_part_that_a_history_lacks_is_named(states, epochs, lacks):
    """A history lists its gaps: before the first state, between states, after the last, and missing dates."""
    assert [hole.why for hole in history_gaps(evidence(states, epochs))] == [
        f"the controller's history of orders-0 {what}" for what in lacks
    ]


KNOWN_BY_ALL = [*KNOWN, ("3", 21, 1)]


def ruled(states, anomaly, cause=Cause.NEW_LEADER, *, known=KNOWN, epochs=EPOCHS, shown_ns=None, **facts):
    """Return the records for which the anomaly is permitted, and those for which it is undecided.

    Records 0 and 1 are at 29 and 30 before broker 2 led, 2 at 40 after it; 3 and 4 have no offset.
    """
    times = [(29, 15), (30, 15), (40, 35), (None, 15), (None, 35)]
    sends = [sent(n, offset=offset, at_ns=s * S, acks="1") for n, (offset, s) in enumerate(times)]
    of = evidence(states, epochs, known, sends, **facts)
    cases = Cases(anomaly, of.sends.value, lambda place: {"offset": None}, shown_ns=shown_ns)
    findings, found = Findings(), possible_losses(of)
    permissions = {"load-1": {anomaly: [Permission("because", cause)]}}
    findings.add_cases(of.where, cases, of.names, permissions, lambda *case: brought_about(of, found, *case))

    def of_kind(allowed):
        return [row["seq"] for kind, rows in findings.examples.items() for row in rows if kind.allowed is allowed]

    return of_kind(True), of_kind(None)


def permitted(*case, **known):
    """Return the records for which the anomaly is permitted; none may be undecided."""
    found, undecided = ruled(*case, **known)
    assert undecided == []
    return found


@pytest.mark.parametrize("anomaly", ["lost_write", "truncated_ack", "unknown_offset_ack", "inconsistent_offset"])
def test_a_record_is_gone_with_a_takeover_only_from_its_start_on_and_before_it(anomaly):
    """A leader change permits the loss of records sent before it, at or above its epoch's start."""
    assert permitted(KILLED, anomaly) == [1, 3]
    assert permitted(FOLLOWER_KILLED, anomaly, known=[], epochs=EPOCHS[:1]) == []
    assert permitted(KILLED, anomaly, known=[]) == [1, 2, 3, 4]  # the former leader may not know yet


def test_a_history_that_begins_with_a_snapshot_leaves_open_what_came_before_it():
    """A history that begins with a snapshot leaves only earlier records undecided."""
    assert ruled(KILLED[1:], "lost_write", known=KNOWN_BY_ALL) == ([], [0, 1, 3])
    later = [state(1, 5, 1, 0), KILLED[1]._replace(partition_epoch=2)]
    assert ruled(later, "lost_write", known=[("2", 6, 0), ("3", 6, 0), *KNOWN_BY_ALL]) == ([1, 3], [])
    assert ruled(later, "lost_write", known=[("2", 14, 0), ("3", 6, 0), *KNOWN_BY_ALL]) == ([1, 3], [0])


def test_a_snapshots_leader_may_have_lost_what_it_accepted_when_it_led_before():
    """While all other brokers were down, a record of the snapshot's leader is undecided up to the snapshot, not after.

    If the history begins at the creation, it is not permitted at any time.
    """
    away = [BrokerStop(broker, 9 * S, 10 * S, FOREVER_NS) for broker in (2, 3)]
    alone = [state(1, 20, 1, 0, (1,))]

    def of(states):
        return ruled(states, "lost_write", known=[], epochs=EPOCHS[:1], stops=away)

    assert of(alone) == ([], [0, 1, 3])
    assert of([alone[0]._replace(t_ns=12 * S)]) == of([state(0, 1, 1, 0), *alone]) == ([], [])


def test_a_gap_leaves_open_what_was_sent_before_its_end():
    """A gap in the history leaves records undecided that were sent before its end."""
    assert ruled(TORN, "lost_write", known=[("1", 25, 1), ("3", 25, 1)]) == ([], [0, 1, 3])
    assert ruled(UNDATED, "lost_write", known=[("1", 25, 1), ("3", 25, 1)]) == ([], [0, 1, 3])


def test_what_a_history_does_not_tell_to_the_end_is_open():
    """A history that ends too early leaves later records undecided; known permissions stay."""
    assert ruled(KILLED, "lost_write", epochs=[*EPOCHS, (2, 50)]) == ([1, 3], [0, 2, 4])
    assert ruled([], "lost_write", epochs=[]) == ([], [0, 1, 2, 3, 4])


def test_a_broker_that_was_killed_takes_no_more_records():
    """A killed former leader removes no record that was sent after its end, until it returns."""
    dead = [BrokerStop(1, 19 * S, 20 * S, FOREVER_NS)]
    assert permitted(KILLED, "lost_write", known=[], stops=dead) == [1, 3]
    assert permitted(KILLED, "lost_write", known=[], stops=[BrokerStop(1, 19 * S, 20 * S, 30 * S)]) == [1, 2, 3, 4]
    assert permitted(KILLED, "lost_write", known=[], stops=[BrokerStop(1, 35 * S, 35 * S + 2 * MS, FOREVER_NS)]) == [
        1,
        2,
        3,
        4,
    ]
    assert permitted(KILLED, "lost_write", known=[], stops=[BrokerStop(3, 19 * S, 20 * S, FOREVER_NS)]) == [1, 2, 3, 4]


def test_a_leader_whose_process_ended_takes_nothing_that_was_sent_later():
    """A former leader whose process ended removes nothing sent later; a pause does not end its process."""
    ended = BrokerStop(1, 19 * S, 20 * S, 22 * S, ended=True)

    assert told(evidence(known=[], stops=[ended])) == [(30, NULL, {1: 20 * S}, False)]
    assert told(evidence(known=[], stops=[ended._replace(ended=False)])) == [(30, NULL, {1: FOREVER_NS}, False)]
    assert told(evidence(known=[], stops=[ended._replace(broker_id=2)])) == [(30, NULL, {1: FOREVER_NS}, False)]
    led_later = [KILLED[0]._replace(t_ns=20 * S), KILLED[1]._replace(t_ns=24 * S)]
    assert told(evidence(led_later, known=[], stops=[ended])) == [(30, NULL, {1: FOREVER_NS}, False)]


def test_a_snapshots_leader_whose_process_had_ended_takes_nothing_that_was_sent_later():
    """A process that was down at the snapshot ended its leadership before; one that had returned by then did not."""

    def until_ns(snapshot_s):
        late = [state(1, snapshot_s, 1, 0), state(2, 24, 2, 1, (2, 3))]
        found = told(evidence(late, known=[], stops=[BrokerStop(1, 19 * S, 20 * S, 22 * S, ended=True)]))
        return [acceptors for *_, acceptors, of_gap in found if not of_gap]

    assert until_ns(21) == [{1: 20 * S}]
    assert until_ns(22) == [{1: FOREVER_NS}]


def test_a_former_leader_takes_nothing_once_it_knows_of_any_later_epoch():
    """A former leader removes nothing once it knows of any later epoch."""
    states = [*KILLED[:2], state(2, 51, 3, 2)]
    epochs, known = [(0, 0), (1, 30), (2, 60)], [("1", 22, 1), ("2", 53, 2), ("1", 81, 2)]

    assert told(evidence(states, epochs, known)) == [
        (30, NULL, {1: 24 * S + MS}, False),
        (60, NULL, {2: 55 * S + MS}, False),
    ]
    assert told(evidence(states, epochs, known[1:]))[0] == (30, NULL, {1: 83 * S + MS}, False)


@pytest.mark.parametrize("anomaly", ["lost_write", "torn_transaction"])
def test_a_disk_that_lost_the_only_copy_excuses_what_was_sent_before(anomaly):
    """A lost last copy permits losses of records sent before it, above the cut; if unknown, they are undecided."""
    lost = LostCopy(20 * S, 30)
    assert permitted(KILLED, anomaly, Cause.LOST_COPY, lost_copies=[lost]) == [1, 3]
    assert permitted(KILLED, anomaly, Cause.LOST_COPY) == []
    assert ruled(KILLED, anomaly, Cause.LOST_COPY, lost_copies=[lost._replace(unknown="untold")]) == ([], [1, 3])


@pytest.mark.parametrize("anomaly", ["realtime_order_violation", "nonmonotonic_send"])
def test_a_record_stands_in_the_place_of_one_that_is_gone_after_a_leader_change(anomaly):
    """A record in the place of a lost one is permitted from the new epoch's start on."""
    assert permitted(KILLED, anomaly) == [2, 4]
    assert permitted(FOLLOWER_KILLED, anomaly, known=[], epochs=EPOCHS[:1]) == []


def test_an_unclean_election_takes_records_only_where_one_took_place():
    """Unclean elections permit anomalies only if one took place."""
    assert permitted(UNCLEAN, "lost_write", Cause.UNCLEAN_LEADER) == [1, 3]
    assert permitted(UNCLEAN, "nonrepeatable_read", Cause.UNCLEAN_LEADER) == [1, 2, 3, 4]
    assert permitted(UNCLEAN, "aborted_read", Cause.UNCLEAN_LEADER) == [0, 1, 3]
    for anomaly in ("lost_write", "nonrepeatable_read", "nonmonotonic_send", "aborted_read"):
        assert permitted(KILLED, anomaly, Cause.UNCLEAN_LEADER) == []


@pytest.mark.parametrize("anomaly", ["nonmonotonic_poll", "poll_skip"])
def test_a_consumer_goes_back_after_an_unclean_election_and_not_before(anomaly):
    """A consumer may step back from 1 s before an unclean election on."""
    shown_ns = np.array([18, 18, 18, 19, 40]) * S
    assert permitted(UNCLEAN, anomaly, Cause.UNCLEAN_LEADER, shown_ns=shown_ns) == [3, 4]


def test_a_second_reason_holds_where_the_first_does_not():
    """If the first cause does not hold, the second one is used."""
    lost = [LostCopy(20 * S)]
    of = evidence(FOLLOWER_KILLED, EPOCHS[:1], (), sends=[sent(0, offset=9)], lost_copies=lost)
    findings, cases = Findings(), Cases("lost_write", of.sends.value, lambda place: {"offset": 9})
    both = {
        "load-1": {
            "lost_write": [Permission("a new leader", Cause.NEW_LEADER), Permission("a lost disk", Cause.LOST_COPY)]
        }
    }
    findings.add_cases(of.where, cases, of.names, both, lambda *case: brought_about(of, possible_losses(of), *case))

    assert [kind.allowed_why for kind in findings.counts] == ["a lost disk"]


def test_a_case_of_a_record_that_nobody_sent_has_no_place_and_no_time():
    """A case of a record that is in no ledger has neither offset nor time, so any leader change may explain it."""
    of, foreign = evidence(), np.array([-1])
    cases = Cases("inconsistent_offset", foreign, lambda place: {"offset": None})

    assert brought_about(of, possible_losses(of), cases, Cause.NEW_LEADER).brought.tolist() == [True]
    assert brought_about(of, [], cases, Cause.NEW_LEADER).brought.tolist() == [False]
