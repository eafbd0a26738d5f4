"""Every fault on real brokers, on both runtimes: it bites, it is seen to bite, it is gone afterwards."""

from __future__ import annotations

import pytest

from clusters.runtimes.docker import kernel_can_delay
from clusters.scenario import Phase
from clusters.steps import PhaseRun
from clusters.waiting import wait_until
from clusters.world import World
from history.errors import HarnessError
from history.events import Event, read_events

pytestmark = pytest.mark.cluster

NETWORK = {
    "cut": [{"cut": {"node": "A", "from": ["B", "C"]}}, {"hold": "1s"}, {"join": {"node": "A", "from": ["B", "C"]}}],
    "cut from clients": [{"cut": {"node": "leader of orders-0", "from": "clients"}}, {"hold": "1s"}],
    "cut from controller": [{"cut": {"node": "A", "from": "controller"}}],
    "shape": [{"shape": {"into": "follower of orders-0", "rate": "1MB/s"}}, {"unshape": "follower of orders-0"}],
    "delay": [{"delay": {"into": "follower of orders-0", "by": "50ms"}}],
    "lose": [{"lose": {"into": "leader of orders-0", "from": "followers of orders-0", "percent": 20}}],
}
STEPS = {
    "pause": [{"pause": "follower of orders-0"}, {"hold": "1s"}],
    "kill": [{"kill": "leader of orders-0"}, {"wait": {"for": {"leader_changed": "orders"}, "limit": "20s"}}],
    "stop": [{"stop": "leader of orders-0"}, {"wait": {"for": {"leader_changed": "orders"}, "limit": "10s"}}],
    "lag": [{"lag": {"node": "follower of orders-0", "records": 500}}, {"hold": "4s"}],
    "slow": [
        {"slow": {"node": "follower of orders-0", "until": {"out_of_isr": "follower of orders-0"}, "limit": "20s"}}
    ],
}


def _run(world: World, name: str, steps: list[dict[str, object]]) -> list[Event]:
    """Run one phase and return its events."""
    before = len(list(read_events(world.folder.events)))
    wait_until(lambda: _isr_is_full(world), limit_s=60, what="a full ISR to begin with")
    PhaseRun(world, Phase.model_validate({"name": name, "steps": steps})).run()
    return list(read_events(world.folder.events))[before:]


def _isr_is_full(world: World) -> bool:
    view = world.partition_view(world.partitions[0])
    return view is not None and len(view.isr) == 3


def _detail(events: list[Event], kind: str) -> dict[str, object]:
    return dict(next(event for event in events if event.kind == kind).detail)


@pytest.mark.parametrize("fault", STEPS)
def test_a_fault_bites_and_is_gone_again(world: World, fault: str) -> None:
    """The probe and other brokers' metadata show both; afterwards the ISR is full again."""
    events = _run(world, fault, STEPS[fault])

    assert _detail(events, "injected")["bit"] is True
    assert _detail(events, "healed")["gone"] is True
    assert not [event for event in events if event.kind == "wait_ran_out"]
    wait_until(lambda: _isr_is_full(world), limit_s=60, what="the ISR to be full again")


@pytest.mark.parametrize("fault", NETWORK)
def test_a_fault_of_the_network_bites_and_is_gone_again(world: World, fault: str) -> None:
    """By the kernel's counters, which went on until the end; local processes have no network of their own."""
    if "network" not in world.runtime.capabilities:
        with pytest.raises(HarnessError, match="use RUNTIME=docker"):
            _run(world, fault, NETWORK[fault])
        return
    if fault == "delay" and not kernel_can_delay():
        pytest.skip("the kernel has no sch_netem")
    events = _run(world, fault, NETWORK[fault])
    injected, healed = _detail(events, "injected"), _detail(events, "healed")

    assert injected["bit"] is True
    assert healed["gone"] is True
    assert int(str(healed.get("packets", 1))) >= int(str(injected.get("packets", 1))) > 0
    assert all(world.probe_error(number) is None for number in world.brokers)
    wait_until(lambda: _isr_is_full(world), limit_s=60, what="the ISR to be full again")


def test_a_lagging_follower_stays_in_the_isr_and_holds_the_high_watermark(world: World) -> None:
    """Within the ISR it trails by about what was asked for, for as long as the fault lasts."""
    steps = [{"lag": {"node": "follower of orders-0", "records": 500}}, {"hold": "8s"}]

    seen = _detail(_run(world, "lag for long", steps), "healed")

    assert int(str(seen["lag_median"])) > 200
    view = world.partition_view(world.partitions[0])
    assert view is not None
    assert len(view.isr) == 3


def test_a_wait_that_runs_out_is_recorded_and_the_phase_goes_on(world: World) -> None:
    """The leader does not change by itself; the step after the wait runs all the same."""
    steps = [{"wait": {"for": {"leader_changed": "orders"}, "limit": "1s"}}, {"hold": "10ms"}]

    kinds = [(event.kind, event.step) for event in _run(world, "waits in vain", steps)]

    assert kinds == [("step", "wait"), ("wait_ran_out", "wait"), ("step", "hold")]
