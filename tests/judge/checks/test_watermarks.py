"""Every check on samples with a history at hand: a violation, and what looks like one and is legal."""

from dataclasses import replace

import pytest

from evidence.facts import Facts, Fault, Outage, short_of_members
from judge.checks import watermarks
from judge.checks.invariants import INVARIANTS
from kafka_files.states import State
from tests.evidence.folders import MS, S, isr_view
from tests.evidence.folders import sample as seen
from tests.evidence.probed import counted, partition


def state(t_ns, leader, epoch, isr, *, number=0):
    """A state of orders-0 that the controller wrote at ``t_ns``."""
    return State("orders", 0, "metadata_log", number, t_ns, leader, epoch, number, (1, 2, 3), tuple(isr))


def facts(*states, **other):
    """What is known beside the samples; without states, broker 1 leads epoch 0 with a full ISR."""
    return Facts(states=states or (state(0, 1, 0, [1, 2, 3]),), **({"starts": {0: 0, 1: 10}} | other))


def test_a_history_with_an_undated_state_holds_at_no_time():
    """What it changed is unknown, so that the state before it may have ended at any time."""
    known = facts(state(S, 1, 0, [1, 2, 3]), state(5 * S, 1, 0, [1, 2]))
    gap = facts(state(S, 1, 0, [1, 2, 3]), state(None, 1, 0, [1, 2]), state(9 * S, 1, 0, [1, 2, 3]))

    assert [stretch.state.isr for stretch in known.stretches] == [(1, 2, 3), (1, 2)]
    assert gap.stretches == []


def verdict(name, samples, known=None):
    """(checked, violations) of a check."""
    return counted(INVARIANTS[name].checks[0](partition(samples, facts=known or facts())))


def test_i4_a_second_fall():
    """A follower's HW may fall once in an epoch; a second time only in the next epoch or the next life."""
    falls = [seen(2, 1 * S, 9, 9), seen(2, 2 * S, 5, 9), seen(2, 3 * S, 7, 9)]

    assert verdict("I4", falls) == (1, 0)
    assert verdict("I4", [*falls, seen(2, 4 * S, 6, 9)]) == (1, 1)
    assert verdict("I4", [*falls, seen(2, 4 * S, 6, 9, epoch=1)]) == (1, 0)
    assert verdict("I4", [*falls, seen(2, 4 * S, 6, 9, incarnation=2)]) == (1, 0)


def test_i4_asks_in_order():
    """An answer that overlaps the one before it proves no fall."""
    assert verdict("I4", [seen(2, S, 9, 9), seen(2, S, 8, 9), seen(2, S, 7, 9)]) == (0, 0)


def test_i7_a_member_without_what_its_leader_showed():
    """KAFKA-13141's trace: broker 2 is in the ISR with LEO 5 after the leader showed HW 6."""
    assert verdict("I7", [seen(1, 1 * S, 6, 9), seen(2, 2 * S, 4, 5)]) == (1, 1)
    assert verdict("I7", [seen(1, 1 * S, 6, 9), seen(2, 2 * S, 4, 6)]) == (1, 0)


@pytest.mark.parametrize(
    "samples",
    [
        [seen(2, 1 * S, 4, 5), seen(1, 2 * S, 6, 9)],  # the other order
        [seen(3, 1 * S, 6, 9), seen(2, 2 * S, 4, 5)],  # shown by a follower
        [seen(1, 1 * S, 6, 9), seen(2, 5 * S + 50 * MS, 4, 5)],  # within the slack of the state's end
        [seen(1, 1 * S, 6, 9), seen(2, 6 * S, 4, 5)],  # out of the ISR
    ],
)
def test_i7_says_nothing(samples):
    """Where the order, the leader or the membership is not certain."""
    known = facts(state(0, 1, 0, [1, 2, 3]), state(5 * S, 1, 0, [1, 3], number=1))

    assert verdict("I7", samples, known)[1] == 0


def test_i9_a_follower_ahead_of_its_leader():
    """HW 12 on a follower, later 11 on the leader of the same epoch."""
    known = facts(state(0, 1, 1, [1, 2, 3]))

    assert verdict("I9", [seen(2, 1 * S, 12, 20, epoch=1), seen(1, 2 * S, 11, 20, epoch=1)], known) == (1, 1)
    assert verdict("I9", [seen(2, 1 * S, 12, 20, epoch=1), seen(1, 2 * S, 12, 20, epoch=1)], known) == (1, 0)


def test_i9_an_earlier_epochs_high_watermark_may_be_ahead():
    """At or below the epoch's start a follower's HW may come from the leader before; so may one of another epoch."""
    known = facts(state(0, 1, 1, [1, 2, 3]))

    assert verdict("I9", [seen(2, 1 * S, 10, 20, epoch=1), seen(1, 2 * S, 7, 20, epoch=1)], known) == (0, 0)
    assert verdict("I9", [seen(2, 1 * S, 12, 20, epoch=0), seen(1, 2 * S, 11, 20, epoch=1)], known) == (0, 0)


def below_min_isr(*samples, strict=True, until=20 * S):
    """ISR [1] under min.insync.replicas=2 from 5 s on."""
    states = (state(0, 1, 0, [1, 2, 3]), state(5 * S, 1, 0, [1], number=1), state(until, 1, 0, [1, 2], number=2))
    return list(samples), facts(*states, effective_min_isr=2, strict_min_isr=strict, lax_min_isr=not strict)


SHOWN = (isr_view(5 * S + 500 * MS, 1, 0, [1]),)  # by the leader's own metadata
SHRINKING = {
    "broker_id": 1,
    "line": 1,
    "kind": "isr_shrinking",
    "t_ns": 4 * S,
    "isr": [1],
    "out_of_sync": [(2, 3), (3, 3)],
}
MOVED = (seen(1, 8 * S, 5, 9), seen(1, 12 * S, 6, 9))


def i11(samples, known, *, views=SHOWN, lines=()):
    """(checked, violations) of I11."""
    return counted(INVARIANTS["I11"].checks[0](partition(samples, views, facts=known, lines=lines)))


def updated(t_s):
    """The controller's answer, as the leader's log has it."""
    return {"broker_id": 1, "line": 2, "kind": "isr_updated", "t_ns": t_s * S, "isr": [1]}


def test_i11_hw_moves_below_min_isr():
    """From 3.7 the HW stands still; it may move in the first two seconds, and after the ISR has grown again."""
    assert i11(*below_min_isr(*MOVED)) == (1, 1)
    assert i11(*below_min_isr(MOVED[0], seen(1, 12 * S, 5, 12))) == (1, 0)
    assert i11(*below_min_isr(seen(1, 6 * S, 5, 9), seen(1, 8 * S, 6, 9), seen(1, 9 * S, 6, 9))) == (1, 0)
    assert i11(*below_min_isr(*MOVED, until=11 * S)) == (0, 0)


def test_i11_a_leader_that_cannot_know_of_the_isr_goes_by_the_one_it_knows():
    """Its own metadata shows the ISR late, or never; another broker's says nothing of it."""
    late, other = isr_view(11 * S, 1, 0, [1]), isr_view(6 * S, 1, 0, [1], observer="2")

    assert i11(*below_min_isr(*MOVED), views=[late]) == (0, 0)
    assert i11(*below_min_isr(*MOVED), views=[other]) == (0, 0)
    assert i11(*below_min_isr(*MOVED), views=[other, *SHOWN]) == (1, 1)


def test_i11_speaks_below_the_smallest_setting_only():
    """A step that set min.insync.replicas to 1 for a while lets the HW move with one member; 2 throughout does not."""
    moved, known = below_min_isr(*MOVED)

    assert i11(moved, replace(known, lowest_min_isr=1)) == (0, 0)
    assert i11(moved, replace(known, lowest_min_isr=2)) == (1, 1)


def test_i11_a_leader_that_waits_for_its_answer_goes_by_its_maximal_isr():
    """The controller holds ISR [1], and the leader waits for 2 and 3 until it was answered: then HW has to stand."""
    moved, known = below_min_isr(*MOVED)
    known = replace(known, states=[each._replace(source="znode") for each in known.states])

    assert i11(moved, known, lines=[SHRINKING]) == (0, 0)
    assert i11(moved, known, lines=[SHRINKING, updated(10)]) == (0, 0)
    assert i11(moved, known, lines=[SHRINKING, updated(5)]) == (1, 1)
    assert i11(moved, known, lines=[SHRINKING | {"t_ns": None}, updated(5)]) == (0, 0)


def test_i11_a_proposal_excuses_no_time_before_it():
    """HW moved from 8 to 12 s; the leader proposed something at 20 s."""
    moved, known = below_min_isr(*MOVED)

    assert i11(moved, known, lines=[SHRINKING | {"t_ns": 20 * S}, updated(21)]) == (1, 1)
    assert i11(moved, known, lines=[SHRINKING | {"t_ns": 10 * S}, updated(11)]) == (0, 0)


def test_i11_asks_for_no_more_members_than_there_are_replicas():
    """A reassignment to [1] alone lets the HW move with ISR [1]; with [1, 2] assigned it stands."""
    moved, known = below_min_isr(*MOVED)

    def reassigned(*replicas):
        return replace(known, states=[state._replace(replicas=replicas) for state in known.states])

    assert i11(moved, reassigned(1)) == (0, 0)
    assert i11(moved, reassigned(1, 2)) == (1, 1)
    assert i11(moved, reassigned()) == (1, 1)  # nobody knows how many


def test_behaviour_change_of_the_high_watermark_below_min_isr():
    """Up to 3.6 the same movement is by design: told, and no violation."""
    assert i11(*below_min_isr(*MOVED, strict=False)) == (0, 0)

    def change(**settings):
        samples, known = below_min_isr(*MOVED, **settings)
        return counted(watermarks.hw_below_min_isr(partition(samples, SHOWN, facts=known)))

    assert change(strict=False) == (1, 1)
    assert change() == (0, 0)


def elected(*samples, max_isr_lag_ns=4 * S):
    """Broker 2 leads epoch 1, which starts at 10, from 5 s on."""
    states = (state(0, 1, 0, [1, 2, 3]), state(5 * S, 2, 1, [2, 3], number=1))
    return list(samples), facts(*states, max_isr_lag_ns=max_isr_lag_ns)


def test_i22_a_new_leader_whose_hw_never_comes_up():
    """HW 9 below the epoch's start 10, after every lagging member had to be evicted; before that it proves nothing."""
    assert verdict("I22", *elected(seen(2, 6 * S, 9, 10, epoch=1), seen(2, 13 * S, 9, 10, epoch=1))) == (1, 1)
    assert verdict("I22", *elected(seen(2, 6 * S, 9, 10, epoch=1), seen(2, 13 * S, 10, 10, epoch=1))) == (1, 0)
    assert verdict("I22", *elected(seen(2, 6 * S, 9, 10, epoch=1), seen(2, 11 * S, 9, 10, epoch=1))) == (0, 0)
    assert verdict("I22", *elected(seen(2, 13 * S, 9, 10, epoch=1), max_isr_lag_ns=45 * S)) == (0, 0)


def test_i22_below_min_isr_the_hw_may_stay_down():
    """Three members are asked for and two there: it stands by design, unless two are all replicas."""
    late, known = elected(seen(2, 6 * S, 9, 10, epoch=1), seen(2, 13 * S, 9, 10, epoch=1))
    short = replace(known, effective_min_isr=3)
    moved = replace(short, states=[state._replace(replicas=(2, 3)) for state in known.states])

    assert verdict("I22", late, short) == (0, 0)
    assert verdict("I22", late, moved) == (1, 1)
    assert verdict("I22", [late[0], late[1] | {"high_watermark": 10}], moved) == (1, 0)


def stopped(*, leaves_at, growing=True, until=60 * S):
    """Follower 3 stops at 10 s; evicted after at most 4 s and 3 s more."""
    states = [state(0, 1, 0, [1, 2, 3])]
    if leaves_at is not None:
        states.append(state(leaves_at, 1, 0, [1, 2], number=1))
    fault = Fault(3, 10 * S, 10 * S, until)
    samples = [seen(1, 10 * S + n * 250 * MS, 5, 9 + n * growing) for n in range(29)]
    return samples, facts(*states, faults=(fault,), max_isr_lag_ns=4 * S)


def test_i23_a_stopped_follower_that_stays():
    """Never evicted, or evicted late, under traffic."""
    assert verdict("I23", *stopped(leaves_at=None)) == (1, 1)
    assert verdict("I23", *stopped(leaves_at=18 * S)) == (1, 1)
    assert verdict("I23", *stopped(leaves_at=15 * S)) == (1, 0)


def test_i23_says_nothing_without_traffic_or_time():
    """A follower whose LEO equals the leader's is never evicted by lag; one healed in time need not be."""
    assert verdict("I23", *stopped(leaves_at=None, growing=False)) == (0, 0)
    assert verdict("I23", *stopped(leaves_at=None, until=12 * S)) == (0, 0)


@pytest.mark.parametrize(
    ("outage", "found"),
    [
        (Outage(None, 11 * S, 12 * S), 0),
        (Outage(1, 11 * S, 12 * S), 0),
        (Outage(2, 11 * S, 12 * S), 1),
        (Outage(None, 8 * S, 9 * S), 1),
        (Outage(None, 18 * S, 19 * S), 1),
    ],
)
def test_i23_says_nothing_while_nobody_may_be_evicted(outage, found):
    """The controller, or the leader on its way to it, was out of reach within the time that it has."""
    samples, known = stopped(leaves_at=None)

    assert verdict("I23", samples, replace(known, outages=[outage])) == (found, found)
    in_time, known = stopped(leaves_at=15 * S)
    assert verdict("I23", in_time, replace(known, outages=[outage])) == (1, 0)


def test_i22_says_nothing_while_nobody_may_be_evicted():
    """The controller was killed after the election; before it, or another broker, it does not matter. As long after
    that as after an election the high watermark has to be there.
    """
    late, known = elected(seen(2, 6 * S, 9, 10, epoch=1), seen(2, 13 * S, 9, 10, epoch=1))
    later = [*late, seen(2, 15 * S, 9, 10, epoch=1)]

    assert verdict("I22", later, replace(known, outages=[Outage(None, 6 * S, 7 * S)])) == (1, 1)
    assert verdict("I22", later, replace(known, outages=[Outage(None, 6 * S, 9 * S)])) == (0, 0)
    assert verdict("I22", late, replace(known, outages=[Outage(None, 6 * S, 7 * S)])) == (0, 0)
    assert verdict("I22", late, replace(known, outages=[Outage(None, 3 * S, 4 * S)])) == (1, 1)
    assert verdict("I22", late, replace(known, outages=[Outage(3, 6 * S, 7 * S)])) == (1, 1)


def joined(*samples):
    """Broker 3 joins the ISR of epoch 1 (start 10) at 5 s."""
    states = (state(0, 1, 1, [1, 2]), state(5 * S, 1, 1, [1, 2, 3], number=1), state(9 * S, 1, 1, [1], number=2))
    return list(samples), facts(*states)


def test_i24_a_member_that_had_not_caught_up():
    """The leader showed HW 12 before the join: LEO 11 is too little, 12 is enough; the epoch's start counts, too."""
    assert verdict("I24", *joined(seen(1, 4 * S, 12, 20, epoch=1), seen(3, 6 * S, 9, 11, epoch=1))) == (1, 1)
    assert verdict("I24", *joined(seen(1, 4 * S, 12, 20, epoch=1), seen(3, 6 * S, 9, 12, epoch=1))) == (1, 0)
    assert verdict("I24", *joined(seen(3, 6 * S, 9, 9, epoch=1))) == (1, 1)


def test_i24_asks_within_the_state():
    """A high watermark shown after the join, and a sample after the state has ended, prove nothing."""
    assert verdict("I24", *joined(seen(1, 6 * S, 15, 20, epoch=1), seen(3, 7 * S, 9, 12, epoch=1))) == (1, 0)
    assert verdict("I24", *joined(seen(1, 4 * S, 12, 20, epoch=1), seen(3, 10 * S, 9, 11, epoch=1))) == (0, 0)


def test_i24_a_join_that_begins_an_epoch():
    """As the end of a reassignment: epoch 1's start, 10, counts, and the HW that it showed; epoch 2 begins at 40."""
    states = [state(0, 1, 1, [1, 2]), state(5 * S, 1, 2, [1, 3], number=1)]

    def caught_up(leo):
        samples = [seen(1, 4 * S, 12, 20, epoch=1), seen(3, 6 * S, 9, leo, epoch=2)]
        return verdict("I24", samples, replace(facts(*states), starts={0: 0, 1: 10, 2: 40}))

    assert (caught_up(11), caught_up(12)) == ((1, 1), (1, 0))


def test_an_isr_is_too_small_below_the_smallest_setting():
    """Two of three are asked for: [1] is short from 5 s on, [1, 2] is not, nor one that nobody leads."""
    states = [state(0, 1, 3, (1, 2)), state(5 * S, 1, 3, (1,), number=1), state(20 * S, -1, 3, (1,), number=2)]
    known = facts(*states, effective_min_isr=2)

    def short(known):
        return [(each.state, each.from_ns, each.until_ns) for each in short_of_members(known)]

    assert short(known) == [(states[1], 5 * S + 100 * MS, 20 * S - 100 * MS)]
    assert short(replace(known, lowest_min_isr=1)) == []
    assert short(replace(known, outages=[Outage(1, 6 * S, 7 * S)])) == []
    assert short(replace(known, outages=[Outage(2, 6 * S, 7 * S)])) == short(known)


def test_without_a_history_little_is_said():
    """No state of the controller's, no statement that needs one; I4 needs none."""
    samples = [seen(1, 1 * S, 6, 9), seen(2, 2 * S, 4, 5), seen(2, 3 * S, 4, 5)]
    known = Facts()

    assert {name for name in ("I4", "I7", "I9", "I11", "I22", "I23", "I24") if verdict(name, samples, known)[0]} == {
        "I4"
    }
