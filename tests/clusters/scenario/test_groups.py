"""The consumer group of a load."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from clusters.scenario.groups import Group, ShareGroup
from tests.clusters.fakes import scenario


def with_group(steps: list[dict[str, Any]], **group: Any) -> Any:
    """Return a scenario with a group that reads six partitions."""
    topics = {"orders": {"partitions": 6, "replicas": ["A", "B", "C"]}}
    return scenario(steps, topics=topics, load={"topic": "orders", "group": group})


def test_members_are_targets_of_what_acts_on_a_process() -> None:
    """Members are targets of steps that act on processes."""
    for step in ("pause", "kill", "stop"):
        told = with_group([{step: "member 3"}])
        assert [(str(target), target.kind) for target in told.phases[0].steps[0].targets] == [("member 3", "member")]
    assert str(with_group([{"restart": "members"}]).phases[0].steps[0].targets[0]) == "members"


@pytest.mark.parametrize(
    ("steps", "group", "why"),
    [
        ([{"kill": "member 4"}], {}, "there is no member 4; the group has 3 members"),
        ([{"hold": "1s"}], {"members": 7}, "7 members for the 6 partitions of orders"),
        ([{"upgrade": {"node": "members", "kafka": "4.0.0"}}], {}, "cannot be aimed at members; name a broker"),
        ([{"wait": {"for": {"in_isr": "member 1"}}}], {}, "cannot be aimed at member 1"),
        ([{"restart": {"node": "members", "with": {"a": "b"}}}], {}, "a member takes no settings of brokers"),
        ([{"hold": "1s"}], {"assignor": "uniform"}, "assignor 'uniform' is not of protocol classic"),
        ([{"hold": "1s"}], {"protocol": "consumer", "assignor": "roundrobin"}, "known: range, uniform"),
        (
            [{"hold": "1s"}],
            {"protocol": "share", "commit": "ahead"},
            "unknown field 'commit'; known: protocol, members",
        ),
        ([{"hold": "1s"}], {"protocol": "share", "delivery_limit": 11}, "delivery_limit: .* less than or equal to 10"),
        ([{"hold": "1s"}], {"protocol": "share", "lock": "500ms"}, "lock: .* greater than or equal to 1"),
        ([{"kill": "member 4"}], {"protocol": "share"}, "there is no member 4; the group has 3 members"),
        ([{"hold": "1s"}], {"protocol": "pull"}, "protocol: "),
    ],
)
def test_what_a_group_cannot_have_is_refused(steps: list[dict[str, Any]], group: dict[str, Any], why: str) -> None:
    """A group or a step that is impossible for members is rejected with the remedy."""
    with pytest.raises(ValidationError, match=why):
        with_group(steps, **group)


def test_members_need_a_group() -> None:
    """Without a group, a step on members is rejected."""
    with pytest.raises(ValidationError, match="there is no members"):
        scenario([{"kill": "members"}], load={"topic": "orders"})


@pytest.mark.parametrize(("version", "mode", "can"), [("4.0.0", "kraft", True), ("3.9.1", "kraft", False)])
def test_kip_848_needs_a_version_that_has_it(version: str, mode: str, can: bool) -> None:
    """KIP-848 needs Kafka 4.0; the classic protocol needs no version."""
    assert (Group(protocol="consumer").unknown_to(version, mode) is None) == can
    assert Group().unknown_to(version, mode) is None


def test_brokers_permit_the_session_time_out() -> None:
    """The brokers are configured for the session time-out; for KIP-848 they set it."""
    assert Group(session_timeout=4).broker_settings(3) == {"group.min.session.timeout.ms": "4000"}
    of_brokers = Group(protocol="consumer", session_timeout=6).broker_settings(3)
    assert of_brokers["group.consumer.session.timeout.ms"] == "6000"
    assert of_brokers["group.consumer.heartbeat.interval.ms"] == "1000"


def test_a_share_group_may_have_more_members_than_partitions() -> None:
    """A share group may have more members than partitions, and survives the round trip through JSON."""
    told = with_group([{"kill": "member 8"}], protocol="share", members=8, lock="2s")
    assert isinstance(told.group, ShareGroup)
    assert told.group.lock == 2.0
    assert type(told).model_validate_json(told.model_dump_json()) == told


@pytest.mark.parametrize(
    ("version", "mode", "can"),
    [("4.2.0", "kraft", True), ("4.1.2", "kraft", False), ("4.2", "kraft", True), ("3.9.1", "zookeeper", False)],
)
def test_a_share_group_needs_a_version_in_which_it_is_ready(version: str, mode: str, can: bool) -> None:
    """A share group needs Kafka 4.2; 4.1 has a preview."""
    why = ShareGroup(protocol="share").unknown_to(version, mode)
    assert why is None if can else why and "needs Kafka 4.2 or newer" in why


@pytest.mark.parametrize(("brokers", "replicas", "min_isr"), [(1, "1", "1"), (2, "2", "2"), (5, "3", "2")])
def test_brokers_are_told_of_locks_and_of_the_topic_of_the_groups_state(
    brokers: int, replicas: str, min_isr: str
) -> None:
    """Brokers get the lock duration, and a state topic with at most three replicas."""
    told = ShareGroup(protocol="share", lock=2, delivery_limit=3).broker_settings(brokers)
    assert told["group.share.record.lock.duration.ms"] == told["group.share.min.record.lock.duration.ms"] == "2000"
    assert told["group.share.delivery.count.limit"] == "3"
    assert told["share.coordinator.state.topic.replication.factor"] == replicas
    assert told["share.coordinator.state.topic.min.isr"] == min_isr


def test_a_share_group_reads_from_the_beginning() -> None:
    """A share group reads from the beginning, with the isolation level of the load's readers."""
    assert ShareGroup(protocol="share").group_settings("read_committed") == {
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
    }
