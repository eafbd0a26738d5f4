"""The scenario language."""

from __future__ import annotations

import copy
import json
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from clusters.paths import ROOT
from clusters.scenario.scenario import (
    Cluster,
    Load,
    Scenario,
    Topic,
    load_scenario,
    merge_patch,
    parse_scenario,
    scenario_names,
)
from clusters.scenario.steps.catalog import STEPS
from clusters.scenario.targets import Target
from clusters.scenario.values import Model, PerSecond, Seconds
from history.errors import BadInput
from history.partition import TopicPartition


class Measured(BaseModel):
    """A model with a duration and a rate."""

    duration: Seconds = 1
    rate: PerSecond = 1


def plain(**change: Any) -> dict[str, Any]:
    """Return a small valid scenario as YAML gives it, with these fields changed."""
    sound: dict[str, Any] = {
        "name": "small",
        "why": "A sound one.",
        "cluster": {"brokers": 3},
        "topics": {"orders": {"replicas": ["A", "B", "C"]}},
        "load": {"topic": "orders"},
        "phases": [{"steady": [{"hold": "1s"}]}],
    }
    return {**sound, **change}


SMALL_DISKS = {"brokers": 3, "disks": {"A": "64MB", "B": "64MB"}}  # C has the host's


def one_phase(*steps: object) -> dict[str, Any]:
    """Return a scenario with these steps in one phase."""
    return plain(phases=[{"one": list(steps)}])


def refusal(told: object) -> str:
    """Return the message with which a scenario is rejected."""
    with pytest.raises(BadInput) as refused:
        parse_scenario(yaml.safe_dump(told), "x.yaml")
    return str(refused.value)


# --- durations and rates -----------------------------------------------------------------------


@given(st.integers(1, 10**9), st.sampled_from([("ms", 1), ("s", 1_000), ("m", 60_000)]), st.sampled_from(["", " "]))
def test_a_duration_is_its_number_of_units(count: int, unit: tuple[str, int], space: str) -> None:
    """Durations in ms, s and m are exact to the millisecond."""
    assert round(Measured(duration=f"{count}{space}{unit[0]}").duration * 1000) == count * unit[1]


@given(st.integers(1, 10**9), st.integers(0, 999))
def test_a_duration_may_have_decimals(whole: int, thousandths: int) -> None:
    """A duration may have decimals: 1.25s is 1250 ms."""
    assert round(Measured(duration=f"{whole}.{thousandths:03}s").duration * 1000) == whole * 1000 + thousandths


@given(st.integers(1, 10**9))
def test_a_rate_is_its_number(count: int) -> None:
    """A rate is the same with and without its unit."""
    assert Measured(rate=f"{count}/s").rate == count == Measured(rate=count).rate


@given(st.text(string.printable, max_size=8))
def test_a_text_is_a_positive_finite_duration_or_refused(text: str) -> None:
    """Any text is a positive finite duration or is rejected."""
    try:
        duration = Measured(duration=text).duration
    except ValidationError:
        return
    assert 0 < duration < float("inf")


@pytest.mark.parametrize("text", ["0s", "-1s", "5", "5h", "1e3s", "s", "", "nan", "inf", "9" * 400 + "s", "5 s s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """Durations that are zero, negative, infinite, without a unit or with an unknown one are rejected."""
    with pytest.raises(ValidationError):
        Measured(duration=text)


@pytest.mark.parametrize("rate", ["0/s", "-5/s", "1000", "1000/m", "nan/s", float("nan"), float("inf"), -1.0, 0])
def test_what_is_no_rate_is_refused(rate: object) -> None:
    """Rates that are zero, negative, not finite, per minute, or texts without a unit are rejected."""
    with pytest.raises(ValidationError):
        Measured(rate=rate)


# --- changes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": ["c", "d"]}, {"a": ["c", "d"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": ["b"]}, {"a": {"c": 1}}, {"a": {"c": 1}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ("no mapping", {"a": 1}, {"a": 1}),
    ],
)
def test_a_merge_patch_is_that_of_its_rfc(told: object, patch: dict[str, Any], merged: object) -> None:
    """``merge_patch`` follows the examples of RFC 7396 and does not change its input."""
    before = copy.deepcopy(told)

    assert (merge_patch(told, patch), told) == (merged, before)


# --- round trip --------------------------------------------------------------------------------

LETTERS = "ABC"
PARTITIONS = st.integers(0, 2)
SECONDS = st.floats(0.001, 1e6)
COUNT = st.integers(1, 10**6)
TARGETS = st.one_of(
    st.sampled_from(["controller", "random broker", *LETTERS]),
    st.builds(
        "{} of orders-{}".format, st.sampled_from(["leader", "follower", "followers", "preferred leader"]), PARTITIONS
    ),
)
CONDITIONS = st.one_of(
    st.fixed_dictionaries({"out_of_isr": TARGETS}),
    *(
        st.fixed_dictionaries({name: st.just("orders")})
        for name in ("isr_full", "leader_changed", "caught_up", "balanced")
    ),
)
STEP = st.one_of(
    st.fixed_dictionaries({"hold": st.one_of(SECONDS, st.fixed_dictionaries({"seconds": SECONDS}))}),
    st.fixed_dictionaries({"wait": st.fixed_dictionaries({"for": CONDITIONS}, optional={"limit": SECONDS})}),
    st.fixed_dictionaries({"lag": st.fixed_dictionaries({"node": TARGETS, "records": COUNT})}),
    st.fixed_dictionaries(
        {"slow": st.fixed_dictionaries({"node": TARGETS, "until": CONDITIONS}, optional={"limit": SECONDS})}
    ),
    *(st.fixed_dictionaries({key: TARGETS}) for key in ("pause", "resume", "kill", "stop", "start")),
    st.just({"heal": "all"}),
    st.just({"elect": "preferred"}),
    st.fixed_dictionaries(
        {
            "write": st.fixed_dictionaries(
                {"to": TARGETS, "topic": st.just("orders"), "records": COUNT},
                optional={"partition": PARTITIONS, "acks": st.sampled_from([0, 1, "all"]), "batch": COUNT},
            )
        }
    ),
)
REPLICAS = st.builds("{} of orders-{}".format, st.sampled_from(["leader", "follower", *LETTERS]), PARTITIONS)
PEERS = st.sampled_from(["clients", "controller", "B", ["A", "clients"], ["followers of orders-1", "controller"]])
BROKERS = st.sampled_from(["B", ["A", "follower of orders-2"]])
NETWORK = st.one_of(
    st.fixed_dictionaries({"disconnect": st.fixed_dictionaries({"node": TARGETS, "from": PEERS})}),
    st.fixed_dictionaries(
        {
            "disconnect": st.fixed_dictionaries(
                {"node": TARGETS, "from": BROKERS, "direction": st.sampled_from(["in", "out", "answers"])}
            )
        }
    ),
    st.fixed_dictionaries({"reconnect": st.fixed_dictionaries({"node": TARGETS, "from": PEERS})}),
    st.fixed_dictionaries(
        {
            "limit_bandwidth": st.fixed_dictionaries(
                {"into": TARGETS, "rate": st.just("1MB/s")}, optional={"from": BROKERS}
            )
        }
    ),
    st.fixed_dictionaries({"restore_bandwidth": TARGETS}),
    st.fixed_dictionaries({"delay": st.fixed_dictionaries({"into": TARGETS, "by": SECONDS})}),
    st.fixed_dictionaries({"reorder": st.fixed_dictionaries({"into": TARGETS, "percent": st.just(25)})}),
    st.fixed_dictionaries(
        {"lose": st.fixed_dictionaries({"into": TARGETS, "percent": st.floats(0.01, 99)}, optional={"from": BROKERS})}
    ),
    st.fixed_dictionaries({"transfer_leadership": REPLICAS}),
    st.fixed_dictionaries({"read": st.fixed_dictionaries({"from": REPLICAS}, optional={"offset": COUNT})}),
)
LOADS = st.fixed_dictionaries(
    {"topic": st.just("orders"), "idempotence": st.just(False)},
    optional={"rate": SECONDS, "acks": st.sampled_from([0, 1, "all"]), "linger": st.sampled_from(["5ms", 0])},
)


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Valid scenarios of every step and condition."""
    load = draw(st.none() | LOADS)
    step = STEP | NETWORK
    step = step | st.fixed_dictionaries({"set_rate": SECONDS}) if load else step
    names = draw(st.lists(st.text("abc de", min_size=1), min_size=1, max_size=3, unique=True))
    return plain(
        topics={"orders": {"partitions": 3, "replicas": list(draw(st.permutations(LETTERS)))}},
        load=load,
        phases=[{name: draw(st.lists(step, min_size=1, max_size=4))} for name in names],
    )


@settings(max_examples=60)
@given(scenarios())
def test_a_scenario_survives_being_written_out(told: dict[str, Any]) -> None:
    """A scenario read back from JSON, as in plan and manifest, is equal and has the same digest."""
    scenario = Scenario.model_validate(told)
    from_data = Scenario.model_validate(scenario.model_dump())
    from_json = Scenario.model_validate_json(scenario.model_dump_json())

    assert scenario == from_data == from_json
    assert scenario.digest == from_data.digest == from_json.digest


@pytest.mark.parametrize("name", scenario_names())
def test_scenarios_of_the_project_are_sound(name: str) -> None:
    """Each scenario of the project is valid, has its file's name, and survives the round trip through JSON."""
    scenario = load_scenario(name)

    assert scenario.name == name
    assert scenario == Scenario.model_validate_json(scenario.model_dump_json())


def test_another_setting_is_another_digest() -> None:
    """Scenarios that differ in a setting have different digests, so a comparison does not mix them."""
    one, other = (Scenario.model_validate(plain(load={"topic": "orders", "rate": rate})) for rate in (1000, 1001))

    assert one.digest != other.digest


# --- targets, assignment, derived --------------------------------------------------------------


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


def test_faults_and_needs_follow_from_the_steps() -> None:
    """A scenario's faults exclude healing and waiting steps; its needs are those of all steps."""
    told = one_phase({"pause": "A"}, {"resume": "A"}, {"disconnect": {"node": "B", "from": "clients"}}, {"hold": "1s"})
    scenario = Scenario.model_validate(told)

    assert scenario.faults == ["pause", "disconnect"]
    assert scenario.needs == {"network"}
    assert Scenario.model_validate(plain()).needs == frozenset()


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


def test_composite_steps_count_each_of_their_faults() -> None:
    """A composite step counts one fault per repetition, since the judge requires a proof of each."""
    bounce = {"bounce": {"node": "leader of orders-0", "times": 2}}
    loop = {"crash_loop": {"node": "A", "times": 3, "after": "1s"}}
    upgrade = {"upgrade": {"node": "A", "kafka": "3.9.1"}}
    told = Scenario.model_validate(
        one_phase({"restart": "A"}, bounce, loop, upgrade, {"rollback": "A"}, {"finalise": 3.9})
    )

    assert told.faults == ["stop", "stop", "stop", "kill", "kill", "kill", "stop", "stop"]


def test_a_restart_is_written_as_it_was_read() -> None:
    """A restart step survives the round trip through the plan."""
    told = Scenario.model_validate(
        one_phase({"restart": {"node": "A", "with": {"num.io.threads": 2}}}, {"restart": "B"})
    )

    assert Scenario.model_validate(told.model_dump()) == told


def test_what_older_scenarios_do_not_name_does_not_change_their_digest() -> None:
    """Fields that a scenario does not set are absent from its dump, so that older scenarios keep their digests."""
    told = Scenario.model_validate(plain())
    named = Scenario.model_validate(plain(cluster={"brokers": 3, "controllers": 3, "elr": False}))

    assert not {"controllers", "elr", "metadata_version", "security"} & told.model_dump()["cluster"].keys()
    assert {"controllers", "elr"} <= named.model_dump()["cluster"].keys()
    assert named.digest != told.digest


@pytest.mark.parametrize(("told", "version"), [(3.8, "3.8"), ("3.8-IV0", "3.8-IV0")])
def test_a_metadata_version_may_be_a_number(told: object, version: str) -> None:
    """``metadata_version`` may be a number, since YAML reads 3.8 as one."""
    scenario = Scenario.model_validate(plain(cluster={"brokers": 3, "metadata_version": told}))

    assert scenario.cluster.metadata_version == version


def test_kafka_settings_are_written_as_kafka_writes_them() -> None:
    """Kafka settings become strings as Kafka writes them: booleans in lower case, numbers, and texts unchanged."""
    config = {"unclean.leader.election.enable": True, "min.insync.replicas": 2, "compression.type": "zstd"}
    scenario = Scenario.model_validate(plain(cluster={"brokers": 3, "config": config}))

    assert list(scenario.cluster.config.values()) == ["true", "2", "zstd"]


@pytest.mark.parametrize(("told", "acks"), [(0, "0"), (1, "1"), ("1", "1"), ("all", "all")])
def test_acks_may_be_a_number(told: object, acks: str) -> None:
    """``acks`` may be a number in the load and in a write, since YAML reads 1 as one."""
    write = {"write": {"to": "A", "topic": "orders", "records": 1, "acks": told}}
    load = {"topic": "orders", "acks": told, "idempotence": False}
    scenario = Scenario.model_validate({**one_phase(write), "load": load})
    step: Any = scenario.phases[0].steps[0]

    assert scenario.load
    assert (scenario.load.acks, step.acks) == (acks, acks)


# --- refusals ----------------------------------------------------------------------------------

ORDERS = {"replicas": ["A", "B", "C"]}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            plain(clutser={}),
            "unknown field 'clutser'; known: name, why, cluster, topics, load, loads, phases, copier, control",
        ),
        (plain(cluster={"brokers": 3, "metadata_version": "latest"}), "cluster.metadata_version: String should match"),
        (plain(cluster={"brokers": 3, "security": {}}), "cluster.security: security has neither tls nor sasl; set one"),
        (
            plain(cluster={"brokers": 3, "security": {"sasl": "GSSAPI"}}),
            "cluster.security.sasl: Input should be 'PLAIN' or 'SCRAM-SHA-512'",
        ),
        (plain(cluster={"brokers": 3, "controllers": 2}), "cluster.controllers: Input should be 1 or 3"),
        (
            plain(cluster={"brokers": 3, "rack": 1}),
            "cluster: unknown field 'rack'; known: brokers, mode, controllers, elr",
        ),
        (
            one_phase({"pause": {"nodee": "A"}}),
            "x.yaml: phase 'one', step 1 (pause): unknown field 'nodee'; known: node",
        ),
        (one_phase({"wait": {"form": 1}}), "phase 'one', step 1 (wait): unknown field 'form'; known: for, limit"),
        (
            one_phase({"restart": {"node": "A", "with": {"min.insync.replicas": 1}}}),
            "min.insync.replicas cannot be changed within a run; set it under cluster or topics",
        ),
        (
            one_phase({"write": {"to": "active controller", "topic": "orders", "records": 1}}),
            "step write: it cannot be aimed at active controller; name a broker",
        ),
        (
            one_phase({"explode": "A"}),
            "unknown step 'explode'; known: bounce, churn_leadership, configure, crash_loop, ",
        ),
        (
            one_phase({"hold": "1s"}, {"disconnect": "follower of orders-0"}),
            "phase 'one', step 2 (disconnect): 'follower of orders-0' is not enough; disconnect takes node, from, and "
            "optionally direction, for example 'disconnect: {node: leader of orders-0, from: [",
        ),
        (
            one_phase({"disconnect": {"node": "A"}}),
            "step 1 (disconnect): from is missing; disconnect takes node, from, and",
        ),
        (plain(phases=[{"one": "hold"}]), "phases.0.steps: Input should be a valid list"),
        (one_phase({"disconnect": {"node": "A", "from": []}}), "from: List should have at least 1 item"),
        (one_phase({"disconnect": {"node": "A", "from": ["B", "world"]}}), "'world' is not a target; use leader|"),
        (one_phase({"disconnect": {"node": "A", "from": "D"}}), "there is no broker D; this cluster has A, B, C"),
        (
            one_phase({"disconnect": {"node": "A", "from": "clients", "direction": "out"}}),
            "direction out has no effect on clients, to which brokers send no requests; use in or both",
        ),
        (
            one_phase({"disconnect": {"node": "A", "from": ["B", "clients"], "direction": "answers"}}),
            "direction answers has no effect on clients, to which brokers send no requests; use in or both",
        ),
        (
            one_phase({"disconnect": {"node": "A", "from": ["B", "controller"], "direction": "in"}}),
            "direction in has no effect on the controller, to which brokers send requests; use out, answers or both",
        ),
        (
            one_phase({"disconnect": {"node": "active controller", "from": ["brokers", "clients"]}}),
            "the active controller has no clients to be cut from; name brokers or controllers",
        ),
        (one_phase({"limit_bandwidth": {"into": "A", "from": "clients", "rate": "1MB/s"}}), "'clients' is not a tar"),
        (one_phase({"lose": {"into": "A", "percent": 100}}), "percent: Input should be less than 100 (got 100)"),
        (one_phase({"transfer_leadership": "B"}), "B names no partition; use B of <topic>-<partition>"),
        (one_phase({"transfer_leadership": "B of orders-7"}), "there is no partition orders-7"),
        (one_phase({"read": {"from": "follower of orders-9"}}), "there is no partition orders-9"),
        (one_phase("hold"), "a step is one key and its settings, such as 'hold: 5s', not 'hold'"),
        (one_phase({"kill": "A", "hold": "1s"}), "a step is one key and its settings"),
        (one_phase({"hold": "soon"}), "'soon' is not a duration such as 500ms, 5s or 2m"),
        (one_phase({"hold": float("inf")}), "seconds: Input should be a finite number (got inf)"),
        (one_phase({"heal": "some"}), "what: Input should be 'all' (got 'some')"),
        (one_phase({"wait": {"for": {}}}), "a condition is exactly one of out_of_isr, in_isr, leads, log_end_offset"),
        (one_phase({"require": {"in_isr": "C of orders-1"}}), "there is no partition orders-1"),
        (one_phase({"wait": {"for": {"steady_state": True}}}), "steady_state takes 60 s; set a longer limit"),
        (one_phase({"require": {"high_watermark": {"node": "A"}}}), "the offset of A has no bound; set at_least"),
        (one_phase({"wait": {"for": {"isr_full": "orders", "caught_up": "orders"}}}), "not ['caught_up', 'isr_full']"),
        (plain(load={"topic": "orders", "rate": "-5/s"}), "load.rate: Input should be greater than 0 (got -5.0)"),
        (plain(load={"topic": "orders", "rate": float("nan")}), "load.rate: Input should be a finite number (got nan)"),
        (plain(load={"topic": "orders", "rate": float("inf")}), "load.rate: Input should be a finite number (got inf)"),
        (plain(load={"topic": "orders", "rate": "fast"}), "'fast' is not a rate such as 1000/s"),
        (plain(load={"topic": "orders", "acks": 2}), "load.acks: Input should be '0', '1' or 'all' (got '2')"),
        (plain(load={"topic": "orders", "acks": 1}), "idempotence needs acks: all and retries above 0, not acks: 1"),
        (plain(load={"topic": "sales"}), "load names topic 'sales', which is not under topics"),
        (plain(cluster={"brokers": 2}), "topic orders asks for replication factor 3, above 2 brokers"),
        (plain(cluster={"brokers": 0}), "cluster.brokers: Input should be greater than or equal to 1 (got 0)"),
        (plain(cluster={"brokers": 3, "mode": "raft"}), "cluster.mode: Input should be 'kraft' or 'zookeeper'"),
        (plain(topics={"orders": {"replicas": ["A", "D"]}}), "names broker 'D'; this cluster has A, B, C"),
        (plain(topics={"orders": {"replicas": ["A", "A"]}}), "topic orders names a broker twice in replicas"),
        (plain(topics={"../orders": ORDERS}, load=None), "String should match pattern"),
        (
            plain(topics={"orders": {**ORDERS, "config": {"min.insync.replicas": 4}}}),
            "4, above its replication factor 3",
        ),
        (
            plain(topics={"orders": {**ORDERS, "config": {"min.insync.replicas": "two"}}}),
            "two, which is not a number from 1",
        ),
        (
            plain(cluster={"brokers": 3, "config": {"min.insync.replicas": 0}}),
            "min.insync.replicas 0, which is not a number",
        ),
        (plain(phases=[{"a": [{"hold": 1}]}, {"a": [{"hold": 1}]}]), "the phase name 'a' is taken"),
        (
            plain(phases=[{"after": [{"hold": 1}]}]),
            "the phase name 'after' is taken; each differs from the others, before",
        ),
        (one_phase({"kill": "leader of orders-1"}), "phase 'one', step kill: there is no partition orders-1"),
        (one_phase({"kill": "Q"}), "phase 'one', step kill: there is no broker Q; this cluster has A, B, C"),
        (one_phase({"wait": {"for": {"out_of_isr": "Q"}}}), "step wait: there is no broker Q"),
        (one_phase({"wait": {"for": {"isr_full": "sales"}}}), "step wait: there is no topic or partition sales"),
        (one_phase({"wait": {"for": {"leader_changed": "orders-1"}}}), "there is no topic or partition orders-1"),
        (one_phase({"write": {"to": "A", "topic": "orders", "partition": 1, "records": 1}}), "no partition orders-1"),
        (
            one_phase({"write": {"to": "A", "topic": "orders", "partition": -1, "records": 1}}),
            "greater than or equal to 0",
        ),
        (
            {k: v for k, v in one_phase({"set_rate": "5/s"}).items() if k != "load"},
            "phase 'one', step set_rate: there is no load whose rate it could change",
        ),
        (
            {k: v for k, v in one_phase({"require": {"steady_state": True}}).items() if k != "load"},
            "phase 'one', step require: there is no load that could be in steady_state",
        ),
        (one_phase({"reassign": {"topic": "sales", "to": ["A"]}}), "step reassign: there is no partition sales-0"),
        (
            one_phase({"reassign": {"topic": "orders", "to": ["A", "D"]}}),
            "step reassign: there is no broker D; this clus",
        ),
        (one_phase({"reassign": {"topic": "orders", "to": ["A", "A"]}}), "step reassign: names a broker twice in"),
        (
            one_phase({"churn_leadership": {"partition": "orders", "between": ["A", "B"], "times": 1}}),
            "'orders' is no partition",
        ),
        (
            plain(
                topics={"orders": {"replicas": ["A", "B"]}},
                phases=[{"one": [{"churn_leadership": {"partition": "orders-0", "between": ["A", "C"], "times": 2}}]}],
            ),
            "step churn_leadership: C has no replica of orders-0 that could lead",
        ),
        (one_phase({"delete_records": {"partition": "orders-0", "before": 0}}), "greater than 0"),
        (one_phase({"configure": {"set": {"retention.ms": 1}}}), "configure names either a topic or a broker"),
        (one_phase({"configure": {"topic": "sales", "set": {"retention.ms": 1}}}), "there is no partition sales-0"),
        (one_phase({"configure": {"topic": "orders", "set": {}}}), "set: Dictionary should have at least 1 item"),
        (one_phase({"wipe": "A"}), "step wipe: needs a broker that is down; kill or stop it first"),
        (one_phase({"wipe": "A"}, {"kill": "A"}), "step wipe: needs a broker that is down"),
        (
            one_phase({"kill": "A"}, {"truncate": {"node": "A", "partition": "orders-0"}}),
            "takes either records or bytes",
        ),
        (one_phase({"fill_disk": "A"}), "step fill_disk: give A a disk under cluster.disks"),
        (
            plain(
                cluster={"brokers": 3, "disks": {"A": "1MB"}}, phases=[{"one": [{"fill_disk": "leader of orders-0"}]}]
            ),
            "step fill_disk: give every broker a disk under cluster.disks",
        ),
        (plain(cluster={"brokers": 3, "disks": {"D": "1MB"}}), "disks names broker D; this cluster has A, B, C"),
        (plain(cluster={"brokers": 3, "racks": {"A": "x"}}), "cluster: racks names A; name each broker: A, B, C"),
        (
            one_phase({"read": {"from": "leader of orders-0", "rack": "x"}}),
            "phase 'one', step read: rack x needs brokers with racks; name them under cluster.racks",
        ),
        (plain(cluster={"brokers": 3, "disks": {"A": "1 cup"}}), "'1 cup' is not a size such as 64MB"),
        (
            plain(cluster={"brokers": 3, "disks": {"A": "1MB"}}, phases=[{"one": [{"read_only_disk": "A"}]}]),
            "step read_only_disk: cannot reach into a disk of cluster.disks; aim at another broker",
        ),
        (
            one_phase({"fail_log_dir": {"node": "A", "partition": "orders-0"}}),
            "step fail_log_dir: its broker has no other log directory and would exit; set cluster.log_dirs, or",
        ),
        (
            plain(cluster={"brokers": 3, "log_dirs": 2}, phases=[{"one": [{"read_only_disk": "A"}]}]),
            "step read_only_disk: its broker would continue with its other log directories; use fail_log_dir",
        ),
        (
            plain(cluster={"brokers": 3, "log_dirs": 2, "disks": {"A": "1MB"}}),
            "disks gives a broker one log directory; leave it out, or log_dirs: 2",
        ),
        (
            one_phase({"slow_disk": {"node": "A", "rate": "1MB/s"}}),
            "step slow_disk: brokers write to the page",
        ),
        (
            plain(
                cluster={"brokers": 3, "disks": {"A": "1MB"}, "config": {"log.flush.interval.messages": 1}},
                phases=[{"one": [{"slow_disk": {"node": "A", "rate": "1MB/s"}}]}],
            ),
            "step slow_disk: cannot reach into a disk of cluster.disks; aim at another broker",
        ),
        (
            plain(cluster=SMALL_DISKS, phases=[{"one": [{"lag": {"node": "C", "records": 9}}]}]),
            "step lag: the rate is measured at another replica, on the host's disk; take one that cannot be C out",
        ),
        (
            plain(
                cluster=SMALL_DISKS,
                phases=[{"one": [{"slow": {"node": "follower of orders-0", "until": {"out_of_isr": "C"}}}]}],
            ),
            "step slow: the rate is measured at another replica",
        ),
        (one_phase({"throttle": {"node": "Q", "rate": "1MB/s"}}), "step throttle: there is no broker Q"),
        (one_phase({"set_rate": "5"}), "rate: '5' is not a rate such as 1000/s"),
        (plain(cluster={"brokers": 3, "resource_limits": {"network": "5"}}), "'5' is not a data rate such as 20MB/s"),
        (plain(cluster={"brokers": 3, "resource_limits": {"cpus": 0}}), "greater than or equal to 0.05"),
        (plain(cluster={"brokers": 3, "resource_limits": {"cpu_set": "one"}}), "should match pattern"),
        (plain(name="Bad Name"), "name: String should match pattern"),
        ([], "Input should be a valid dictionary"),
        (None, "Input should be a valid dictionary"),
    ],
)
def test_a_bad_scenario_is_refused_with_one_sentence(told: object, said: str) -> None:
    """An invalid scenario is rejected in one sentence with the file, the value and the allowed ones."""
    sentence = refusal(told)

    assert sentence.startswith("x.yaml: ")
    assert said in sentence
    assert "\n" not in sentence
    assert "pydantic" not in sentence


@pytest.mark.parametrize(("disks", "node"), [("AB", "A"), ("AC", "C"), ("A", "follower of orders-0"), ("", "A")])
def test_a_rate_is_measured_at_a_replica_on_the_hosts_disk(disks: str, node: str) -> None:
    """``lag`` needs a replica other than the lagging one on the host's disk, to measure the rate."""
    cluster = {"brokers": 3, "disks": dict.fromkeys(disks, "64MB")}
    told = plain(cluster=cluster, phases=[{"one": [{"lag": {"node": node, "records": 9}}]}])

    assert parse_scenario(yaml.safe_dump(told), "x.yaml").faults == ["lag"]


def test_every_partition_that_a_step_names_is_checked() -> None:
    """Every partition that a step names must exist, in targets and in conditions."""
    slow = {"node": "follower of orders-9", "until": {"out_of_isr": "follower of orders-0"}}

    assert "there is no partition orders-9" in refusal(one_phase({"slow": slow}))


def test_a_bystander_needs_a_third_replica() -> None:
    """``uninvolved broker`` needs three replicas: one of two may be the controller."""
    told = {**one_phase({"kill": "uninvolved broker of orders-0"}), "topics": {"orders": {"replicas": ["A", "B"]}}}

    assert "step kill: orders-0 needs three replicas" in refusal(told)
    assert Scenario.model_validate({**told, "topics": {"orders": {"replicas": ["A", "B", "C"]}}})


@pytest.mark.parametrize("measured", [{"jvm": "production"}, {"metrics": True}, {"resource_limits": {"cpus": 1}}])
def test_no_benchmark_has_brokers_at_debug(measured: dict[str, Any]) -> None:
    """``debug`` is rejected in a benchmark, since logging costs time; otherwise it is accepted."""
    told = one_phase({"hold": "1s"})
    quiet = {**told["cluster"], "debug": ["kafka.cluster.Partition"]}

    assert "no benchmark may have it" in refusal({**told, "cluster": {**quiet, **measured}})
    assert Scenario.model_validate({**told, "cluster": quiet})


def test_a_partition_with_one_replica_has_no_follower() -> None:
    """A fault on the follower of a partition with one replica is rejected; on its leader it is accepted."""
    told = {**one_phase({"kill": "follower of orders-0"}), "topics": {"orders": {"replicas": ["A"]}}}

    assert "step kill: orders-0 has one replica, so it has no follower" in refusal(told)
    assert Scenario.model_validate({**told, "phases": [{"one": [{"kill": "leader of orders-0"}]}]})


def test_min_isr_at_the_replication_factor_is_allowed() -> None:
    """Near miss: min.insync.replicas equal to the replication factor is accepted."""
    topic = {**ORDERS, "config": {"min.insync.replicas": 3}}

    assert Scenario.model_validate(plain(topics={"orders": topic}))


def test_what_is_no_yaml_is_refused_in_one_line() -> None:
    """Invalid YAML is rejected in one line, although the parser's message has four."""
    with pytest.raises(BadInput, match=r"^x\.yaml is no YAML: .*line 1.*$"):
        parse_scenario("name: [", "x.yaml")


@pytest.mark.parametrize("name", ["stedy", "/no/such/file.yaml", "", "../pyproject"])
def test_an_unknown_scenario_is_refused_with_the_known(name: str) -> None:
    """An unknown scenario is rejected with the list of known ones."""
    with pytest.raises(BadInput, match=f"There is no scenario {name!r}; known: .*steady.*, or give a path") as refused:
        load_scenario(name)
    assert all(known in str(refused.value) for known in scenario_names())


TRANSACTIONAL = {"topic": "orders", "engine": "confluent-kafka", "transaction": {"records": 5, "abort_every": 2}}


def test_a_transactional_load() -> None:
    """A transactional load has Kafka's defaults, and its readers are read_committed."""
    told = Scenario.model_validate(plain(load=TRANSACTIONAL))
    load = told.load

    assert load is not None
    assert load.transaction is not None
    assert (load.transaction.records, load.transaction.abort_every, load.transaction.timeout) == (5, 2, 60.0)
    assert (load.acks, load.idempotence, told.isolation) == ("all", True, "read_committed")
    assert Scenario.model_validate(plain()).isolation == "read_uncommitted"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"engine": "kafka-python"}, "transaction needs engine: confluent-kafka; kafka-python cannot give up a commit"),
        ({"idempotence": False}, "transaction needs idempotence: true"),
        ({"acks": 1}, "idempotence needs acks: all"),
        ({"transaction": {"timeout": "29s"}}, "transaction has timeout 29s, below delivery_timeout 30s"),
        ({"transaction": {"abort_every": 1}}, "greater than or equal to 2"),
        ({"transaction": {"records": 0}}, "greater than 0"),
    ],
)
def test_a_transactional_load_that_cannot_be(change: dict[str, Any], sentence: str) -> None:
    """Invalid transactional loads are rejected, each with its reason."""
    assert sentence in refusal(plain(load={**TRANSACTIONAL, **change}))


JAVA = {"topic": "orders", "engine": "java", "client": "3.9.1"}


def test_what_records_are_filled_with() -> None:
    """A payload is given as a compression ratio or as a file."""
    of_share = Scenario.model_validate(plain(load={"topic": "orders", "payload": {"compresses_to": "50%"}})).load
    of_file = Scenario.model_validate(plain(load={"topic": "orders", "payload": {"file": "README.md"}})).load

    assert of_share
    assert of_share.payload
    assert of_share.payload.compresses_to == 0.5
    assert of_file
    assert of_file.payload
    assert of_file.payload.file == ROOT / "README.md"
    assert "payload" not in Scenario.model_validate(plain(load={"topic": "orders"})).model_dump(mode="json")["load"]


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        ({}, "payload takes either compresses_to, such as 50%, or file"),
        ({"compresses_to": "50%", "file": "README.md"}, "payload takes either compresses_to, such as 50%, or file"),
        ({"compresses_to": "half"}, "'half' is not a share such as 50%"),
        ({"compresses_to": 1.5}, "less than or equal to 1"),
        ({"file": "no/such/file"}, "is no file of at least 100 bytes"),
    ],
)
def test_what_records_cannot_be_filled_with(payload: dict[str, Any], sentence: str) -> None:
    """Invalid payloads are rejected, each with its reason."""
    assert sentence in refusal(plain(load={"topic": "orders", "payload": payload}))


def test_a_java_load() -> None:
    """A Java load names the client's release; by default it is the brokers'."""
    assert Load.model_validate(JAVA).client == "3.9.1"
    assert Load.model_validate({**JAVA, "client": None}).client is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"engine": "kafka-python"}, "client: 3.9.1 needs engine: java"),
        ({"client": "latest"}, "client"),
        ({"record_bytes": 200}, "engine: java has no record_bytes: 200"),
        ({"rate": "0.5/s"}, "engine: java takes a whole number of records a second, not 0.5"),
        ({"rate": "100/s", "processes": 3}, "records a second, not 33.3333 in each of 3 processes"),
        ({"transaction": {"records": 5}}, "transaction needs engine: confluent-kafka"),
    ],
)
def test_a_java_load_that_cannot_be(change: dict[str, Any], sentence: str) -> None:
    """Invalid Java loads are rejected, each with its reason."""
    assert sentence in refusal(plain(load={**JAVA, **change}))


def test_a_java_load_keeps_its_rate() -> None:
    """``set_rate`` is rejected for a Java load and accepted for other engines."""
    step = one_phase({"set_rate": "200/s"})

    assert "engine: java cannot change its rate" in refusal({**step, "load": JAVA})
    assert Scenario.model_validate({**step, "load": {"topic": "orders"}})


COPIED = {
    "topics": {"orders": ORDERS, "copies": ORDERS},
    "load": TRANSACTIONAL,
    "copier": {"to": "copies"},
}


def test_a_copier() -> None:
    """A copier commits offsets in its transactions by default; a scenario without one keeps its digest."""
    told = Scenario.model_validate(plain(**COPIED))

    assert told.copier is not None
    assert told.copier.offsets == "in_transaction"
    assert "copier" not in Scenario.model_validate(plain()).model_dump()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"load": {"topic": "orders"}}, "copier needs a load with transaction"),
        (
            {"copier": {"to": "orders"}},
            "copier writes to topic 'orders', which must be another one under topics than the loads'",
        ),
        ({"copier": {"to": "others"}}, "copier writes to topic 'others'"),
        ({"topics": {"orders": ORDERS, "copies": {**ORDERS, "partitions": 7}}}, "copier needs as many partitions"),
    ],
)
def test_a_copier_that_cannot_be(change: dict[str, Any], sentence: str) -> None:
    """Invalid copiers are rejected, each with its reason."""
    assert sentence in refusal(plain(**{**COPIED, **change}))


def test_only_a_copier_can_be_killed() -> None:
    """``kill_copier`` needs a copier."""
    step = one_phase({"kill_copier": 2})

    assert "a step is kill_copier, and there is no copier" in refusal(step)
    assert Scenario.model_validate({**step, **COPIED}).faults == ["kill_copier", "kill_copier"]


MADE = "/tmp/plimsoll-was-here"
HOSTILE = [f"; touch {MADE}", f"$(touch {MADE})", f"`touch {MADE}`", f"x && touch {MADE}", f"x\n touch {MADE}"]
HOSTILE += ["../../x", "<script>"]
WORD = "WORD"  # where a text is put
# Fields that take a string as a name: an example scenario, and a word with which it is valid.
NAMES: dict[str, tuple[dict[str, Any], str]] = {
    "Condition.balanced": (one_phase({"wait": {"for": {"balanced": WORD}}}), "orders"),
    "Condition.caught_up": (one_phase({"wait": {"for": {"caught_up": WORD}}}), "orders"),
    "Condition.isr_full": (one_phase({"wait": {"for": {"isr_full": WORD}}}), "orders"),
    "Condition.leader_changed": (one_phase({"wait": {"for": {"leader_changed": WORD}}}), "orders"),
    "Configure.topic": (one_phase({"configure": {"topic": WORD, "set": {"retention.ms": "1"}}}), "orders"),
    "Copier.load": (plain(**{**COPIED, "copier": {"to": "copies", "load": WORD}}), "producer"),
    "Copier.to": (plain(**{**COPIED, "copier": {"to": WORD}}), "copies"),
    "Describe.topic": (one_phase({"describe": WORD}), "orders"),
    "Group.assignor": (plain(load={"topic": "orders", "group": {"members": 1, "assignor": WORD}}), "range"),
    "Load.topic": (plain(load={"topic": WORD}), "orders"),
    "Payload.file": (plain(load={"topic": "orders", "payload": {"file": WORD}}), "README.md"),
    "Reassign.topic": (one_phase({"reassign": {"topic": WORD, "to": ["B", "C", "A"]}}), "orders"),
    "Scenario.loads": (plain(load=None, loads={WORD: {"topic": "orders"}}), "slow"),
    "SetRate.load": (one_phase({"set_rate": {"rate": "1/s", "load": WORD}}), "producer"),
    "Target.name": (one_phase({"kill": {"node": {"role": "named", "name": WORD}}}), "A"),
    "Topic.replicas": (plain(topics={"orders": {"replicas": [WORD]}}), "A"),
    "Write.topic": (one_phase({"write": {"to": "A", "topic": WORD, "records": 1}}), "orders"),
}
# Fields that take any string, as a value or as a key.
TEXTS: dict[str, dict[str, Any]] = {
    "Cluster.config": plain(cluster={"brokers": 3, "config": {"broker.rack": WORD}}),
    "Cluster.debug": plain(cluster={"brokers": 3, "debug": [WORD]}),
    "Cluster.java": plain(cluster={"brokers": 3, "java": WORD}),
    "Configure.set": one_phase({"configure": {"topic": "orders", "set": {"compression.type": WORD}}}),
    "Phase.name": plain(phases=[{WORD: [{"hold": "1s"}]}]),
    "Restart.with": one_phase({"restart": {"node": "A", "with": {"broker.rack": WORD}}}),
    "Scenario.why": plain(why=WORD),
    "Topic.config": plain(topics={"orders": {"replicas": ["A"], "config": {"compression.type": WORD}}}),
    "Upgrade.kafka": one_phase({"upgrade": {"node": "A", "kafka": WORD}}),
}


def models(annotation: Any) -> Iterator[type[Model]]:
    """Yield all models within a type, itself included."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    inner = (field.annotation for field in getattr(annotation, "model_fields", {}).values())
    for each in (*inner, *get_args(annotation)):
        yield from models(each)


FIELDS = {(model, name) for root in (Scenario, *STEPS.values()) for model in models(root) for name in model.names()}


def takes(model: type[Model], name: str, text: str) -> bool:
    """Return whether a field accepts a text as its value, in a list, or as a value or key of a mapping."""

    def wrong(value: object) -> list[tuple[int | str, ...]]:
        try:
            model.model_validate({name: value})
        except ValidationError as refused:
            return [error["loc"][1:] for error in refused.errors() if error["loc"][0:1] == (name,)]
        return []

    return (
        not wrong(text)
        or not wrong([text])
        or all(place[-1:] == ("[key]",) for place in wrong({"x": text}))
        or all(place[:1] == (text,) and place[-1] != "[key]" for place in wrong({text: None}))
    )


def with_word(told: Any, text: str) -> Any:
    """Return the document with this text in place of WORD."""
    return json.loads(json.dumps(told).replace(WORD, json.dumps(text)[1:-1]))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_field_takes_any_text_only_where_it_is_listed(text: str) -> None:
    """Only the listed fields accept any text, over all fields of a scenario and its steps."""
    assert {f"{model.__name__}.{name}" for model, name in FIELDS if takes(model, name, text)} == {*NAMES, *TEXTS}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", NAMES)
def test_what_is_no_text_takes_no_shell_command(field: str, text: str) -> None:
    """A name field rejects a shell command in one sentence, without running it."""
    told, sound = NAMES[field]
    assert parse_scenario(yaml.safe_dump(with_word(told, sound)), "x.yaml")

    said = refusal(with_word(told, text))

    assert said.count("\n") == 0
    assert not Path(MADE).exists()


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", TEXTS)
def test_a_text_stays_what_it_is(field: str, text: str) -> None:
    """A text field keeps a shell command unchanged, without running it."""
    told, a_word = (parse_scenario(yaml.safe_dump(with_word(TEXTS[field], each)), "x.yaml") for each in (text, WORD))

    assert told.model_dump(mode="json") == with_word(a_word.model_dump(mode="json"), text)
    assert not Path(MADE).exists()


@pytest.mark.parametrize("topic", [".", "..", "a/b", "../x", "; touch x", "$(touch x)", "", "x" * 250])
def test_a_topic_is_no_way_out_of_a_folder(topic: str) -> None:
    """A topic name that leaves its folder is rejected, as in Kafka; dots within a name are accepted."""
    told = plain()
    told["topics"] = {topic: told["topics"]["orders"]}
    told["load"]["topic"] = topic
    assert refusal(told).count("\n") == 0

    told["topics"] = {"..a": told["topics"][topic]}
    told["load"]["topic"] = "..a"
    assert parse_scenario(yaml.safe_dump(told), "x.yaml").topics.keys() == {"..a"}


@pytest.mark.parametrize("flag", ["OnError=touch", "OnOutOfMemoryError=touch", "Flags=.hotspotrc", "VMOptionsFile=x"])
def test_no_flag_makes_the_jvm_run_a_command(flag: str) -> None:
    """JVM flags that run a command or read a file are rejected; one that exits the JVM is accepted."""
    assert "leave it out" in refusal(plain(cluster={"brokers": 3, "jvm_flags": [f"-XX:{flag}"]}))
    told = plain(cluster={"brokers": 3, "jvm_flags": ["-XX:+ExitOnOutOfMemoryError"]})
    assert parse_scenario(yaml.safe_dump(told), "x.yaml").cluster.jvm_flags == ["-XX:+ExitOnOutOfMemoryError"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"cluster": {"brokers": 3, "config": {"replica_lag_time_max_ms": 4000}}},
            "replica_lag_time_max_ms is no broker setting of Kafka; did you mean replica.lag.time.max.ms?",
        ),
        ({"cluster": {"brokers": 3, "config": {"retention.ms": 1}}}, "the latter is log.retention.ms"),
        ({"topics": {"orders": {**ORDERS, "config": {"min.isync.replicas": 2}}}}, "did you mean min.insync.replicas?"),
        ({"phases": [{"p": [{"restart": {"node": "A", "with": {"broker.rak": "x"}}}]}]}, "did you mean broker.rack?"),
        (
            {"phases": [{"p": [{"configure": {"topic": "orders", "set": {"segment.size": 1}}}]}]},
            "configure.set: segment",
        ),
    ],
)
def test_a_setting_that_kafka_does_not_know_is_refused(change, why):
    """An unknown Kafka setting is rejected with the nearest name, since Kafka itself would only log it."""
    with pytest.raises(ValidationError, match=why.replace("?", ".")):
        Scenario.model_validate(plain(**change))


def test_settings_of_plug_ins_are_named():
    """Plug-in settings are allowed by name or by prefix in ``allow_unknown``; Kafka's own prefixes always are."""
    config = {"rsm.config.dir": "x", "listener.name.probe.ssl.client.auth": "none", "my.plugin.a": 1, "other": 2}
    named = {"brokers": 3, "config": config, "allow_unknown": ["my.plugin.", "other"]}

    assert Scenario.model_validate(plain(cluster=named)).cluster.config["other"] == "2"
    with pytest.raises(ValidationError, match="other is no broker setting"):
        Scenario.model_validate(plain(cluster={**named, "allow_unknown": ["my.plugin.", "others"]}))
