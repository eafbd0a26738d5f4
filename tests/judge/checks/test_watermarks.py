"""Every check on samples with a controller history: a violation and near misses."""

from dataclasses import replace

import pytest

from evidence.facts import BrokerStop, Outage, short_of_members
from judge.checks import watermarks
from judge.checks.invariants import INVARIANTS
from kafka_files.states import State
from tests.evidence.folders import MS, S, isr_view
from tests.evidence.folders import sample as seen
from tests.evidence.probed import counted, facts_of, partition


def state(t_ns, leader, epoch, isr, *, number=0):
    """Return a state of orders-0 that the controller wrote at ``t_ns``."""
    return State("orders", 0, "metadata_log", number, t_ns, leader, epoch, number, (1, 2, 3), tuple(isr))


def facts(*states, **other):
    """Return known facts; without states, broker 1 leads epoch 0 with a full ISR."""
    return facts_of(states=states or (state(0, 1, 0, [1, 2, 3]),), **({"starts": {0: 0, 1: 10}} | other))


def test_a_history_with_an_undated_state_holds_at_no_time():
    """A history with an undated state covers no time, since the state before it may have ended at any time."""
    known = facts(state(S, 1, 0, [1, 2, 3]), state(5 * S, 1, 0, [1, 2]))
    gap = facts(state(S, 1, 0, [1, 2, 3]), state(None, 1, 0, [1, 2]), state(9 * S, 1, 0, [1, 2, 3]))

    assert [stretch.state.isr for stretch in known.stretches] == [(1, 2, 3), (1, 2)]
    assert gap.stretches == []


def verdict(name, samples, known=None):
    """Return (checked, violations) of a check."""
    return counted(INVARIANTS[name].checks[0](partition(samples, facts=known or facts())))


def test_i4_a_second_fall():
    """I4 is violated if a follower's HW falls twice within one epoch and incarnation."""
    falls = [seen(2, 1 * S, 9, 9), seen(2, 2 * S, 5, 9), seen(2, 3 * S, 7, 9)]

    assert verdict("I4", falls) == (1, 0)
    assert verdict("I4", [*falls, seen(2, 4 * S, 6, 9)]) == (1, 1)
    assert verdict("I4", [*falls, seen(2, 4 * S, 6, 9, epoch=1)]) == (1, 0)
    assert verdict("I4", [*falls, seen(2, 4 * S, 6, 9, incarnation=2)]) == (1, 0)


def test_i4_asks_in_order():
    """I4 ignores samples that overlap the previous one."""
    assert verdict("I4", [seen(2, S, 9, 9), seen(2, S, 8, 9), seen(2, S, 7, 9)]) == (0, 0)


def test_i7_a_member_without_what_its_leader_showed():
    """I7 is violated if an ISR member's LEO is below an HW that its leader showed before (KAFKA-13141)."""
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
    """I7 is not checked if order, leader or membership is uncertain."""
    known = facts(state(0, 1, 0, [1, 2, 3]), state(5 * S, 1, 0, [1, 3], number=1))

    assert verdict("I7", samples, known)[1] == 0


def test_i7_a_snapshots_state_holds_from_its_time_on():
    """I7 is checked from the snapshot's time on if the history begins with one, and else from the creation on."""
    behind = [seen(1, 1 * S, 6, 9), seen(2, 3 * S, 4, 5), seen(2, 8 * S, 4, 5)]

    assert verdict("I7", behind, facts(state(5 * S, 1, 0, [1, 2, 3], number=7))) == (1, 1)
    assert verdict("I7", behind, facts(state(9 * S, 1, 0, [1, 2, 3], number=7))) == (0, 0)
    assert verdict("I7", behind, facts(state(0, 1, 0, [1, 2, 3]))) == (2, 2)


def test_i9_a_follower_ahead_of_its_leader():
    """I9 is violated if a follower's HW is above its leader's later HW of the same epoch."""
    known = facts(state(0, 1, 1, [1, 2, 3]))

    assert verdict("I9", [seen(2, 1 * S, 12, 20, epoch=1), seen(1, 2 * S, 11, 20, epoch=1)], known) == (1, 1)
    assert verdict("I9", [seen(2, 1 * S, 12, 20, epoch=1), seen(1, 2 * S, 12, 20, epoch=1)], known) == (1, 0)


def test_i9_an_earlier_epochs_high_watermark_may_be_ahead():
    """I9 ignores HWs at or below the epoch's start, and those of other epochs."""
    known = facts(state(0, 1, 1, [1, 2, 3]))

    assert verdict("I9", [seen(2, 1 * S, 10, 20, epoch=1), seen(1, 2 * S, 7, 20, epoch=1)], known) == (0, 0)
    assert verdict("I9", [seen(2, 1 * S, 12, 20, epoch=0), seen(1, 2 * S, 11, 20, epoch=1)], known) == (0, 0)


def below_min_isr(*samples, strict=True, until=20 * S):
    """Return samples under ISR [1] and min.insync.replicas=2 from 5 s on."""
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
    """Return (checked, violations) of I11."""
    return counted(INVARIANTS["I11"].checks[0](partition(samples, views, facts=known, lines=lines)))


def updated(t_s):
    """Return the log line of the controller's answer to the leader."""
    return {"broker_id": 1, "line": 2, "kind": "isr_updated", "t_ns": t_s * S, "isr": [1]}


def test_i11_hw_moves_below_min_isr():
    """I11 is violated from 3.7 on if the HW moves below min.insync.replicas, more than 2 s after the change."""
    assert i11(*below_min_isr(*MOVED)) == (1, 1)
    assert i11(*below_min_isr(MOVED[0], seen(1, 12 * S, 5, 12))) == (1, 0)
    assert i11(*below_min_isr(seen(1, 6 * S, 5, 9), seen(1, 8 * S, 6, 9), seen(1, 9 * S, 6, 9))) == (1, 0)
    assert i11(*below_min_isr(*MOVED, until=11 * S)) == (0, 0)


def test_i11_a_leader_that_cannot_know_of_the_isr_goes_by_the_one_it_knows():
    """I11 starts when the leader's own metadata shows the small ISR; another broker's metadata does not count."""
    late, other = isr_view(11 * S, 1, 0, [1]), isr_view(6 * S, 1, 0, [1], observer="2")

    assert i11(*below_min_isr(*MOVED), views=[late]) == (0, 0)
    assert i11(*below_min_isr(*MOVED), views=[other]) == (0, 0)
    assert i11(*below_min_isr(*MOVED), views=[other, *SHOWN]) == (1, 1)


def test_i11_speaks_below_the_smallest_setting_only():
    """I11 uses the smallest min.insync.replicas that a step ever set."""
    moved, known = below_min_isr(*MOVED)

    assert i11(moved, replace(known, lowest_min_isr=1)) == (0, 0)
    assert i11(moved, replace(known, lowest_min_isr=2)) == (1, 1)


def test_i11_a_leader_that_waits_for_its_answer_goes_by_its_maximal_isr():
    """While a leader waits for the answer to an ISR change, I11 uses its maximal ISR, so the HW may move."""
    moved, known = below_min_isr(*MOVED)
    known = replace(known, states=[each._replace(source="znode") for each in known.states])

    assert i11(moved, known, lines=[SHRINKING]) == (0, 0)
    assert i11(moved, known, lines=[SHRINKING, updated(10)]) == (0, 0)
    assert i11(moved, known, lines=[SHRINKING, updated(5)]) == (1, 1)
    assert i11(moved, known, lines=[SHRINKING | {"t_ns": None}, updated(5)]) == (0, 0)


def test_i11_a_proposal_excuses_no_time_before_it():
    """A pending ISR change exempts no time before its proposal."""
    moved, known = below_min_isr(*MOVED)

    assert i11(moved, known, lines=[SHRINKING | {"t_ns": 20 * S}, updated(21)]) == (1, 1)
    assert i11(moved, known, lines=[SHRINKING | {"t_ns": 10 * S}, updated(11)]) == (0, 0)


def test_i11_asks_for_no_more_members_than_there_are_replicas():
    """I11 requires no more members than there are replicas, also after a reassignment."""
    moved, known = below_min_isr(*MOVED)

    def reassigned(*replicas):
        return replace(known, states=[state._replace(replicas=replicas) for state in known.states])

    assert i11(moved, reassigned(1)) == (0, 0)
    assert i11(moved, reassigned(1, 2)) == (1, 1)
    assert i11(moved, reassigned()) == (1, 1)  # the number of replicas is unknown


def test_behaviour_change_of_the_high_watermark_below_min_isr():
    """Up to 3.6 the same movement is a change of behaviour and no violation."""
    assert i11(*below_min_isr(*MOVED, strict=False)) == (0, 0)

    def change(**settings):
        samples, known = below_min_isr(*MOVED, **settings)
        return counted(watermarks.hw_below_min_isr(partition(samples, SHOWN, facts=known)))

    assert change(strict=False) == (1, 1)
    assert change() == (0, 0)


def elected(*samples, max_isr_lag_ns=4 * S):
    """Return samples with broker 2 leading epoch 1, which starts at 10, from 5 s on."""
    states = (state(0, 1, 0, [1, 2, 3]), state(5 * S, 2, 1, [2, 3], number=1))
    return list(samples), facts(*states, max_isr_lag_ns=max_isr_lag_ns)


def test_i22_a_new_leader_whose_hw_never_comes_up():
    """I22 is violated if a new leader's HW stays below its epoch's start after lagging members must be evicted."""
    assert verdict("I22", *elected(seen(2, 6 * S, 9, 10, epoch=1), seen(2, 13 * S, 9, 10, epoch=1))) == (1, 1)
    assert verdict("I22", *elected(seen(2, 6 * S, 9, 10, epoch=1), seen(2, 13 * S, 10, 10, epoch=1))) == (1, 0)
    assert verdict("I22", *elected(seen(2, 6 * S, 9, 10, epoch=1), seen(2, 11 * S, 9, 10, epoch=1))) == (0, 0)
    assert verdict("I22", *elected(seen(2, 13 * S, 9, 10, epoch=1), max_isr_lag_ns=45 * S)) == (0, 0)


def test_i22_below_min_isr_the_hw_may_stay_down():
    """I22 is not checked below min.insync.replicas, which the number of replicas bounds."""
    late, known = elected(seen(2, 6 * S, 9, 10, epoch=1), seen(2, 13 * S, 9, 10, epoch=1))
    short = replace(known, effective_min_isr=3)
    moved = replace(short, states=[state._replace(replicas=(2, 3)) for state in known.states])

    assert verdict("I22", late, short) == (0, 0)
    assert verdict("I22", late, moved) == (1, 1)
    assert verdict("I22", [late[0], late[1] | {"high_watermark": 10}], moved) == (1, 0)


def stopped(*, leaves_at, growing=True, until=60 * S):
    """Return samples in which follower 3 stops at 10 s; it must be evicted within 4 s, plus 3 s."""
    states = [state(0, 1, 0, [1, 2, 3])]
    if leaves_at is not None:
        states.append(state(leaves_at, 1, 0, [1, 2], number=1))
    fault = BrokerStop(3, 10 * S, 10 * S, until)
    samples = [seen(1, 10 * S + n * 250 * MS, 5, 9 + n * growing) for n in range(29)]
    return samples, facts(*states, stops=(fault,), max_isr_lag_ns=4 * S)


def test_i23_a_stopped_follower_that_stays():
    """I23 is violated if a stopped follower is evicted late or never, under traffic."""
    assert verdict("I23", *stopped(leaves_at=None)) == (1, 1)
    assert verdict("I23", *stopped(leaves_at=18 * S)) == (1, 1)
    assert verdict("I23", *stopped(leaves_at=15 * S)) == (1, 0)


def test_i23_says_nothing_without_traffic_or_time():
    """I23 needs traffic and time: a follower whose LEO equals the leader's is never evicted for lag."""
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
    """I23 is not checked while the controller or the leader was unreachable within the time of the eviction."""
    samples, known = stopped(leaves_at=None)

    assert verdict("I23", samples, replace(known, outages=[outage])) == (found, found)
    in_time, known = stopped(leaves_at=15 * S)
    assert verdict("I23", in_time, replace(known, outages=[outage])) == (1, 0)


def test_i22_says_nothing_while_nobody_may_be_evicted():
    """I22 gets its full time again after an outage of the controller that began after the election."""
    late, known = elected(seen(2, 6 * S, 9, 10, epoch=1), seen(2, 13 * S, 9, 10, epoch=1))
    later = [*late, seen(2, 15 * S, 9, 10, epoch=1)]

    assert verdict("I22", later, replace(known, outages=[Outage(None, 6 * S, 7 * S)])) == (1, 1)
    assert verdict("I22", later, replace(known, outages=[Outage(None, 6 * S, 9 * S)])) == (0, 0)
    assert verdict("I22", late, replace(known, outages=[Outage(None, 6 * S, 7 * S)])) == (0, 0)
    assert verdict("I22", late, replace(known, outages=[Outage(None, 3 * S, 4 * S)])) == (1, 1)
    assert verdict("I22", late, replace(known, outages=[Outage(3, 6 * S, 7 * S)])) == (1, 1)


def joined(*samples):
    """Return samples with broker 3 joining the ISR of epoch 1 (start 10) at 5 s."""
    states = (state(0, 1, 1, [1, 2]), state(5 * S, 1, 1, [1, 2, 3], number=1), state(9 * S, 1, 1, [1], number=2))
    return list(samples), facts(*states)


def test_i24_a_member_that_had_not_caught_up():
    """I24 is violated if a joining replica's LEO is below an HW shown before, or below the epoch's start."""
    assert verdict("I24", *joined(seen(1, 4 * S, 12, 20, epoch=1), seen(3, 6 * S, 9, 11, epoch=1))) == (1, 1)
    assert verdict("I24", *joined(seen(1, 4 * S, 12, 20, epoch=1), seen(3, 6 * S, 9, 12, epoch=1))) == (1, 0)
    assert verdict("I24", *joined(seen(3, 6 * S, 9, 9, epoch=1))) == (1, 1)


def test_i24_asks_within_the_state():
    """I24 ignores HWs shown after the join, and samples after the state's end."""
    assert verdict("I24", *joined(seen(1, 6 * S, 15, 20, epoch=1), seen(3, 7 * S, 9, 12, epoch=1))) == (1, 0)
    assert verdict("I24", *joined(seen(1, 4 * S, 12, 20, epoch=1), seen(3, 10 * S, 9, 11, epoch=1))) == (0, 0)


def test_i24_a_join_that_begins_an_epoch():
    """For a join that begins an epoch, I24 uses start and HW of the epoch before."""
    states = [state(0, 1, 1, [1, 2]), state(5 * S, 1, 2, [1, 3], number=1)]

    def caught_up(leo):
        samples = [seen(1, 4 * S, 12, 20, epoch=1), seen(3, 6 * S, 9, leo, epoch=2)]
        return verdict("I24", samples, replace(facts(*states), starts={0: 0, 1: 10, 2: 40}))

    assert (caught_up(11), caught_up(12)) == ((1, 1), (1, 0))


def test_an_isr_is_too_small_below_the_smallest_setting():
    """An ISR is too small only below the smallest min.insync.replicas, with a leader that is reachable."""
    states = [state(0, 1, 3, (1, 2)), state(5 * S, 1, 3, (1,), number=1), state(20 * S, -1, 3, (1,), number=2)]
    known = facts(*states, effective_min_isr=2)

    def short(known):
        return [(each.state, each.from_ns, each.until_ns) for each in short_of_members(known)]

    assert short(known) == [(states[1], 5 * S + 100 * MS, 20 * S - 100 * MS)]
    assert short(replace(known, lowest_min_isr=1)) == []
    assert short(replace(known, outages=[Outage(1, 6 * S, 7 * S)])) == []
    assert short(replace(known, outages=[Outage(2, 6 * S, 7 * S)])) == short(known)


def test_without_a_history_little_is_said():
    """Without a controller history only I4 is checked."""
    samples = [seen(1, 1 * S, 6, 9), seen(2, 2 * S, 4, 5), seen(2, 3 * S, 4, 5)]
    known = facts_of()

    assert {name for name in ("I4", "I7", "I9", "I11", "I22", "I23", "I24") if verdict(name, samples, known)[0]} == {
        "I4"
    }
