"""The lagging follower: its control loop, and the proof that it lags."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.faults import lagging, phase
from clusters.faults.lagging import (
    PROTOCOL_OVERHEAD,
    SHARES,
    DutyCycle,
    LagFault,
    Observation,
    ShapedTraffic,
    observe,
    share_for,
    steady,
)
from clusters.faults.phase import PhaseRun, perform
from clusters.kafka.wire import PartitionView
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout
from history.partition import TopicPartition
from tests.clusters.fakes import T0, FakeNetwork, FakeWorld, scenario


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """Three brokers under 1,000 records a second, as local processes; replica.lag.time.max.ms is 3 s."""
    cluster = {"brokers": 3, "session_timeout": "9s", "config": {"replica.lag.time.max.ms": 3000}}
    told = scenario([{"hold": 1}], cluster=cluster, load={"topic": "orders", "rate": "1000/s"})
    played: Any = FakeWorld(tmp_path, told)
    played.runtime.network = None
    return played


def fault(world: Any, records: int | None = 2000) -> LagFault:
    """Return a lag of broker 3."""
    return LagFault(world, world.brokers[3], T0, records, "lag" if records else "slow")


def seen(lag: int, *, in_isr: bool = True, held: bool = True) -> Observation:
    """Return an observation as the probes would make it during a lag."""
    return Observation(0, lag, leader_hw=0 if held else lag, leader_leo=lag, follower_leo=0, in_isr=in_isr)


# --- the loop ----------------------------------------------------------------------------------


@given(st.integers(-(10**6), 10**9), st.integers(1, 10**6))
def test_the_share_stays_between_its_bounds(lag: int, records: int) -> None:
    """The share of traffic stays within bounds, so that the follower neither starves nor catches up at once."""
    assert SHARES[0] <= share_for(lag, records) <= SHARES[1]


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**5))
def test_who_trails_further_gets_no_less(one: int, other: int, records: int) -> None:
    """The further the follower lags, the larger its share of traffic."""
    assert share_for(min(one, other), records) <= share_for(max(one, other), records)


@pytest.mark.parametrize("records", [1, 500, 2000])
def test_at_the_wanted_lag_all_that_is_produced_goes_through(records: int) -> None:
    """At the wanted lag the share is 1, so that the lag stays constant."""
    assert share_for(records, records) == 1


@pytest.mark.parametrize(
    ("records", "rate", "least"), [(300, "200/s", SHARES[0]), (100, "200/s", 0.75), (100, "0/s", SHARES[0])]
)
def test_a_small_lag_is_approached_slowly(world: Any, records: int, rate: str, least: float) -> None:
    """The smallest share makes the follower fall behind by a small lag within the loop's reaction time."""
    world.scenario = scenario([{"hold": 1}], load={"topic": "orders", "rate": rate} if rate != "0/s" else None)

    assert fault(world, records).least_share == pytest.approx(least)


# --- observing ---------------------------------------------------------------------------------


def test_the_lag_is_between_the_leaders_end_and_the_followers(world: Any) -> None:
    """The lag is the leader's LEO minus the follower's LEO."""
    world.ends = {1: 900, 3: 650}
    found = observe(world, world.brokers[3], T0)

    assert found
    assert (found.lag, found.leader_leo, found.follower_leo, found.in_isr) == (250, 900, 650, True)


def test_a_stopped_followers_end_is_told(world: Any) -> None:
    """The lag of a stopped follower is computed from the LEO that it had when it was stopped."""
    world.isr = [1, 2]
    world.runtime.pause("broker-3")

    assert observe(world, world.brokers[3], T0) is None
    found = observe(world, world.brokers[3], T0, follower_leo=100)
    assert found
    assert found.lag == 400


@pytest.mark.parametrize(
    ("isr", "told", "end", "lag"),
    [([1, 2, 3], 100, 500, 100), ([1, 2, 3], 450, 500, 50), ([1, 2], 100, 500, 400), ([1, 2, 3], 100, 390, 0)],
)
def test_within_the_isr_nobody_ends_below_the_high_watermark(
    world: Any, isr: list[int], told: int, end: int, lag: int
) -> None:
    """A follower in the ISR has at least the leader's HW, even if its own LEO was read before its last fetch."""
    world.isr, world.ends = isr, {1: end}

    found = observe(world, world.brokers[3], T0, follower_leo=told)

    assert found
    assert (found.lag, found.follower_leo) == (lag, end - lag)


def test_without_a_leader_nothing_is_observed(world: Any) -> None:
    """Without a leader there is no observation: a wrong lag would mislead the control loop."""
    world.partition_view = lambda _, without: None

    assert observe(world, world.brokers[3], T0) is None


# --- the proof ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "samples"),
    [
        (2000, [seen(1000)] * 3),
        (2000, [seen(10), seen(1500), seen(20), seen(1500), seen(1500)]),
        (None, [seen(1000, in_isr=False, held=False)]),
    ],
)
def test_a_lag_that_was_seen_is_proven(world: Any, records: int | None, samples: list[Observation]) -> None:
    """A lag is proven by three samples of half of it, in the ISR and with the HW held back; ``slow``, by one sample."""
    lagged = fault(world, records)
    lagged._seen.extend(samples)

    assert lagged.verify_injected() == lagged.figures()


@pytest.mark.parametrize(
    ("records", "samples"),
    [
        (2000, [seen(999)] * 5),
        (2000, [seen(1500)] * 2),
        (2000, [seen(1500, in_isr=False)] * 5),
        (2000, [seen(1500, held=False)] * 5),
        (2000, [seen(1500)] * 3 + [seen(0)] * 10),
        (None, [seen(999)]),
        (None, []),
    ],
)
def test_a_lag_that_was_not_seen_is_not_proven(
    world: Any, records: int | None, samples: list[Observation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples that are too small, too few, outside the ISR, with the HW unaffected, or over, prove no lag."""
    monkeypatch.setattr(lagging, "wait_until", lambda *args, limit_s, **rest: wait_until(*args, limit_s=0, **rest))
    lagged = fault(world, records)
    lagged._seen.extend(samples)

    with pytest.raises(WaitTimeout, match="for broker-3 to trail the leader of orders-0 by 1000 records; last seen: "):
        lagged.verify_injected()


@pytest.mark.parametrize(
    ("observed", "told"),
    [
        (seen(900), "lag 900, leader HW 0 LEO 900, follower LEO 0, in the ISR"),
        (seen(40, in_isr=False, held=False), "lag 40, leader HW 40 LEO 40, follower LEO 0, out of the ISR"),
    ],
)
def test_what_was_seen_is_told_in_words(observed: Observation, told: str) -> None:
    """An observation is printed with lag, HW, LEOs and ISR membership, for reports on a lag without effect."""
    assert str(observed) == told


@pytest.mark.parametrize(("rate", "limit_s"), [("1000/s", 20 + 1000 / 700), ("100/s", 20 + 1000 / 70)])
def test_the_proof_is_awaited_for_as_long_as_falling_behind_takes(
    world: Any, rate: str, limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof may take 20 s, plus the time in which the least share makes up half of the lag."""
    limits: list[float] = []
    monkeypatch.setattr(lagging, "wait_until", lambda *_, limit_s, **__: limits.append(limit_s))
    world.scenario = scenario([{"hold": 1}], load={"topic": "orders", "rate": rate})

    fault(world).verify_injected()

    assert limits == [pytest.approx(limit_s)]


def test_who_waits_for_the_proof_looks_too(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With shaped traffic the waiting thread takes samples itself, since on a busy host changing a limit takes 1 s."""
    monkeypatch.setattr(lagging, "PROOF_S", 1.0)
    monkeypatch.setattr(LagFault, "_least_s", lambda *_: 0.0)
    world.ends = {1: 5000, 3: 3000}
    with pytest.raises(WaitTimeout, match="last seen: no sample"):
        fault(world).verify_injected()

    world.runtime.network = FakeNetwork()
    assert fault(world).verify_injected() == {"samples": 3, "lag_min": 2000, "lag_median": 2000, "lag_max": 2000} | {
        "near": 1.0
    }


def test_figures_are_of_the_samples_in_the_isr(world: Any) -> None:
    """Figures cover the samples within the ISR: minimum, median, maximum, and the share near the wanted lag."""
    lagged = fault(world, 20)
    assert lagged.figures() == {"samples": 0}

    lagged._seen.extend([seen(41), seen(10), seen(9), seen(40), seen(9000, in_isr=False)])
    found = lagged.figures()
    assert (found["samples"], found["lag_min"], found["lag_median"], found["lag_max"]) == (4, 9, 40, 41)
    assert found.get("near") == 0.5


def test_a_starved_follower_is_near_nothing(world: Any) -> None:
    """``slow`` wants no particular lag, so it reports no ``near`` share."""
    starved = fault(world, None)
    starved._seen.extend([seen(30)])

    assert "near" not in starved.figures()


def test_a_follower_that_caught_up_is_healed(world: Any) -> None:
    """A follower within 0.5 s of traffic of the leader has recovered."""
    world.ends = {1: 1000, 3: 500}

    assert fault(world).verify_cleared()["lag"] == 500


def test_the_thread_ends_with_its_fault_and_opens_the_valve(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Healing ends the control thread and resumes a stopped follower."""
    monkeypatch.setattr(lagging.World, "open", lambda _: nullcontext(world))
    lagged = fault(world)
    lagged.inject()
    wait_until(lambda: lagged._seen, limit_s=10, what="the first observation", every_s=0.01)
    lagged.heal()

    assert lagged._thread
    assert not lagged._thread.is_alive()
    assert world.runtime.state("broker-3") == "running"


def test_what_breaks_in_the_thread_is_told_to_who_waits(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the control thread is raised by both the verification and the healing."""

    def broken(_name: str) -> None:
        raise OSError("no such process")

    monkeypatch.setattr(lagging.World, "open", lambda _: nullcontext(world))
    monkeypatch.setattr(world.runtime, "pause", broken)
    lagged = fault(world)
    lagged.inject()

    for call in (lagged.verify_injected, lagged.heal):
        with pytest.raises(HarnessError, match="The lag of broker-3 could not be held: no such process"):
            call()


def test_a_valve_that_stays_shut_is_told_to_who_heals(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the limit cannot be lifted, healing raises an error."""

    def stuck(_cycle: DutyCycle) -> None:
        raise OSError("no such class")

    monkeypatch.setattr(lagging.World, "open", lambda _: nullcontext(world))
    monkeypatch.setattr(DutyCycle, "open", stuck)
    lagged = fault(world)
    lagged.inject()

    with pytest.raises(HarnessError, match="The lag of broker-3 could not be held: no such class"):
        lagged.heal()


# --- the valves --------------------------------------------------------------------------------


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

    world.start(world.brokers[3])
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
    run._active.append(LagFault(world, world.brokers[3], T0, 2000, key))
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
        world.ends = {1: 5000, 3: 5000 - lag}
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
    world.ends = {1: 5000, 3: 4500}
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
    world.ends = {1: 5000, 3: 5000 - lag}
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
    world.isr = [1, 2]
    last = _last_limit(world, monkeypatch, 2000, append_rate=100_000.0, at_s=(10.0,))

    assert last == pytest.approx(1_000_000 * PROTOCOL_OVERHEAD)


@pytest.mark.parametrize(("partitions", "rate"), [(1, 1000.0), (4, 250.0)])
def test_a_partition_is_sent_its_share_of_the_topics_records(world: Any, partitions: int, rate: float) -> None:
    """A partition's rate is its share of the topic's rate."""
    topics = {"orders": {"partitions": partitions, "replicas": ["A", "B", "C"]}}
    world.scenario = scenario([{"hold": 1}], topics=topics, load={"topic": "orders", "rate": "1000/s"})

    assert fault(world).rate == rate


def _leads(world: Any, leaders: dict[int, int]) -> None:
    """Let the partitions of orders have these leaders by number; -1 is none."""
    views = {
        TopicPartition("orders", number): PartitionView("orders", number, leader, 1, [1, 2, 3], [1, 2, 3], [])
        for number, leader in leaders.items()
    }
    world.partitions_of = lambda _: list(views)
    world.partition_views = lambda partitions: {each: views[each] for each in partitions}


def _own_folders(world: Any, path: Path) -> None:
    for number in world.brokers:
        world.brokers[number] = replace(world.brokers[number], folder=path / str(number))


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
