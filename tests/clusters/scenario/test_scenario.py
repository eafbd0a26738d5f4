"""The scenario language."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.scenario.scenario import (
    Scenario,
    load_scenario,
    merge_patch,
    parse_scenario,
    scenario_names,
)
from history.errors import BadInput
from tests.clusters.scenario.plain import ORDERS, one_phase, plain, refusal

SMALL_DISKS = {"brokers": 3, "disks": {"A": "64MB", "B": "64MB"}}  # C has the host's


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


def test_faults_and_needs_follow_from_the_steps() -> None:
    """A scenario's faults exclude healing and waiting steps; its needs are those of all steps."""
    told = one_phase({"pause": "A"}, {"resume": "A"}, {"disconnect": {"node": "B", "from": "clients"}}, {"hold": "1s"})
    scenario = Scenario.model_validate(told)

    assert scenario.faults == ["pause", "disconnect"]
    assert scenario.needs == {"disconnect", "pause"}
    assert Scenario.model_validate(plain()).needs == frozenset()


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
            "unknown step 'explode'; known: await_upgrade, bounce, churn_leadership, configure, ",
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
            "step read_only_disk: the host cannot access a disk of cluster.disks; choose another broker",
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
            "step slow_disk: the host cannot access a disk of cluster.disks; choose another broker",
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


@pytest.mark.parametrize("measured", [{"jvm": "production"}, {"metrics": True}, {"resource_limits": {"cpus": 1}}])
def test_no_benchmark_has_brokers_at_debug(measured: dict[str, Any]) -> None:
    """``debug`` is rejected in a benchmark, since logging costs time; otherwise it is accepted."""
    told = one_phase({"hold": "1s"})
    quiet = {**told["cluster"], "debug": ["kafka.cluster.Partition"]}

    assert "no benchmark may have it" in refusal({**told, "cluster": {**quiet, **measured}})
    assert Scenario.model_validate({**told, "cluster": quiet})


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
