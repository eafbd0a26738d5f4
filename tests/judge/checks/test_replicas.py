"""Every check on samples alone: a violation and near misses."""

from dataclasses import replace

import pytest

from evidence.facts import NewLog, Outage, ShortIsr
from evidence.views import decided, short_isrs
from history.partition import TopicPartition
from judge.checks import replicas
from kafka_files.states import State
from tests.evidence.folders import MS, S, isr_view, sample
from tests.evidence.probed import counted, facts_of, partition


def judge(check, *histories, isr=(), **known):
    """Return (checked, violations) of each history of samples."""
    return [counted(check(partition(history, isr, **known))) for history in histories]


def test_i1_log_start_above_the_high_watermark():
    """I1 is violated if the log start is above the HW; without a log start it is not checked."""
    above, equal, silent = ([sample(1, 0, 5, 9, log_start_offset=start)] for start in (6, 5, None))

    assert judge(replicas.i1_bounds, above, equal, silent) == [(1, 1), (1, 0), (0, 0)]


def test_i2_high_watermark_above_the_log_end():
    """I2 is violated if one reply, or an earlier HW and a later LEO of one incarnation, have an HW above the LEO."""
    first, later = sample(1, 0, 6, 6, single_reply=False), sample(1, 5 * MS, 5, 5, single_reply=False)
    above, equal, turned = [sample(1, 0, 6, 5)], [sample(1, 0, 5, 5)], [sample(1, 0, 6, 5, single_reply=False)]
    restarted = [first, {**later, "incarnation": 2}]

    assert judge(replicas.i2_hw_below_leo, above, equal, turned, [first, later], restarted) == [
        (1, 1),
        (1, 0),
        (0, 0),
        (1, 1),
        (0, 0),
    ]


def test_i2_below_a_high_watermark_an_unclean_leader_may_have_cut():
    """With unclean elections, I2 checks HW and LEO within one reply only."""
    apart = partition([sample(1, 0, 6, 6, single_reply=False), sample(1, 5 * MS, 5, 5, single_reply=False)])
    together = partition([sample(1, 0, 6, 5)])

    assert counted(replicas.i2_hw_below_leo(replace(apart, clean=False))) == (0, 0)
    assert counted(replicas.i2_hw_below_leo(replace(together, clean=False))) == (1, 1)
    assert counted(replicas.i2_hw_below_leo(apart)) == (1, 1)


def test_i3_a_leader_goes_back():
    """I3 is violated if a leader's HW falls within its epoch, except between overlapping probes."""
    leader = [sample(1, 0, 6, 9), sample(1, 5 * MS, 5, 9)]
    still = [sample(1, 0, 6, 9), sample(1, 5 * MS, 6, 9)]
    follower = [sample(2, 0, 6, 9), sample(2, 5 * MS, 5, 9)]
    next_epoch = [sample(1, 0, 6, 9), sample(1, 5 * MS, 5, 9, epoch=1)]
    overlapping = [sample(1, 0, 6, 9), sample(1, MS // 2, 5, 9)]
    led = [isr_view(0, 1, 0, [1, 2, 3])]

    found = judge(replicas.i3_leader_monotonic, leader, still, follower, next_epoch, overlapping, isr=led)
    assert found == [(1, 1), (1, 0), (0, 0), (0, 0), (0, 0)]


def test_i6_a_log_end_below_its_own_high_watermark():
    """I6 is violated if a replica's LEO falls below an HW that the same replica showed earlier."""
    below, kept = ([sample(1, 0, 6, 9), sample(1, S, 0, leo, epoch=1, incarnation=2)] for leo in (5, 6))
    anothers = [sample(2, 0, 8, 9), sample(1, 0, 4, 9), sample(1, S, 0, 5, epoch=1)]

    assert judge(replicas.i6_own_floor, below, kept, anothers) == [(1, 1), (1, 0), (1, 0)]


def test_i6_a_new_log_has_no_floor():
    """I6 has no floor for a new log after that broker's disk was wiped."""
    below = [sample(1, 0, 6, 9), sample(1, 5 * S, 0, 5, epoch=1, incarnation=2)]
    again = [*below, sample(1, 6 * S, 5, 5, epoch=1), sample(1, 7 * S, 0, 4, epoch=1)]

    def check(history, new_log):
        return counted(replicas.i6_own_floor(partition(history, new_logs=[new_log])))

    assert check(below, NewLog(1, 3 * S)) == (0, 0)
    assert check(again, NewLog(1, 3 * S)) == (2, 1)
    assert check(below, NewLog(2, 3 * S)) == (1, 1)
    assert check(below, NewLog(None, 3 * S)) == (0, 0)
    assert check(below, NewLog(None, 3 * S, "orders")) == (0, 0)
    assert check(below, NewLog(None, 3 * S, "sales")) == (1, 1)
    assert check(below, NewLog(1, 5 * S)) == (0, 0)  # asked for in the same nanosecond
    assert check(below, NewLog(1, 5 * S + 1)) == (1, 1)


def test_i8_an_epoch_that_starts_below_an_earlier_high_watermark():
    """I8 is violated if a later epoch starts below an HW of an earlier epoch."""
    lost, kept = [sample(1, 0, 6, 9)], [sample(1, 0, 5, 9), sample(2, S, 3, 9, epoch=1)]

    assert judge(replicas.i8_leader_completeness, lost, kept, epoch_starts={0: 0, 1: 5}) == [(1, 1), (1, 0)]


def test_i8_every_later_epoch_is_asked():
    """I8 checks each HW against all later epochs; the evidence has the violating epoch."""
    shown = partition([sample(1, 0, 6, 9), sample(2, S, 8, 9, epoch=3)], epoch_starts={0: 0, 1: 7, 2: 5, 3: 8})
    found = replicas.i8_leader_completeness(shown)

    assert counted(found) == (3, 1)
    assert found.evidence(0) == {
        "broker_id": 1,
        "leader_epoch": 0,
        "high_watermark": 6,
        "later_epoch": 2,
        "start_offset": 5,
    }


EVICTED = {"max_isr_lag_ns": 4_500_000_000}


def quiet(leader_hw, seconds, *, isr=(1, 2), follower=(9, 9)):
    """Return a leader at LEO 9 with this HW and a follower, over some seconds; an eviction takes 4.5 s."""
    literal = [sample(1, t * S, leader_hw, 9) for t in range(seconds + 1)]
    literal += [sample(2, t * S + S // 2, *follower) for t in range(seconds)]
    return literal, [isr_view(-S, 1, 0, list(isr))]


def cured(history, *, at):
    """Return the history with the leader's HW at its LEO from second ``at`` on."""
    literal, views = history
    reached = {"high_watermark": 9}
    return [row | reached if row["broker_id"] == 1 and row["sent_ns"] >= at * S else row for row in literal], views


def quiescence(history, *outages, effective_min_isr=1, **known):
    """Return (checked, violations) of I10."""
    facts = facts_of(outages=outages, effective_min_isr=effective_min_isr, **EVICTED)
    return counted(replicas.i10_quiescence(partition(*history, facts=facts, **known)))


def test_i10_a_high_watermark_that_stays_behind():
    """I10 is violated if the HW stays below the LEO for longer than an eviction takes, even if it catches up later.

    Followers in the ISR must follow, others need not; below min.insync.replicas nothing is checked.
    """
    assert quiescence(quiet(5, 10)) == (1, 1)
    assert quiescence(quiet(9, 10)) == (1, 0)
    assert quiescence(quiet(5, 4)) == (0, 0)
    assert quiescence(quiet(9, 10, follower=(5, 9))) == (1, 1)
    assert quiescence(quiet(9, 10, follower=(5, 5), isr=(1,))) == (1, 0)
    assert quiescence(quiet(5, 10, isr=(1,)), effective_min_isr=2) == (0, 0)
    assert quiescence(cured(quiet(5, 10), at=9)) == (1, 1)
    assert quiescence(cured(quiet(5, 10), at=5)) == (1, 0)


def test_i10_each_log_end_is_a_stretch_of_its_own():
    """I10 checks each period with a constant LEO by itself; a LEO that always moves has none."""
    literal, views = quiet(9, 10)
    later = [sample(1, t * S, 9, 10) for t in range(11, 22)]
    moving = [sample(1, t * S, 9, 10 + t) for t in range(11, 22)]

    assert quiescence(([*literal, *later], views)) == (2, 1)
    assert quiescence(([*literal, *moving], views)) == (1, 0)


def test_i10_a_slow_answer_of_the_leader_is_as_old_as_its_question():
    """I10 orders samples by request time: an append during a slow reply of the leader is no violation."""
    literal, views = quiet(9, 10)
    slow = {**sample(1, 12 * S, 9, 9), "received_ns": 14 * S}

    assert quiescence(([*literal, slow, sample(2, 13 * S, 9, 10)], views)) == (1, 0)
    assert quiescence(([*literal, slow, sample(2, 11 * S, 9, 10)], views)) == (1, 1)


def test_i10_who_was_out_of_reach_is_not_compared():
    """I10 skips a follower that was reachable for too short a time; the leader's HW is checked all the same.

    While the leader or a controller is unreachable, nothing is checked.
    """

    def check(*outages):
        return [quiescence(history, *outages) for history in (quiet(9, 10, follower=(5, 9)), quiet(5, 10))]

    assert check() == [(1, 1), (1, 1)]
    assert check(Outage(2, S, 5 * S)) == [(1, 0), (1, 1)]
    assert check(Outage(2, -S, 2 * S)) == [(1, 1), (1, 1)]
    assert check(Outage(3, S, 3 * S), Outage(2, -3 * S, -S)) == [(1, 1), (1, 1)]
    assert check(Outage(1, S, 3 * S)) == check(Outage(None, S, 3 * S)) == [(0, 0), (0, 0)]


def test_i10_a_leader_may_wait_for_a_controller_that_was():
    """With ZooKeeper, I10 allows the leader's HW more time while a member was unreachable; followers get none."""

    def check(history, *outages):
        facts = facts_of(outages=outages, stale_controller_ns=30 * S, **EVICTED)
        return counted(replicas.i10_quiescence(partition(*history, facts=facts)))

    away = Outage(2, S, 9 * S)
    assert check(quiet(5, 10), away) == (0, 0)
    assert check(quiet(5, 50), away) == (1, 1)
    assert check(quiet(5, 10)) == check(quiet(5, 10, isr=(1,)), away) == (1, 1)
    assert check(cured(quiet(5, 40), at=25), Outage(2, S, 2 * S)) == (1, 0)
    assert check(quiet(9, 10, follower=(5, 9)), Outage(2, S, 2 * S)) == (1, 1)


def test_i10_a_leader_that_was_cut_off_is_judged_by_the_controller():
    """I10 uses the controller's history: a leader that was replaced meanwhile is not checked."""
    first = State("orders", 0, "metadata_log", 0, -S, 1, 0, 0, (1, 2), (1, 2))
    states = [first, first._replace(t_ns=3 * S, leader=2, leader_epoch=1, isr=(2,))]

    assert quiescence(quiet(5, 10), changes=decided(states)) == (0, 0)
    assert quiescence(quiet(5, 10), changes=decided(states[:1])) == (1, 1)


def test_i10_tells_who_was_behind():
    """I10's evidence has the leader's state, each follower's last sample and the duration."""
    told = partition(*quiet(9, 10, follower=(5, 9)), **EVICTED)
    found = replicas.i10_quiescence(told)

    assert found.violated_ns.tolist() == [10 * S]
    assert found.evidence(0) == {
        "leader": 1,
        "isr": [1, 2],
        "leader_hw": 9,
        "log_end_offset": 9,
        "members": [{"broker_id": 2, "high_watermark": 5, "log_end_offset": 9}],
        "broker_id": 2,
        "own_log_end": 9,
        "quiet_ns": 10 * S - MS,
        "waited_ns": 0,
    }


@pytest.mark.parametrize(("log_end", "asked_at", "awaited"), [(5, 0, [3]), (5, 11, []), (4, 0, []), (9, 0, [])])
def test_i10_tells_for_whom_the_high_watermark_may_wait(log_end: int, asked_at: int, awaited: list[int]) -> None:
    """I10's evidence lists replicas outside the ISR whose log ends at the HW, if sampled before the period's end."""
    literal, views = quiet(5, 10, follower=(5, 9))
    outside = sample(3, asked_at * S, 4, log_end)
    found = replicas.i10_quiescence(partition([*literal, outside], views, **EVICTED))

    assert found.evidence(0).get("awaited", []) == awaited
    assert found.evidence(0).get("broker_id") == (1 if awaited else None)


def test_i26_the_last_stable_offset_has_its_bounds():
    """I26 is violated if a leader's LSO is above a later HW or below the log start."""
    histories = [
        [sample(1, 20 * S, 5, 9, last_stable_offset=5), sample(1, 21 * S, 4, 9, last_stable_offset=4)],
        [sample(1, 20 * S, 4, 9, last_stable_offset=5), sample(1, 21 * S, 5, 9, last_stable_offset=5)],
        [sample(1, 20 * S, 5, 9), sample(1, 21 * S, 5, 9, last_stable_offset=2, log_start_offset=3)],
        [sample(2, 20 * S, 5, 9, last_stable_offset=5), sample(2, 21 * S, 4, 9, last_stable_offset=4)],
        [sample(1, 20 * S, 5, 9, last_stable_offset=5), sample(1, 21 * S, 4, 9, incarnation=2)],
    ]

    found = judge(replicas.i26_stable_offset, *histories, isr=[isr_view(9 * S, 1, 0, [1, 2, 3])])
    assert found == [(1, 1), (1, 0), (1, 1), (0, 0), (0, 0)]


def test_i26_says_nothing_of_an_offset_that_nobody_read():
    """I26 checks only replies with an LSO; after one without it, only the log start."""
    none, low = {"last_stable_offset": None}, {"last_stable_offset": 2}
    histories = [
        [sample(1, 20 * S, 5, 9, **none), sample(1, 21 * S, 5, 9, **none)],
        [sample(1, 20 * S, 5, 9, **none), sample(1, 21 * S, 5, 9, **low)],
        [sample(1, 20 * S, 5, 9, **none), sample(1, 21 * S, 5, 9, **low, log_start_offset=3)],
    ]

    found = judge(replicas.i26_stable_offset, *histories, isr=[isr_view(9 * S, 1, 0, [1, 2, 3])])
    assert found == [(0, 0), (1, 0), (1, 1)]


def test_a_short_isr_is_known_since_its_leader_showed_it():
    """A short ISR counts from 2 s after its leader showed it, to its end."""
    slack = 100 * MS
    states = [
        State("orders", 0, "metadata_log", n, t_ns, 1, 3, n, (1, 2), isr)
        for n, (t_ns, isr) in enumerate([(0, (1, 2)), (5 * S - slack, (1,)), (20 * S + slack, (1, 2))])
    ]
    own = isr_view(6 * S, 1, 3, [1])

    def short(view, effective_min_isr=2):
        of = partition([], [view])
        return short_isrs(facts_of(states=states, effective_min_isr=effective_min_isr), of.views, of.names)

    assert short(own) == [ShortIsr(1, 3, (1,), 8 * S + MS, 20 * S)]
    assert short(own, effective_min_isr=1) == []
    assert short(own | {"observer": "2"}) == []


def test_without_samples_nothing_is_checked():
    """Without samples nothing is checked."""
    nothing = partition(where=TopicPartition("orders", 0))
    checks = [replicas.i1_bounds, replicas.i2_hw_below_leo, replicas.i3_leader_monotonic, replicas.i6_own_floor]

    assert [counted(check(nothing)) for check in checks] == [(0, 0)] * 4
    assert counted(replicas.i8_leader_completeness(nothing)) == (0, 0)
    assert counted(replicas.i10_quiescence(nothing)) == (0, 0)
    assert counted(replicas.i26_stable_offset(nothing)) == (0, 0)
