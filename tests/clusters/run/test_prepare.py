"""A run's request is checked, and its folder made."""

from __future__ import annotations

import re
import socket
from contextlib import nullcontext
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.kafka import builds
from clusters.live.world import World
from clusters.run import prepare as planning
from clusters.run.prepare import prepare
from clusters.runtimes import kernel
from clusters.runtimes.docker import image
from clusters.runtimes.ports import PORTS
from history.errors import BadInput
from history.folder import RunFolder
from tests.clusters.run.small import SCENARIO, left_under_runs, prepared

UPGRADE = """
name: roll
why: Another Kafka, broker by broker.
cluster: {brokers: 2%s}
topics: {orders: {replicas: [A, B]}}
phases:
  - roll: [{upgrade: {node: controllers, kafka: 3.9.1}}, {upgrade: {node: A, kafka: 3.9.1}}, {finalise: %s}]
"""


def rolling(tmp_path: Path, cluster: str = "", to: str = "3.9") -> str:
    """Return the path of a scenario that upgrades to 3.9.1."""
    (tmp_path / "roll.yaml").write_text(UPGRADE % (cluster, to))
    return str(tmp_path / "roll.yaml")


def test_what_an_upgrade_goes_to_is_fetched_beforehand(tmp_path: Path) -> None:
    """The target version of an upgrade is fetched in advance; ZooKeeper mode keeps the old broker protocol."""
    kraft = World(prepared(rolling(tmp_path), tmp_path, kafka="3.8.1")).plan
    zookeeper = World(prepared(rolling(tmp_path, ", mode: zookeeper"), tmp_path, kafka="3.8.1")).plan

    assert {name: (build.version, build.jars) for name, build in kraft.made.builds.items()} == {
        "3.9.1": ("3.9.1", Path("/jars/3.9.1"))
    }
    assert (kraft.scenario.cluster.metadata_version, zookeeper.scenario.cluster.metadata_version) == (None, "3.8")


def test_a_scenario_can_be_given_whole(tmp_path: Path) -> None:
    """A scenario's content makes the same plan as its file, and a wrong one is rejected like a file."""
    whole = yaml.safe_load(SCENARIO)
    (tmp_path / "small.yaml").write_text(SCENARIO)
    by_file = World(prepared(str(tmp_path / "small.yaml"), tmp_path)).plan

    assert World(prepared(whole, tmp_path)).plan.scenario == by_file.scenario
    with pytest.raises(BadInput, match="the given scenario: unknown field 'clusters'"):
        prepared(whole | {"clusters": {}}, tmp_path)


@pytest.mark.parametrize(
    ("kafka", "cluster", "to", "said"),
    [
        ("3.9.1", "", "3.9", "upgrade: Kafka 3.9.1 is no upgrade of Kafka 3.9.1; give an older one"),
        ("4.0.1", "", "3.9", "upgrade: Kafka 3.9.1 is no upgrade of Kafka 4.0.1"),
        ("3.8.1", "", "4.0", "finalise: 4.0 is newer than every Kafka of this run"),
        ("3.0.2", ", mode: zookeeper, controllers: 3", "3.9", "asks for 3 controllers; in ZooKeeper mode one of the"),
    ],
)
def test_an_upgrade_that_cannot_be_is_refused(tmp_path: Path, kafka: str, cluster: str, to: str, said: str) -> None:
    """An impossible upgrade is rejected before anything starts."""
    with pytest.raises(BadInput, match=re.escape(said)):
        prepared(rolling(tmp_path, cluster, to), tmp_path, kafka=kafka)


def test_controllers_are_no_nodes_of_their_own_with_zookeeper(told: str, tmp_path: Path) -> None:
    """In ZooKeeper mode a fault on the controllers is rejected: separate controller nodes exist in KRaft only."""
    changes = {"cluster": {"mode": "zookeeper"}, "phases": [{"p": [{"kill": "controllers"}]}]}
    with pytest.raises(BadInput, match="aims kill at the controllers, which are nodes of their own in KRaft mode only"):
        prepared(told, tmp_path, changes=changes)
    prepared(told, tmp_path, changes={**changes, "cluster": {"mode": "kraft"}})


def test_a_prepared_run_is_a_folder_with_its_plan(told: str, tmp_path: Path) -> None:
    """A prepared run is a folder with a lease and a fully resolved plan."""
    run = prepared(told, tmp_path, rate=50.0, seed=7)
    plan = World(run).plan

    assert sorted(path.name for path in (run / "work").iterdir()) == ["lease", "plan.json"]
    assert (plan.kafka_version, plan.mode, plan.runtime, plan.seed) == ("3.9.1", "kraft", "process", 7)
    assert plan.made.jars == Path("/jars/3.9.1")
    assert plan.scenario.load
    assert plan.scenario.load.rate == 50.0


def test_without_rate_and_seed_the_scenario_decides_and_chance(told: str, tmp_path: Path) -> None:
    """By default the rate is the scenario's, and the seed is random and kept in the plan."""
    plans = [World(prepared(told, tmp_path)).plan for _ in range(2)]

    assert {plan.scenario.load.rate for plan in plans if plan.scenario.load} == {500.0}
    assert len({plan.seed for plan in plans}) == 2


@pytest.mark.parametrize("name", ["small", "a" * 41])
def test_a_run_id_is_fit_for_folders_and_containers(tmp_path: Path, name: str) -> None:
    """Run ids fit folders and containers, and two runs of the same second differ."""
    file = tmp_path / "x.yaml"
    file.write_text(SCENARIO.replace("name: small", f"name: {name}"))
    runs = [prepared(str(file), tmp_path).name for _ in range(2)]

    assert all(re.fullmatch(r"\d{8}-\d{6}-[a-z0-9-]+-[0-9a-f]{4}", run) and len(run) <= 62 for run in runs)
    assert runs[0] != runs[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kafka": "latest"}, "--kafka=latest is not a version; give a released one from 2.8.0 on, such as 4.4.0"),
        ({"kafka": "2.7.0"}, "--kafka=2.7.0 is too old; 2.8.0 is the oldest"),
        ({"runtime": "docker"}, "--runtime=docker, but no Docker daemon answers"),
        ({"runtime": "podman"}, "--runtime=podman is unknown; it is auto, docker or process"),
        ({"rate": -5.0}, "--rate=-5 is not a rate; give records per second above 0"),
        ({"rate": 0.0}, "--rate=0 is not a rate; give records per second above 0"),
        ({"rate": float("nan")}, "--rate=nan is not a rate; give records per second above 0"),
        ({"rate": float("inf")}, "--rate=inf is not a rate; give records per second above 0"),
        ({"subnet": "here"}, "--subnet=here is no loopback range such as 127.30.7"),
    ],
)
def test_what_cannot_be_done_is_refused(told: str, tmp_path: Path, change: dict[str, Any], said: str) -> None:
    """Invalid input is rejected with the value and the allowed ones, and leaves no folder."""
    with pytest.raises(BadInput, match=re.escape(said)):
        prepared(told, tmp_path, **change)
    assert left_under_runs(tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "kafka", "said"),
    [
        ("brokers: 2}", "brokers: 2, mode: zookeeper}", "4.3.0", "Kafka 4.3.0 has no ZooKeeper mode"),
        ("brokers: 2}", "brokers: 2, mode: kraft}", "2.8.2", "Kafka 2.8.2 has KRaft as a preview only"),
        (
            "{pause: A}",
            "{pause: controller}",
            "3.9.1",
            "aims at the controller, which is not a broker in KRaft mode; use",
        ),
        ("{pause: A}", "{explode: A}", "3.9.1", "unknown step 'explode'; known: "),
        ("brokers: 2", "brokers: 1", "3.9.1", "replication factor 2, above 1 brokers"),
    ],
)
def test_a_scenario_that_cannot_run_is_refused(  # noqa: PLR0917  # a change, and what it leads to
    told: str, tmp_path: Path, old: str, new: str, kafka: str, said: str
) -> None:
    """A scenario that the Kafka version cannot run is rejected before anything starts, and leaves no folder."""
    Path(told).write_text(SCENARIO.replace(old, new))

    with pytest.raises(BadInput, match=re.escape(said)):
        prepared(told, tmp_path, kafka=kafka)
    assert left_under_runs(tmp_path) == []


def test_a_controller_among_the_brokers_may_be_aimed_at(told: str, tmp_path: Path) -> None:
    """In ZooKeeper mode a fault on the controller is accepted: it is one of the brokers."""
    Path(told).write_text(SCENARIO.replace("{pause: A}", "{pause: controller}"))

    assert prepared(told, tmp_path, kafka="2.8.2").is_dir()


def test_a_fault_that_the_runtime_cannot_do_is_refused(told: str, tmp_path: Path) -> None:
    """A fault that the runtime cannot inject is rejected with the missing part and the runtime that has it."""
    cut = {"disconnect": {"node": "A", "from": "clients"}}

    with pytest.raises(BadInput, match="small needs disconnect, which the process runtime cannot do; use"):
        prepared(told, tmp_path, runtime="process", changes={"phases": [{"off": [cut]}]})
    assert left_under_runs(tmp_path) == []


def test_where_docker_was_not_found_the_refusal_says_so(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Docker was not found, the rejection asks to start Docker instead of to select it."""
    monkeypatch.setattr("clusters.runtimes.docker.daemon.daemon_answers", lambda: False)
    cut = {"disconnect": {"node": "A", "from": "clients"}}

    with pytest.raises(BadInput, match="the process runtime cannot do; start Docker, whose daemon does not answer"):
        prepared(told, tmp_path, runtime="auto", changes={"phases": [{"off": [cut]}]})


@pytest.mark.parametrize(("step", "refused"), [({"delay": {"into": "A", "by": "1s"}}, True), ({"hold": "1s"}, False)])
def test_what_the_kernel_cannot_do_is_refused(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: dict[str, Any], refused: bool
) -> None:
    """A step that the host's kernel cannot perform is rejected with the missing part and an alternative."""
    monkeypatch.setattr(planning, "choose_runtime", lambda _: "docker")
    monkeypatch.setattr(image, "fetch_what_nodes_need", lambda _: None)
    monkeypatch.setattr(
        kernel, "lacking", lambda parts, _trial: {name: kernel.PARTS[name] for name in parts if name == "netem"}
    )
    said = "Scenario small has the step delay, for which this host's kernel lacks sch_netem; use limit_bandwidth"

    with pytest.raises(BadInput, match=said) if refused else nullcontext():
        prepared(told, tmp_path, changes={"phases": [{"slowly": [step]}]})
    assert bool(left_under_runs(tmp_path)) != refused


def test_without_the_freezer_no_run_on_docker_is_prepared(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker runs need the kernel's freezer, since servers are paused at the end; local processes do not."""
    monkeypatch.setattr(image, "fetch_what_nodes_need", lambda _: None)
    monkeypatch.setattr(kernel.cgroups, "pauses_processes", lambda: False)

    assert prepared(told, tmp_path / "processes", runtime="process").is_dir()
    monkeypatch.setattr(planning, "choose_runtime", lambda _: "docker")
    said = "for which this host's kernel lacks CGROUP_FREEZER; use --runtime=process, or a kernel that has it"
    with pytest.raises(BadInput, match=said):
        prepared(told, tmp_path / "docker")
    assert left_under_runs(tmp_path / "docker") == []


def test_changes_are_merged_into_the_scenario(told: str, tmp_path: Path) -> None:
    """Changes are merged before the check: fields are replaced, null removes one, and the digest follows."""
    changes = {"load": {"rate": None, "acks": "1", "idempotence": False}, "phases": [{"calm": [{"hold": "1s"}]}]}
    plain, changed = (World(prepared(told, tmp_path, changes=c)).scenario for c in (None, changes))

    assert changed.load
    assert (changed.name, changed.load.topic, changed.load.rate, changed.load.acks) == ("small", "orders", 1000, "1")
    assert [each.name for each in changed.phases] == ["calm"]
    assert changed.digest != plain.digest
    assert World(prepared(told, tmp_path, changes={})).scenario.digest == plain.digest


@pytest.mark.parametrize(
    ("load", "release"), [({}, "3.9.1"), ({"client": "2.8.2"}, "2.8.2"), ({"engine": "kafka-python"}, None)]
)
def test_a_java_client_is_of_the_brokers_release_or_of_the_one_that_is_named(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: dict[str, str], release: str | None
) -> None:
    """A Java client has the brokers' release or the named one, and its jars are fetched before anything starts."""
    monkeypatch.setattr(planning, "tools_jars", lambda version: Path("/tools") / version)
    clients = World(prepared(told, tmp_path, changes={"load": {"engine": "java", **load}})).plan.clients

    found = {name: (client.version, client.jars) for name, client in clients.items()}
    assert found == ({"producer": (release, Path("/tools") / release)} if release else {})


@pytest.mark.parametrize(
    ("client", "said"),
    [(None, "engine: java has no released client of"), ("2.7.0", "client: 2.7.0 is too old; .* is 2.8.0")],
)
def test_a_java_client_that_is_no_release_is_refused(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str | None, said: str
) -> None:
    """A Java client needs a release from 2.8.0 on; a custom build has no client jars to fetch."""
    monkeypatch.setattr(planning, "build_of", lambda kafka: builds.Build(version="4.3.0", jars=tmp_path, origin=kafka))
    monkeypatch.setattr(planning, "reported_version", lambda _: "4.3.0")

    with pytest.raises(BadInput, match=said):
        prepared(told, tmp_path, kafka=str(tmp_path), changes={"load": {"engine": "java", "client": client}})
    assert left_under_runs(tmp_path) == []


def test_changes_that_do_not_fit_are_refused(told: str, tmp_path: Path) -> None:
    """Changes that do not fit are rejected with "as changed" in the message, and leave no folder."""
    with pytest.raises(BadInput, match=r"small\.yaml, as changed: load: unknown field 'rat'; known: "):
        prepared(told, tmp_path, changes={"load": {"rat": 5}})
    assert left_under_runs(tmp_path) == []


def test_labels_go_with_the_run(told: str, tmp_path: Path) -> None:
    """Labels are kept in the plan; by default there are none."""
    plans = [World(prepared(told, tmp_path, **change)).plan for change in ({"labels": {"role": "base"}}, {})]

    assert [plan.labels for plan in plans] == [{"role": "base"}, {}]


def test_resource_limits_need_a_network_of_their_own(told: str, tmp_path: Path) -> None:
    """Resource limits are rejected for local processes, which have no network namespace, before anything starts."""
    with pytest.raises(BadInput, match="Scenario small needs resource_limits, which the process runtime cannot do"):
        prepared(told, tmp_path, changes={"cluster": {"resource_limits": {"cpus": 0.5}}})
    assert left_under_runs(tmp_path) == []


def test_a_limit_to_cpus_that_are_not_there_is_refused(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU set with CPUs that the host lacks is rejected; Docker would fail during the run."""
    monkeypatch.setattr(planning, "choose_runtime", lambda _: "docker")
    monkeypatch.setattr(image, "fetch_what_nodes_need", lambda _: None)
    monkeypatch.setattr(planning.os, "sched_getaffinity", lambda _: {0, 1})

    with pytest.raises(BadInput, match=r"Scenario small asks for CPUs 0,2-3; this host has \[0, 1\]"):
        prepared(told, tmp_path, changes={"cluster": {"resource_limits": {"cpu_set": "0,2-3"}}})
    assert left_under_runs(tmp_path) == []
    assert prepared(told, tmp_path, changes={"cluster": {"resource_limits": {"cpu_set": "0-1"}}}).is_dir()


def test_a_rate_without_a_load_is_refused(told: str, tmp_path: Path) -> None:
    """A rate for a scenario without a load is rejected."""
    Path(told).write_text(SCENARIO.replace("load: {topic: orders, rate: 500/s}\n", ""))

    with pytest.raises(BadInput, match="--rate=100 was given, but scenario small has no load"):
        prepared(told, tmp_path, rate=100.0)


def test_one_rate_for_several_loads_is_refused(told: str, tmp_path: Path) -> None:
    """One rate for several loads is rejected as ambiguous."""
    changes = {"load": None, "loads": {"a": {"topic": "orders"}, "b": {"topic": "orders"}}}

    with pytest.raises(BadInput, match="--rate=100 was given, but scenario small has several loads; set their rates"):
        prepared(told, tmp_path, rate=100.0, changes=changes)


def test_an_address_in_use_is_refused(told: str, tmp_path: Path) -> None:
    """A subnet with an address in use is rejected; once the address is free, it is accepted."""
    with (
        socket.create_server(("127.91.17.12", PORTS["PROBE"])),
        pytest.raises(BadInput, match=r"--subnet=127\.91\.17: the address 127\.91\.17\.12:9093 is in use; name"),
    ):
        prepared(told, tmp_path, subnet="127.91.17")
    assert left_under_runs(tmp_path) == []

    assert World(prepared(told, tmp_path, subnet="127.91.17")).plan.made.subnet == "127.91.17"


class FixedDatetime:
    """A clock that stands still."""

    @staticmethod
    def now(_zone: tzinfo) -> datetime:
        return datetime(2026, 11, 29, tzinfo=UTC)


def test_a_run_id_that_is_taken_leaves_the_other_run_alone(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs are prepared in one second and draw the same four letters; the second draws again."""
    drawn = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("clusters.run.prepare.secrets.token_hex", lambda _: next(drawn))
    monkeypatch.setattr("clusters.run.prepare.datetime", FixedDatetime)
    asked: dict[str, Any] = {"kafka": "3.9.1", "runs": tmp_path / "runs", "runtime": "process"}

    first = prepare(told, **asked)
    try:
        second = prepare(told, **asked)
    except OSError:
        second = first

    assert (RunFolder(first).work / "plan.json").exists()
    assert second.name == first.name.removesuffix("aaaa") + "bbbb"
