"""How a follower is slowed down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clusters.faults import lagging, phase
from clusters.faults.lagging import (
    PROTOCOL_OVERHEAD,
    DutyCycle,
    LagFault,
    Observation,
    ShapedTraffic,
    share_for,
    steady,
)
from clusters.faults.phase import PhaseRun, perform
from clusters.kafka.views import PartitionView
from history.errors import HarnessError
from history.partition import TopicPartition
from tests.clusters.fakes import T0, FakeNetwork, scenario
from tests.clusters.faults.trailing import fault, seen


@pytest.mark.parametrize(
    ("records", "stop_s"),
    [(1000, 1.0), (10_000, 1.8), (None, 5.85)],
)
def test_the_first_stop_is_as_long_as_the_lag_takes(world: Any, records: int | None, stop_s: float) -> None:
    """The first stop lasts as long as the lag needs, but less than replica.lag.time.max.ms or the session time-out."""
    assert DutyCycle(world, fault(world, records))._first_stop_s() == pytest.approx(stop_s)


def test_stops_grow_until_the_lag_is_reached(world: Any) -> None:
    """Stops become longer while the lag is too small and shorter when it is too large, up to the maximum."""
    cycle = DutyCycle(world, fault(world, 1000))
    lengths = []
    for lag in (250, 4000, 1, 1, 1):
        cycle._adjust(lag)
        lengths.append(cycle._stop_s)

    assert lengths == pytest.approx([1.8, 0.9, 1.8, 1.8, 1.8])


def test_a_follower_that_does_not_answer_is_not_stopped(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the follower does not answer, the loop waits a tick instead of stopping it."""
    world.runtime.kill("broker-3", "SIGKILL")
    lagged = fault(world)
    waited: list[float] = []
    monkeypatch.setattr(lagged.ended, "wait", waited.append)
    DutyCycle(world, lagged).tick()

    assert waited == [lagging.TICK_S]
    assert world.runtime.state("broker-3") == "exited"


def test_a_follower_that_is_killed_while_it_is_stopped_stays_so(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that was killed while stopped stays down; a failed pause is raised."""
    lagged = fault(world)
    cycle = DutyCycle(world, lagged)
    with monkeypatch.context() as patch:
        patch.setattr(lagged, "observe", lambda *_: world.runtime.kill("broker-3", "SIGKILL"))
        patch.setattr(lagged.ended, "wait", lambda _: world.runtime.state("broker-3") == "exited")
        patch.setattr(lagging, "FETCH_LIMIT_S", 0.0)
        cycle.tick()
        cycle.open()
        assert world.runtime.state("broker-3") == "exited"

    def refused(_name: str) -> None:
        raise HarnessError("no permission")

    world.start(world.servers.brokers[3])
    monkeypatch.setattr(world.runtime, "pause", refused)
    with pytest.raises(HarnessError, match="no permission"):
        cycle.tick()


def test_a_follower_that_ends_before_it_is_stopped_is_let_be(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that exits between its answer and the stop signal is ignored."""
    lagged = fault(world)
    cycle = DutyCycle(world, lagged)
    monkeypatch.setattr(cycle, "_follower_leo", lambda: world.runtime.states.update({"broker-3": "exited"}) or 500)
    monkeypatch.setattr(world.runtime, "pause", partial(world.runtime.kill, signal="SIGSTOP"))
    monkeypatch.setattr(lagged.ended, "wait", lambda _: True)
    monkeypatch.setattr(lagging, "FETCH_LIMIT_S", 0.0)
    cycle.tick()

    assert world.runtime.state("broker-3") == "exited"


@pytest.mark.parametrize(("limit_s", "moments", "reached"), [(60, 3, 700), (0, 0, 500)])
def test_in_the_isr_a_follower_runs_for_moments_until_it_has_fetched(
    world: Any, monkeypatch: pytest.MonkeyPatch, limit_s: float, moments: int, reached: int
) -> None:
    """In the ISR a follower runs for short moments until it has fetched once, and is stopped again."""
    signals, told = [], iter([500, 500, 700])
    monkeypatch.setattr(lagging, "FETCH_LIMIT_S", limit_s)
    monkeypatch.setattr(world.runtime, "pause", lambda _: signals.append("stop"))
    monkeypatch.setattr(world.runtime, "resume", lambda _: signals.append("run"))
    monkeypatch.setattr(lagging, "observe", lambda *_: replace(seen(0), follower_leo=next(told)))
    cycle = DutyCycle(world, fault(world), _stopped=True)

    assert cycle._one_fetch(500) == reached
    assert signals == (["run", "stop"] * moments or ["run"])


def test_what_another_fault_has_paused_is_not_continued(world: Any) -> None:
    """Ending a lag resumes only what the lag itself stopped, not what another fault paused."""
    world.runtime.pause("broker-3")
    DutyCycle(world, fault(world)).open()

    assert world.runtime.state("broker-3") == "paused"


@pytest.mark.parametrize("key", ["lag", "slow"])
def test_a_broker_that_is_stopped_in_turn_is_not_paused(world: Any, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """On the process runtime a lagging broker cannot be paused; other brokers can, and on Docker any broker can."""
    monkeypatch.setattr(phase, "capture_offsets", lambda _world, _label: None)
    (pause_c, pause_b) = scenario([{"pause": "C"}, {"pause": "B"}]).phases[0].steps
    run = PhaseRun(world, world.scenario.phases[0])
    run._active.append(LagFault(world, world.servers.brokers[3], T0, 2000, key))
    with pytest.raises(HarnessError, match=f"broker-3 has {key} active, for which the process runtime pauses and"):
        perform(run, pause_c)
    perform(run, pause_b)
    assert [world.runtime.state(f"broker-{number}") for number in (2, 3)] == ["paused", "running"]

    world.runtime.network = FakeNetwork()
    perform(run, pause_c)
    assert world.runtime.state("broker-3") == "paused"


def test_traffic_is_shaped_at_the_other_brokers(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sender is limited to the append rate times the share; small changes are skipped, ``open`` lifts it."""
    calls: list[tuple[str, list[str], int, float]] = []
    restored: list[tuple[str, list[str]]] = []
    network: Any = FakeNetwork()
    network.limit_ingress = lambda node, senders, port, limit: calls.append(
        (node.name, [sender.name for sender in senders], port, limit)
    )
    network.restore_ingress = lambda node, senders: restored.append((node.name, [sender.name for sender in senders]))
    lagged = fault(world, 2000)
    shaped = ShapedTraffic(world, network, lagged, _append_rate=100_000.0, _trailed_s=lagging.time.monotonic())
    monkeypatch.setattr(lagged.ended, "wait", lambda _: None)
    for lag in (2000, 2100, 250):
        world.reports.ends = {1: 5000, 3: 5000 - lag}
        shaped.tick()
    shaped.open()

    assert [call[:3] for call in calls] == [("broker-3", ["broker-1", "broker-2"], 9091)] * 2
    full = 100_000 * PROTOCOL_OVERHEAD
    assert [call[3] for call in calls] == [pytest.approx(full), pytest.approx(full / 2)]
    assert restored == [("broker-3", ["broker-1", "broker-2"])]


@pytest.mark.parametrize(("took_s", "limits"), [(0.9, 1), (0.0, 2)])
def test_the_time_that_a_limit_takes_is_not_patience(
    world: Any, monkeypatch: pytest.MonkeyPatch, took_s: float, limits: int
) -> None:
    """The time that setting a limit takes does not count as waiting for its effect."""
    now_s, told = [10.0], []
    network: Any = FakeNetwork()

    def limit_ingress(_node: Any, _senders: Any, _port: int, limit: float | None) -> None:
        told.append(limit)
        now_s[0] += took_s

    network.limit_ingress = limit_ingress
    lagged = fault(world, 2000)
    shaped = ShapedTraffic(world, network, lagged, _append_rate=100_000.0, _trailed_s=10.0)
    monkeypatch.setattr(lagged.ended, "wait", lambda _: None)
    monkeypatch.setattr(lagging.time, "monotonic", lambda: now_s[0])
    world.reports.ends = {1: 5000, 3: 4500}
    shaped.tick()
    now_s[0] = 12.1
    shaped.tick()

    assert len(told) == limits


def _last_limit(
    world: Any, monkeypatch: pytest.MonkeyPatch, lag: int, append_rate: float, at_s: Sequence[float]
) -> float | None:
    """Return the limit of a follower at this lag, with 2,000 wanted, that has been away from it since 10 s."""
    limits: list[float | None] = []
    network: Any = FakeNetwork()
    network.limit_ingress = lambda _node, _senders, _port, limit: limits.append(limit)
    lagged = fault(world, 2000)
    shaped = ShapedTraffic(world, network, lagged, _append_rate=append_rate, _trailed_s=10.0)
    monkeypatch.setattr(lagged.ended, "wait", lambda _: None)
    world.reports.ends = {1: 5000, 3: 5000 - lag}
    for now_s in at_s:
        monkeypatch.setattr(lagging.time, "monotonic", lambda now_s=now_s: now_s)
        shaped.tick()
    return limits[-1]


@pytest.mark.parametrize(("lag", "bytes_per_s"), [(1000, 100_000), (999, 60_000)])
def test_who_does_not_trail_far_enough_in_time_is_given_less(
    world: Any, monkeypatch: pytest.MonkeyPatch, lag: int, bytes_per_s: int
) -> None:
    """A follower that is below half of the wanted lag after 2 s gets 60% of the traffic."""
    last = _last_limit(world, monkeypatch, lag, append_rate=100_000.0, at_s=(11.7, 11.8, 11.9, 12.0, 13.9))

    assert last == pytest.approx(bytes_per_s * PROTOCOL_OVERHEAD * share_for(lag, 2000))


@pytest.mark.parametrize(
    ("observed", "append_rate"),
    [
        ([seen(lag) for lag in (1500, 0, 0, 0, 1500)], 60.0),
        ([seen(lag) for lag in (1500, 0, 1500, 0, 1500)], 100.0),
        ([seen(1500, in_isr=False)] * 5, 100.0),
    ],
)
def test_who_trails_too_seldom_is_given_less(
    world: Any, monkeypatch: pytest.MonkeyPatch, observed: list[Observation], append_rate: float
) -> None:
    """If too few samples reach half of the lag, the follower gets less traffic; an evicted one does not."""
    lagged = fault(world, 2000)
    lagged._seen.extend(observed)
    shaped = ShapedTraffic(world, FakeNetwork(), lagged, _append_rate=100.0, _trailed_s=10.0)  # type: ignore[arg-type]  # not used
    monkeypatch.setattr(lagging.time, "monotonic", lambda: 12.0)
    shaped._correct(observed[-1], 2000)

    assert shaped._append_rate == pytest.approx(append_rate)


@pytest.mark.parametrize(("lag", "bytes_per_s"), [(4000, 1_000), (4001, 50_000)])
def test_who_trails_too_far_for_too_long_is_measured_anew(
    world: Any, monkeypatch: pytest.MonkeyPatch, lag: int, bytes_per_s: int
) -> None:
    """A follower beyond twice the lag for 2 s has its append rate measured again."""
    sizes = iter([0, 0, 0, 15_000])
    monkeypatch.setattr(ShapedTraffic, "_log_sizes", lambda _: {(1, T0): next(sizes)})
    last = _last_limit(world, monkeypatch, lag, append_rate=1000.0, at_s=(11.7, 11.8, 11.9, 12.0))

    assert last == pytest.approx(bytes_per_s * PROTOCOL_OVERHEAD * share_for(lag, 2000))


def test_who_was_evicted_is_let_back(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An evicted follower gets ten times the append rate, whatever its lag."""
    world.reports.isr = [1, 2]
    last = _last_limit(world, monkeypatch, 2000, append_rate=100_000.0, at_s=(10.0,))

    assert last == pytest.approx(1_000_000 * PROTOCOL_OVERHEAD)


@pytest.mark.parametrize(("partitions", "rate"), [(1, 1000.0), (4, 250.0)])
def test_a_partition_is_sent_its_share_of_the_topics_records(world: Any, partitions: int, rate: float) -> None:
    """A partition's rate is its share of the topic's rate."""
    topics = {"orders": {"partitions": partitions, "replicas": ["A", "B", "C"]}}
    world.replan(scenario=scenario([{"hold": 1}], topics=topics, load={"topic": "orders", "rate": "1000/s"}))

    assert fault(world).rate == rate


def _leads(world: Any, leaders: dict[int, int]) -> None:
    """Let the partitions of orders have these leaders by number; -1 is none."""
    views = {
        TopicPartition("orders", number): PartitionView("orders", number, leader, 1, [1, 2, 3], [1, 2, 3], [])
        for number, leader in leaders.items()
    }
    world.partitions_of = lambda _: list(views)
    world.reports.partition_views = lambda partitions: {each: views[each] for each in partitions}


def _own_folders(world: Any, path: Path) -> None:
    for number in world.servers.brokers:
        world.servers.brokers[number] = replace(world.servers.brokers[number], folder=path / str(number))


def _append(path: Path, broker: int, partition: int, size: int) -> None:
    log = path / str(broker) / "data" / f"orders-{partition}" / "00.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        file.write(b"x" * size)


def test_the_append_rate_is_of_all_that_the_leader_has_for_the_follower(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The append rate covers all partitions that this leader leads and the follower has, since they share the limit.

    Other leaders' partitions do not count; a segment may disappear meanwhile.
    """
    _leads(world, {0: 1, 1: 1, 2: 2, 3: 3, 4: -1})
    _own_folders(world, tmp_path)
    for partition in range(5):
        _append(tmp_path, 1, partition, 100)
        _append(tmp_path, 2, partition, 100)
    (tmp_path / "1" / "data" / "orders-0" / "05.log").symlink_to("gone")
    lagged = fault(world)
    now = iter([10.0, 12.0])

    def sent(_: float) -> None:
        for partition, size in enumerate((50_000, 30_000, 7_000, 9_000, 5_000)):
            _append(tmp_path, 1, partition, size)
            _append(tmp_path, 2, partition, size)

    monkeypatch.setattr(lagging.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(lagged.ended, "wait", sent)

    assert next(ShapedTraffic(world, FakeNetwork(), lagged)._append_rates()) == 40_000


@pytest.mark.parametrize("leaders", [{0: 2, 1: 2}, {0: -1, 1: 2}])
def test_a_new_leader_is_no_growth(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaders: dict[int, int]
) -> None:
    """A change of leader does not count as growth; without a leader the lowest rate remains."""
    _leads(world, {0: 1, 1: 1})
    _own_folders(world, tmp_path)
    for broker in (1, 2):
        for partition in (0, 1):
            _append(tmp_path, broker, partition, 100_000)
    lagged = fault(world)
    now = iter([10.0, 11.0])
    monkeypatch.setattr(lagging.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(lagged.ended, "wait", lambda _: _leads(world, leaders))

    assert next(ShapedTraffic(world, FakeNetwork(), lagged)._append_rates()) == 1000.0


@pytest.mark.parametrize(
    ("rates", "found"),
    [
        ([100.0, 110.0, 500.0], 110.0),
        ([900.0, 100.0, 76.0, 70.0], 76.0),  # a burst at first; 76 is within a quarter of 100, and 70 is not asked for
        ([900.0, 100.0, 74.0, 40.0, 10.0], 10.0),
    ],
)
def test_a_burst_is_no_produce_rate(rates: list[float], found: float) -> None:
    """The produce rate is the first that two consecutive seconds agree on, otherwise the last one."""
    assert steady(iter(rates)) == found
