"""The consumer group of a load."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from clusters.scenario.groups import Group
from tests.clusters.fakes import scenario


def with_group(steps: list[dict[str, Any]], **group: Any) -> Any:
    """Six partitions that a group reads."""
    topics = {"orders": {"partitions": 6, "replicas": ["A", "B", "C"]}}
    return scenario(steps, topics=topics, load={"topic": "orders", "group": group})


def test_members_are_targets_of_what_acts_on_a_process() -> None:
    """Members that there are, and steps that a member can bear."""
    for step in ("pause", "kill", "stop"):
        told = with_group([{step: "member 3"}])
        assert [(str(target), target.of_members) for target in told.phases[0].steps[0].targets] == [("member 3", True)]
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
    ],
)
def test_what_a_group_cannot_have_is_refused(steps: list[dict[str, Any]], group: dict[str, Any], why: str) -> None:
    """In a sentence that says what to do."""
    with pytest.raises(ValidationError, match=why):
        with_group(steps, **group)


def test_members_need_a_group() -> None:
    """A load alone has no members."""
    with pytest.raises(ValidationError, match="there is no members"):
        scenario([{"kill": "members"}], load={"topic": "orders"})


@pytest.mark.parametrize(("version", "mode", "can"), [("4.0.0", "kraft", True), ("3.9.1", "kraft", False)])
def test_kip_848_needs_a_version_that_has_it(version: str, mode: str, can: bool) -> None:
    """The classic protocol needs nothing."""
    assert (Group(protocol="consumer").unknown_to(version, mode) is None) == can
    assert Group().unknown_to(version, mode) is None


def test_brokers_permit_the_session_time_out() -> None:
    """A KIP-848 group has it from them alone."""
    assert Group(session_timeout=4).broker_settings() == {"group.min.session.timeout.ms": "4000"}
    of_brokers = Group(protocol="consumer", session_timeout=6).broker_settings()
    assert of_brokers["group.consumer.session.timeout.ms"] == "6000"
    assert of_brokers["group.consumer.heartbeat.interval.ms"] == "1000"
