"""Scenarios are fitted to clusters that somebody else runs."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from clusters.attached.cluster_file import Caps
from clusters.attached.fit import fitted, not_applied, over_caps, own_names
from clusters.scenario.scenario import Scenario, load_scenario, scenario_names

THREE = {4: "east", 7: "west", 5: None}
SETTINGS = {"replica.lag.time.max.ms": "5000"}


def scenario(**change: Any) -> Scenario:
    """Return a scenario of two topics, one of which ends in a number."""
    return Scenario.model_validate(
        {
            "name": "s",
            "why": "Kill the leader of orders.",
            "cluster": {
                "brokers": 3,
                "config": {"replica.lag.time.max.ms": "5000"},
                "jvm": "production",
                "session_timeout": "4s",
            },
            "topics": {"orders": {"replicas": ["A", "B", "C"]}, "orders-1": {"replicas": ["B"]}},
            "load": {"topic": "orders", "rate": 100, "record_bytes": 1000},
            "phases": [
                {"orders": [{"kill": "leader of orders-0"}, {"wait": {"for": {"leader_changed": "orders-1-0"}}}]},
                {"rest": [{"wait": {"for": {"isr_full": "orders"}, "limit": "10s"}}]},
            ],
            **change,
        }
    )


NAMES = {"orders": "p-orders-5a3e", "orders-1": "p-orders-1-5a3e"}


def test_letters_are_the_brokers_in_the_order_of_their_ids() -> None:
    """A is the lowest id; brokers that the scenario does not mention have letters, too."""
    found = fitted(scenario(), {**THREE, 9: None}, NAMES)
    assert found.cluster.broker_ids == {"A": 4, "B": 5, "C": 7, "D": 9}
    assert found.topics["p-orders-5a3e"].assignment(found.cluster.broker_ids) == {0: [4, 5, 7]}


def test_topics_are_renamed_wherever_a_step_or_a_load_names_them() -> None:
    """orders-1 is a topic of its own here, so orders-1-0 is its partition; names of phases stay."""
    found = fitted(scenario(), THREE, NAMES)
    assert list(found.topics) == ["p-orders-5a3e", "p-orders-1-5a3e"]
    assert found.load
    assert found.load.topic == "p-orders-5a3e"
    assert [phase.name for phase in found.phases] == ["orders", "rest"]
    assert [str(step) for step in found.steps] == [
        "kill node leader of p-orders-5a3e-0",
        "wait for leader changed: p-orders-1-5a3e-0, limit 30.0",
        "wait for isr full: p-orders-5a3e, limit 10.0",
    ]


def test_settings_of_the_cluster_are_its_owners() -> None:
    """No setting of the scenario's brokers remains, and each that differs is named."""
    plan = scenario()
    assert fitted(plan, THREE, NAMES).cluster.config == {}
    assert list(not_applied(plan, {4: {"replica.lag.time.max.ms": "30000"}, 5: {}})) == [
        "cluster.session_timeout is not applied",
        "cluster.jvm is not applied",
        "cluster.config.replica.lag.time.max.ms=5000 is not applied; the brokers have 30000, unknown",
    ]
    assert list(not_applied(scenario(cluster={"brokers": 3}), {4: {}})) == []


def test_racks_are_the_clusters_where_each_broker_has_one() -> None:
    """One broker without a rack: none is known."""
    assert fitted(scenario(), THREE, NAMES).cluster.racks == {}
    found = fitted(scenario(), THREE | {5: "west"}, NAMES)
    assert found.cluster.racks == {"A": "east", "B": "west", "C": "west"}


def test_too_few_brokers_are_an_error() -> None:
    """The topic has three replicas."""
    with pytest.raises(ValidationError, match="replication factor 3, above 2 brokers"):
        fitted(scenario(), {1: None, 2: None}, NAMES)


def test_each_shipped_scenario_keeps_its_steps() -> None:
    """Only names of topics differ."""
    for name in scenario_names():
        plan = load_scenario(name)
        if plan.cluster.disks or plan.cluster.racks:
            continue
        names = own_names(list(plan.topics), "plimsoll-", "5a3e")
        found = fitted(plan, dict.fromkeys(plan.cluster.broker_ids.values()), names)
        back = [str(step).replace("plimsoll-", "").replace("-5a3e", "") for step in found.steps]
        assert back == [str(step) for step in plan.steps]


def test_each_cap_is_named_once_it_is_exceeded() -> None:
    """A scenario that just fits, and one limit after the other that does not."""
    plan = scenario()
    fits = {"rate": 100_000, "partitions": 2, "bytes": 10**9, "duration": 3600}
    assert list(over_caps(plan, Caps.model_validate(fits))) == []
    wrong = [
        ("rate", 99_000, "its load of 0.1 MB/s is above caps.rate of 0.1 MB/s"),
        ("partitions", 1, "its 2 partitions are above caps.partitions of 1"),
        ("bytes", 1000, "in all replicas are above caps.bytes of 0.0 MB"),
        ("duration", 60, "above caps.duration of 60 s"),
    ]
    for name, least, sentence in wrong:
        (said,) = over_caps(plan, Caps.model_validate(fits | {name: least}))
        assert sentence in said
