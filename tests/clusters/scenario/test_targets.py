"""Targets of steps, and their refusals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.scenario.scenario import (
    Cluster,
    Scenario,
    Topic,
)
from clusters.scenario.steps.catalog import STEPS
from clusters.scenario.targets import Target
from history.partition import TopicPartition
from tests.clusters.scenario.plain import one_phase, refusal


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("leader of orders-0", Target(role="leader", of=TopicPartition("orders", 0))),
        ("preferred leader of a-b.c-12", Target(role="preferred leader", of=TopicPartition("a-b.c", 12))),
        ("controller", Target(role="controller")),
        ("active controller", Target(role="active controller")),
        ("controllers", Target(role="controllers")),
        ("random broker", Target(role="random")),
        ("uninvolved broker of orders-0", Target(role="uninvolved broker", of=TopicPartition("orders", 0))),
        ("B", Target(role="named", name="B")),
    ],
)
def test_a_target_is_read_and_printed_alike(text: str, target: Target) -> None:
    """A target is printed in the text of the scenario, for events and pages."""
    step: Any = STEPS["kill"].model_validate(text)

    assert step.node == target
    assert str(target) == text


@pytest.mark.parametrize("text", ["leader", "leader of orders", "Leader of orders-0", "b", "AB", "broker 1", ""])
def test_what_is_no_target_is_refused_with_those_that_are(text: str) -> None:
    """An invalid target is rejected with the list of valid roles."""
    said = refusal(one_phase({"kill": text}))

    assert (
        f"{text!r} is not a target; use leader|follower|followers|uninvolved broker|preferred leader|replicas of"
        in said
    )


@given(st.permutations("ABCD"), st.integers(1, 4), st.integers(1, 12))
def test_partitions_take_turns_at_leading(order: list[str], factor: int, partitions: int) -> None:
    """All partitions have the same brokers, and their preferred leaders rotate in the topic's order."""
    ids = Cluster(brokers=4).broker_ids
    told = [ids[letter] for letter in order[:factor]]
    assignment = Topic(partitions=partitions, replicas=order[:factor]).assignment(ids)

    assert list(assignment) == list(range(partitions))
    assert assignment[0] == told
    assert all(sorted(replicas) == sorted(told) for replicas in assignment.values())
    assert [replicas[0] for replicas in assignment.values()] == [told[p % factor] for p in range(partitions)]


def test_letters_are_broker_ids_from_one() -> None:
    """Brokers A to Z have the ids 1 to 26."""
    ids = Cluster(brokers=26).broker_ids

    assert (ids["A"], ids["Z"], len(ids)) == (1, 26, 26)


@pytest.mark.parametrize(
    ("step", "aims"),
    [
        ({"kill": "controller"}, True),
        ({"wait": {"for": {"out_of_isr": "controller"}}}, True),
        ({"kill": "leader of orders-0"}, False),
    ],
)
def test_aiming_at_the_controller_is_known_beforehand(step: dict[str, Any], aims: bool) -> None:
    """A scenario that targets the controller in a step or condition is recognised in advance."""
    assert Scenario.model_validate(one_phase(step)).aims_at_controller is aims


def test_every_partition_that_a_step_names_is_checked() -> None:
    """Every partition that a step names must exist, in targets and in conditions."""
    slow = {"node": "follower of orders-9", "until": {"out_of_isr": "follower of orders-0"}}

    assert "there is no partition orders-9" in refusal(one_phase({"slow": slow}))


def test_a_bystander_needs_a_third_replica() -> None:
    """``uninvolved broker`` needs three replicas: one of two may be the controller."""
    told = {**one_phase({"kill": "uninvolved broker of orders-0"}), "topics": {"orders": {"replicas": ["A", "B"]}}}

    assert "step kill: orders-0 needs three replicas" in refusal(told)
    assert Scenario.model_validate({**told, "topics": {"orders": {"replicas": ["A", "B", "C"]}}})


def test_a_partition_with_one_replica_has_no_follower() -> None:
    """A fault on the follower of a partition with one replica is rejected; on its leader it is accepted."""
    told = {**one_phase({"kill": "follower of orders-0"}), "topics": {"orders": {"replicas": ["A"]}}}

    assert "step kill: orders-0 has one replica, so it has no follower" in refusal(told)
    assert Scenario.model_validate({**told, "phases": [{"one": [{"kill": "leader of orders-0"}]}]})
