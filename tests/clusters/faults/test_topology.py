"""Reassignment, leadership, deletion and settings, on a fake cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from clusters.faults import phase, topology
from clusters.faults.phase import PhaseRun
from history.errors import HarnessError
from history.partition import TopicPartition
from tests.clusters.fakes import T0, FakeWorld, scenario

STATIC = {"min.insync.replicas": "1", "flush.ms": None, "follower.replication.throttled.rate": None}


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeWorld:
    """Three brokers that apply every request at once; settings are in ``world.settings``."""
    world = FakeWorld(tmp_path, scenario([{"hold": 1}], topics={"orders": {"replicas": ["A", "B", "C"]}}))
    asked: Any = world
    asked.settings, asked.deaf = {}, False

    def reassign(_connection: object, to: Mapping[TopicPartition, list[int]]) -> None:
        world.reports.order = [1, 2, 3] if asked.deaf else to[T0]

    def elect(_connection: object, _partitions: object) -> None:
        if world.reports.order and world.reports.leads != world.reports.order[0]:
            world.reports.leads, world.reports.epoch = world.reports.order[0], world.reports.epoch + 1

    def alter(_connection: object, resource: str, name: str, config: dict[str, str | None]) -> None:
        if not asked.deaf:
            asked.settings |= {(resource, name, key): value for key, value in config.items()}

    def described(_connection: object, resource: str, name: str, keys: list[str]) -> dict[str, dict[str, str]]:
        told = {key: {"own": asked.settings.get((resource, name, key)), "default": STATIC.get(key)} for key in keys}
        return {key: {source: value for source, value in said.items() if value} for key, said in told.items()}

    def delete(_connection: object, _partition: TopicPartition, before: int) -> int:
        start = 400 if before == -1 else before
        world.reports.starts |= {} if asked.deaf else dict.fromkeys(world.servers.running(), start)
        return start

    for name, played in (
        ("reassign", reassign),
        ("elect_preferred", elect),
        ("alter_config", alter),
        ("describe_config", described),
        ("delete_records", delete),
    ):
        monkeypatch.setattr(topology.admin, name, played)
    monkeypatch.setattr(topology, "LIMIT_S", 0.05)
    monkeypatch.setattr(phase, "capture_offsets", lambda _world, _label: None)
    monkeypatch.setattr(phase, "LEADER_LIMIT_S", 0.0)
    return world


def run(world: Any, *told: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run one phase with these steps; return the detail of the first fault's effect and recovery."""
    played = scenario(list(told), topics=world.scenario.model_dump()["topics"])
    PhaseRun(world, played.phases[0]).run()
    return tuple(dict(world.seen(kind)[0].detail) for kind in ("injected", "healed"))  # type: ignore[return-value]  # two


def test_a_topic_is_moved_and_moved_back(cluster: FakeWorld) -> None:
    """``reassign`` moves the topic and moves it back; targets in between use the new replicas."""
    reassign = {"reassign": {"topic": "orders", "to": ["C", "B"], "limit": "1ms"}}
    injected, healed = run(cluster, reassign, {"pause": "replicas of orders-0"})

    assert injected == {"effect_verified": True, "replicas": {"orders-0": [3, 2]}}
    assert healed == {"recovery_verified": True, "probe": "answers"}  # the pause is healed first
    assert cluster.seen("inject")[1].target == "broker-3, broker-2"
    assert cluster.seen("healed")[1].detail == {"recovery_verified": True, "replicas": {"orders-0": [1, 2, 3]}}
    assert cluster.replicas(T0) == [1, 2, 3]


def test_a_move_that_does_not_end_took_no_effect(cluster: Any) -> None:
    """A reassignment that does not end took no effect; the reason has the metadata that was last seen."""
    cluster.deaf = True
    injected, healed = run(cluster, {"reassign": {"topic": "orders", "to": ["C"], "limit": "1ms"}})

    assert injected["effect_verified"] is False
    assert injected["why"].endswith("alone; last seen: wanted on [3], orders-0: leader 1 epoch 1 ISR [1, 2, 3].")
    assert healed["recovery_verified"] is True


def test_leadership_goes_to_and_fro_and_comes_back(cluster: FakeWorld) -> None:
    """``churn_leadership`` starts with the broker that does not lead; each move has a new epoch; healing undoes it."""
    injected, healed = run(cluster, {"churn_leadership": {"partition": "orders-0", "between": ["A", "C"], "times": 3}})

    assert injected == {"effect_verified": True, "led": [3, 1, 3], "epochs": [1, 4]}
    assert healed == {"recovery_verified": True, "leader": 1, "replicas": [1, 2, 3]}
    assert (cluster.reports.leads, cluster.reports.order) == (1, [1, 2, 3])


def test_leadership_that_does_not_move_took_no_effect(cluster: Any) -> None:
    """If leadership does not move, the fault took no effect."""
    cluster.deaf = True
    injected, _ = run(cluster, {"churn_leadership": {"partition": "orders-0", "between": ["A", "C"], "times": 3}})

    assert injected["effect_verified"] is False
    assert "broker 3 to lead orders-0" in injected["why"]


@pytest.mark.parametrize(("before", "start"), [(70, 70), ("high_watermark", 400)])
def test_deleted_records_move_every_log_start(cluster: FakeWorld, before: object, start: int) -> None:
    """``delete_records`` is proven by the log start offset of every replica in sync."""
    injected, healed = run(cluster, {"delete_records": {"partition": "orders-0", "before": before}})

    starts = {"1": start, "2": start, "3": start}
    assert injected == {"effect_verified": True, "partition": "orders-0", "deleted_before": start, "log_starts": starts}
    assert healed == {"recovery_verified": True, "log_starts": starts}


def test_a_deletion_that_a_follower_does_not_follow_took_no_effect(cluster: Any) -> None:
    """If one replica keeps a lower log start offset, the deletion took no effect."""
    cluster.deaf, cluster.reports.starts = True, {1: 70, 2: 70, 3: 69}
    injected, _ = run(cluster, {"delete_records": {"partition": "orders-0", "before": 70}})

    assert injected["effect_verified"] is False


def test_a_topic_setting_is_changed_and_taken_back(cluster: Any) -> None:
    """``configure`` sets a topic's settings and restores them: the topic's own value returns, others are deleted."""
    told = {"orders": {"replicas": ["A", "B", "C"], "config": {"min.insync.replicas": 2}}}
    cluster.replan(scenario=scenario([{"hold": 1}], topics=told))
    cluster.settings = {("topic", "orders", "min.insync.replicas"): "2"}
    change = {"min.insync.replicas": 1, "flush.ms": 5}
    injected, healed = run(cluster, {"configure": {"topic": "orders", "set": change}})

    assert injected["set"] == [["topic", "orders", {name: str(value) for name, value in change.items()}]]
    assert healed["set"] == [["topic", "orders", {"min.insync.replicas": "2", "flush.ms": None}]]
    assert cluster.settings["topic", "orders", "min.insync.replicas"] == "2"


def test_a_setting_that_is_not_taken_took_no_effect(cluster: Any) -> None:
    """If the brokers do not report the new setting, it took no effect; the reason has the values that they report."""
    cluster.deaf = True
    injected, healed = run(cluster, {"configure": {"broker": "B", "set": {"log.retention.ms": 5}}})

    assert injected["effect_verified"] is False
    assert "broker 2 to have {'log.retention.ms': '5'} everywhere; last seen: {2: " in injected["why"]
    assert healed["recovery_verified"] is True
    assert [event.target for event in cluster.seen("inject")] == ["broker-2"]


def test_a_throttle_is_the_followers_own(cluster: Any) -> None:
    """A throttle sets the follower's rate on its broker and its replicas on every topic."""
    injected, _ = run(cluster, {"throttle": {"node": "C", "rate": "10kB/s"}})

    assert injected["set"] == [
        ["broker", "3", {"follower.replication.throttled.rate": "10000"}],
        ["topic", "orders", {"follower.replication.throttled.replicas": "0:3"}],
    ]


@pytest.mark.parametrize(
    ("first", "second", "setting"),
    [
        (
            {"throttle": {"node": "B", "rate": "10kB/s"}},
            {"throttle": {"node": "C", "rate": "10kB/s"}},
            "follower.replication.throttled.replicas of topic orders",
        ),
        (
            {"configure": {"topic": "orders", "set": {"retention.ms": 1000}}},
            {"configure": {"topic": "orders", "set": {"segment.ms": 5, "retention.ms": 2000}}},
            "retention.ms of topic orders",
        ),
        (
            {"configure": {"broker": "C", "set": {"follower.replication.throttled.rate": 1}}},
            {"throttle": {"node": "C", "rate": "10kB/s"}},
            "follower.replication.throttled.rate of broker 3",
        ),
    ],
)
def test_a_setting_that_an_active_fault_changed_is_not_changed_again(
    cluster: Any, first: dict[str, Any], second: dict[str, Any], setting: str
) -> None:
    """A setting that an active fault changed cannot be changed again until that fault is healed."""
    with pytest.raises(HarnessError, match=f"{setting} is changed by a fault that is active; end that first"):
        run(cluster, first, second)
    assert [event.detail["recovery_verified"] for event in cluster.seen("healed")] == [True]

    run(cluster, first, {"heal": "all"}, second)
    assert [event.detail["recovery_verified"] for event in cluster.seen("healed")] == [True] * 3


def test_other_settings_are_changed_beside_each_other(cluster: Any) -> None:
    """Settings of different brokers, different topics, or different names can be changed at the same time."""
    changes = [("broker", node, "log.retention.ms") for node in "BC"]
    changes += [("topic", "orders", setting) for setting in ("retention.ms", "segment.ms")]
    run(cluster, *({"configure": {resource: name, "set": {setting: 1}}} for resource, name, setting in changes))

    assert [event.detail["effect_verified"] for event in cluster.seen("injected")] == [True] * 4
    assert [event.detail["recovery_verified"] for event in cluster.seen("healed")] == [True] * 4


def test_nobody_is_asked_while_nobody_answers(cluster: FakeWorld) -> None:
    """A step that needs a broker's answer is an error while all brokers are down."""
    told = {"configure": {"topic": "orders", "set": {"retention.ms": 1}}}
    with pytest.raises(HarnessError, match=r"No broker answers to apply .*; start one first"):
        run(cluster, {"kill": "brokers"}, told)


def test_leadership_that_does_not_come_back_at_once_is_waited_for(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restoring leadership is retried: the first replica may not be in sync yet, or the connection may break."""
    elect, failures = topology.admin.elect_preferred, [HarnessError("PREFERRED_LEADER_NOT_AVAILABLE"), OSError("reset")]

    def unwilling(connection: Any, partitions: Any) -> None:
        if len(cluster.seen("injected")) and failures:
            raise failures.pop()
        elect(connection, partitions)

    monkeypatch.setattr(topology.admin, "elect_preferred", unwilling)
    monkeypatch.setattr(topology, "LIMIT_S", 5.0)
    _, healed = run(cluster, {"churn_leadership": {"partition": "orders-0", "between": ["A", "C"], "times": 3}})

    assert failures == []
    assert healed == {"recovery_verified": True, "leader": 1, "replicas": [1, 2, 3]}


def test_a_setting_that_could_not_be_taken_back_is_tried_again(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that could not be restored is retried at the end of its phase."""
    ask, failures = cluster.reports.ask, [HarnessError("No broker answers that could be asked for this")]

    def unreachable(what: Any) -> Any:
        if cluster.seen("heal") and failures:
            raise failures.pop()
        return ask(what)

    monkeypatch.setattr(cluster.reports, "ask", unreachable)
    told = {"configure": {"topic": "orders", "set": {"min.insync.replicas": 2}}}
    with pytest.raises(HarnessError, match="No broker answers"):
        run(cluster, told, {"heal": "all"})

    assert [event.kind for event in cluster.seen("heal", "healed")] == ["heal", "heal", "healed"]
    assert cluster.settings["topic", "orders", "min.insync.replicas"] is None
