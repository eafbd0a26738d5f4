"""A follower that trails: what is observed, proven and reported."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.faults import lagging
from clusters.faults.lagging import (
    SHARES,
    DutyCycle,
    LagFault,
    Observation,
    observe,
    share_for,
)
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout
from tests.clusters.fakes import T0, FakeNetwork, scenario
from tests.clusters.faults.trailing import fault, seen


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
    world.replan(scenario=scenario([{"hold": 1}], load={"topic": "orders", "rate": rate} if rate != "0/s" else None))

    assert fault(world, records).least_share == pytest.approx(least)


def test_the_lag_is_between_the_leaders_end_and_the_followers(world: Any) -> None:
    """The lag is the leader's LEO minus the follower's LEO."""
    world.reports.ends = {1: 900, 3: 650}
    found = observe(world, world.servers.brokers[3], T0)

    assert found
    assert (found.lag, found.leader_leo, found.follower_leo, found.in_isr) == (250, 900, 650, True)


def test_a_stopped_followers_end_is_told(world: Any) -> None:
    """The lag of a stopped follower is computed from the LEO that it had when it was stopped."""
    world.reports.isr = [1, 2]
    world.runtime.pause("broker-3")

    assert observe(world, world.servers.brokers[3], T0) is None
    found = observe(world, world.servers.brokers[3], T0, follower_leo=100)
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
    world.reports.isr, world.reports.ends = isr, {1: end}

    found = observe(world, world.servers.brokers[3], T0, follower_leo=told)

    assert found
    assert (found.lag, found.follower_leo) == (lag, end - lag)


def test_without_a_leader_nothing_is_observed(world: Any) -> None:
    """Without a leader there is no observation: a wrong lag would mislead the control loop."""
    world.reports.partition_view = lambda _, without: None

    assert observe(world, world.servers.brokers[3], T0) is None


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
    world.replan(scenario=scenario([{"hold": 1}], load={"topic": "orders", "rate": rate}))

    fault(world).verify_injected()

    assert limits == [pytest.approx(limit_s)]


def test_who_waits_for_the_proof_looks_too(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With shaped traffic the waiting thread takes samples itself, since on a busy host changing a limit takes 1 s."""
    monkeypatch.setattr(lagging, "PROOF_S", 1.0)
    monkeypatch.setattr(LagFault, "_least_s", lambda *_: 0.0)
    world.reports.ends = {1: 5000, 3: 3000}
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
    world.reports.ends = {1: 1000, 3: 500}

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
