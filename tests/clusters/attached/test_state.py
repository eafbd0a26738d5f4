"""Tests of clusters.attached.state."""

from __future__ import annotations

import pytest

from clusters.attached.state import Health, PartitionNow, WatchState
from clusters.kafka.probe import INCONSISTENT_TOPIC_ID, ReplicaSample, Tick
from clusters.kafka.views import ClusterView, PartitionView
from history.partition import TopicPartition

ORDERS = TopicPartition("orders", 0)
S = 1_000_000_000


def watched(min_isr: int = 2) -> WatchState:
    """Return the state of one partition on brokers 1 to 3, which 1 leads."""
    state = WatchState([(ORDERS, (1, 2, 3))], {"orders": min_isr}, began_ns=0)
    add(state, view(at_s=0))
    return state


def add(state: WatchState, *ticks: Tick) -> None:
    """Add ticks in order."""
    for tick in ticks:
        state.add(tick)


def view(at_s: float, leader: int = 1, epoch: int = 5, isr: tuple[int, ...] = (1, 2, 3)) -> Tick:
    """Return a tick with metadata only."""
    part = PartitionView("orders", 0, leader, epoch, [1, 2, 3], list(isr), [])
    return Tick(1, [], ClusterView(int(at_s * S), int(at_s * S), 1, {}, [part]))


def sample(at_s: float, broker: int, end: int, hw: int, error: str | None = None) -> Tick:
    """Return a tick with one sample."""
    at_ns = int(at_s * S)
    found = ReplicaSample("orders", 0, at_ns, at_ns, high_watermark=hw, log_end_offset=end)
    return Tick(broker, [ReplicaSample("orders", 0, at_ns, at_ns, error=error) if error else found], None)


def now(state: WatchState, at_s: float) -> PartitionNow:
    """Return the partition's state."""
    (only,) = state.now(int(at_s * S))
    return only


def test_a_follower_that_reached_the_leaders_earlier_end_is_caught_up() -> None:
    """Under load a follower lags by what was written since its fetch; that is not being behind."""
    state = watched()
    for second in range(1, 11):
        add(state, sample(second, 1, 100 * second, 100 * second - 50))
        add(state, *(sample(second + 0.1, broker, 100 * second - 50, 100 * second - 50) for broker in (2, 3)))
    found = now(state, 10.2)
    assert (found.health, [each.lag for each in found.replicas]) == (Health.HEALTHY, [0, 50, 50])
    assert all(each.behind_s < 0.2 for each in found.replicas)


def test_a_follower_that_stands_still_is_behind_since_then() -> None:
    """Its time counts from the last sample that had reached the leader's end before."""
    state = watched()
    for second in range(1, 11):
        add(state, sample(second, 1, 100 * second, 100 * second))
        add(state, sample(second + 0.1, 2, 100 * second, 0), sample(second + 0.1, 3, min(100 * second, 300), 0))
    found = now(state, 10.1)
    assert found.health is Health.BEHIND
    assert [(each.lag, round(each.behind_s)) for each in found.replicas] == [(0, 0), (0, 0), (700, 6)]


@pytest.mark.parametrize(
    ("isr", "leader", "expected"),
    [
        ((1, 2, 3), 1, Health.HEALTHY),
        ((1, 2), 1, Health.OUT_OF_ISR),
        ((1,), 1, Health.UNDER_MIN_ISR),
        ((1,), -1, Health.NO_LEADER),
    ],
)
def test_the_worst_sign_is_the_state(isr: tuple[int, ...], leader: int, expected: Health) -> None:
    """A partition without a leader is worse than one below min.insync.replicas, and so on."""
    state = watched()
    add(state, view(1, leader, 6, isr))
    add(state, *(sample(2, broker, 10, 10) for broker in (1, 2, 3)))
    assert now(state, 2).health is expected


def test_a_high_watermark_below_the_log_end_that_does_not_move_is_stuck() -> None:
    """It is stuck after 3 s; at the log's end it has nothing to do."""
    state, idle = watched(), watched()
    for second in range(1, 7):
        add(state, sample(second, 1, 120, 100))
        add(idle, sample(second, 1, 100, 100))
    for each in (state, idle):
        add(each, sample(6, 2, 100, 100), sample(6, 3, 100, 100))
    assert (now(state, 3).hw_still_s, now(state, 6).health) == (2.0, Health.HW_STUCK)
    assert (now(idle, 6).hw_still_s, now(idle, 6).health) == (0.0, Health.HEALTHY)


def test_a_leader_change_is_counted_once() -> None:
    """Each broker reports the change; an older view that arrives later changes nothing."""
    state = watched()
    add(state, view(1, 2, 6), view(1.1, 2, 6), view(1.2, 1, 5))
    found = now(state, 2)
    assert (found.leader, found.leader_epoch, found.leader_changes) == (2, 6, 1)


def test_a_partition_that_has_no_leader_for_a_while_did_not_change_it() -> None:
    """Only another broker's leadership is a change."""
    state = watched()
    add(state, view(1, -1, 6), view(2, 1, 7))
    assert now(state, 2).leader_changes == 0


def test_a_silent_broker_is_shown_with_its_error() -> None:
    """Its offsets are unknown, and its time counts from its last answer."""
    state = watched()
    add(state, *(sample(1, broker, 10, 10) for broker in (1, 2, 3)))
    add(state, sample(2, 1, 10, 10), sample(2, 2, 10, 10), sample(2, 3, 0, 0, error="unreachable"))
    silent = now(state, 4).replicas[2]
    assert (silent.error, silent.log_end_offset, silent.lag, silent.behind_s) == ("unreachable", None, None, 3.0)


def test_a_topic_that_was_made_anew_is_shown_as_such() -> None:
    """It is worse than everything else, since nothing more is recorded of it; another error is a silent replica."""
    state = watched()
    add(
        state, *(sample(1, broker, 10, 10) for broker in (1, 2)), sample(1, 3, 0, 0, error="UNKNOWN_TOPIC_OR_PARTITION")
    )
    assert now(state, 2).health is Health.SILENT
    add(state, view(2, leader=-1, epoch=6), sample(2, 3, 0, 0, error=INCONSISTENT_TOPIC_ID))
    assert now(state, 2).health is Health.MADE_ANEW
