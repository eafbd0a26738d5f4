"""Faults of a broker's process, on a fake world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.faults import processes
from clusters.faults.processes import Ended, Killed, Paused, Stopped
from history.errors import HarnessError, WaitTimeout
from tests.clusters.fakes import FakeWorld, scenario


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Three running brokers; waits time out at once."""
    monkeypatch.setattr(processes, "LIMIT_S", 0.0)
    return FakeWorld(tmp_path, scenario([{"hold": 1}], cluster={"brokers": 3, "session_timeout": "1ms"}))


@pytest.mark.parametrize(("fault", "signal"), [(Killed, "SIGKILL"), (Stopped, "SIGTERM")])
def test_an_ended_broker_refuses_and_comes_back(
    world: Any, monkeypatch: pytest.MonkeyPatch, fault: type[Ended], signal: str
) -> None:
    """Kill and stop send their signal; the proof is a refused connection, and after the start a registered broker."""
    sent: list[str] = []
    kill = world.runtime.kill
    monkeypatch.setattr(world.runtime, "kill", lambda name, given: (sent.append(given), kill(name, given)))
    ended = fault(world, [world.servers.brokers[1], world.servers.brokers[2]])

    ended.inject()
    assert sent == [signal, signal]
    assert ended.verify_injected() == {"probe": "connection refused"}
    ended.heal()
    assert ended.verify_cleared() == {"probe": "answers", "registered": True}
    assert world.runtime.started == ["broker-1", "broker-2"]


def test_a_paused_broker_is_silent_and_runs_on(world: Any) -> None:
    """A paused broker times out and answers again after it is resumed."""
    paused = Paused(world, [world.servers.brokers[2]])

    paused.inject()
    assert paused.verify_injected() == {"probe": "timeout"}
    paused.heal()
    assert paused.verify_cleared() == {"probe": "answers"}


def test_who_was_killed_while_paused_is_not_waited_for(world: Any) -> None:
    """A broker that was killed while paused is not waited for on resume; one that died by itself is."""
    both = [world.servers.brokers[1], world.servers.brokers[2]]
    paused, killed = Paused(world, both), Killed(world, [world.servers.brokers[1], world.servers.brokers[3]])
    paused.inject()
    killed.inject()
    paused.note_ended(killed.nodes)
    paused.heal()
    assert paused.verify_cleared() == {"probe": "answers", "ended": ["broker-1"]}

    died = Paused(world, both)
    died.inject()
    with pytest.raises(WaitTimeout, match="for broker-1 to answer again"):
        died.verify_cleared()


@pytest.mark.parametrize("fault", [Killed, Stopped, Paused])
def test_a_fault_without_effect_has_no_proof(world: Any, fault: Any) -> None:
    """If one of two brokers still runs, the fault is not verified, and the error names it with its state."""
    world.runtime.stubborn.add("broker-2")
    on_both = fault(world, [world.servers.brokers[1], world.servers.brokers[2]])
    on_both.inject()

    with pytest.raises(WaitTimeout, match=r"for broker-2 to .*; last seen: broker-2 is running"):
        on_both.verify_injected()


def test_a_pause_is_no_kill(world: Any) -> None:
    """A pause is no proof of a kill, and a kill is no proof of a pause."""
    killed, paused = Killed(world, [world.servers.brokers[1]]), Paused(world, [world.servers.brokers[2]])
    paused.inject()
    killed.inject()

    with pytest.raises(WaitTimeout):
        Killed(world, [world.servers.brokers[2]]).verify_injected()
    with pytest.raises(WaitTimeout):
        Paused(world, [world.servers.brokers[1]]).verify_injected()


def test_a_session_that_does_not_end_is_no_reason_not_to_start(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In ZooKeeper mode healing waits for the session to end, and starts the broker even if it does not."""
    waits: list[str] = []

    def runs_out(_condition: object, *, what: str, **_: object) -> None:
        waits.append(what)
        if "session" in what:
            raise WaitTimeout(what)

    world.replan(cluster=world.plan.cluster.model_copy(update={"mode": "zookeeper"}))
    killed = Killed(world, [world.servers.brokers[1]])
    killed.inject()
    monkeypatch.setattr(processes, "wait_until", runs_out)
    killed.heal()

    assert waits == ["broker-1 to end by itself", "the session of broker-1 to end"]
    assert world.runtime.started == ["broker-1"]


def test_a_broker_alone_need_not_be_registered_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cluster of one broker, recovery needs no other broker that sees it registered."""
    monkeypatch.setattr(processes, "LIMIT_S", 0.0)
    played = scenario([{"hold": 1}], cluster={"brokers": 1}, topics={"orders": {"replicas": ["A"]}})
    world: Any = FakeWorld(tmp_path, played)
    monkeypatch.setattr(world.reports, "registered", lambda _: False)
    killed = Killed(world, [world.servers.brokers[1]])
    killed.inject()
    killed.heal()

    assert killed.verify_cleared()["registered"] is True


def test_a_broker_is_started_once_it_has_ended(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker is started only once its process has exited; its port refuses connections earlier."""
    stopped = Stopped(world, [world.servers.brokers[1]])
    stopped.inject()
    seen: list[str] = []
    states = iter(["running", "running", "exited"])
    monkeypatch.setattr(processes, "LIMIT_S", 5.0)
    monkeypatch.setattr(world.runtime, "state", lambda _: (seen.append(next(states)), seen[-1])[1])
    monkeypatch.setattr(world, "start", lambda node: seen.append(f"start {node.name}"))
    stopped.heal()

    assert seen == ["running", "running", "exited", "start broker-1"]


def test_a_broker_that_does_not_end_is_killed(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not exit on SIGTERM is killed, and the evidence lists it."""
    sent: list[str] = []

    def kill(name: str, signal: str) -> None:
        sent.append(signal)
        world.runtime.states[name] = "exited" if signal == "SIGKILL" else "running"

    monkeypatch.setattr(world.runtime, "kill", kill)
    stopped = Stopped(world, [world.servers.brokers[1]])
    stopped.inject()
    stopped.heal()

    assert sent == ["SIGTERM", "SIGKILL"]
    assert stopped.verify_cleared() == {"probe": "answers", "registered": True, "killed": ["broker-1"]}


def test_only_what_a_fault_ended_is_started(world: Any) -> None:
    """Healing starts only brokers that this fault ended and that are still down."""
    one, several = (
        Killed(world, [world.servers.brokers[1]]),
        Killed(world, [world.servers.brokers[n] for n in (2, 1, 3)]),
    )
    one.inject()
    with pytest.raises(HarnessError, match="broker-1 cannot be sent SIGKILL"):
        several.inject()

    several.heal()
    assert world.runtime.started == ["broker-2"]
    one.heal()
    one.heal()
    assert world.runtime.started == ["broker-2", "broker-1"]


def test_a_broker_that_dies_coming_back_is_recorded_and_started_again(world: Any) -> None:
    """A broker that dies during its restart is recorded with its log's last lines and started again."""
    killed, start = Killed(world, [world.servers.brokers[1]]), world.start
    (world.servers.brokers[1].folder / "server.log").write_text(
        "[main] ERROR kafka - NodeExists\n[main] INFO kafka - bye\n"
    )

    def dies_once(node: Any) -> None:
        start(node)
        if world.runtime.started == ["broker-1"]:
            world.runtime.states["broker-1"], world.runtime.statuses["broker-1"] = "exited", 1

    world.start = dies_once
    killed.inject()
    killed.heal()
    proof = killed.verify_cleared()

    assert world.runtime.started == ["broker-1", "broker-1"]
    assert proof == {"probe": "answers", "registered": True, "died_coming_back": ["broker-1"]}
    (exited,) = world.seen("server_exited")
    assert (exited.target, exited.detail["incarnation"], exited.detail["exit_status"]) == ("broker-1", 2, 1)
    assert exited.detail["log"][0].endswith("NodeExists")
