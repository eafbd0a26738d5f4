"""Before and after a run: preparation, leases, and removal of leftovers."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.clients import nodes as client_nodes
from clusters.kafka import builds
from clusters.live.world import Plan, World
from clusters.run import experiment
from clusters.run import leftovers as leftovers_module
from clusters.run import prepare as planning
from clusters.run.experiment import collect, hold_lease, prepare, reap, run_phase, tear_down
from clusters.runtimes import kernel
from clusters.runtimes.docker import daemon, image
from clusters.runtimes.ports import PORTS
from history.errors import BadInput, EvidenceError, HarnessError, NotRemoved, WaitTimeout
from history.events import read_events
from history.folder import RunFolder
from history.partition import TopicPartition
from tests.clusters.fakes import FakeWorld, scenario

SCENARIO = """
name: small
why: A sound one.
cluster: {brokers: 2}
topics: {orders: {replicas: [A, B]}}
load: {topic: orders, rate: 500/s}
phases:
  - steady: [{hold: 4s}, {wait: {for: {isr_full: orders}, limit: 20s}}, {pause: A}]
"""


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without Docker, with the jars of every version."""
    monkeypatch.setattr(daemon, "daemon_answers", lambda: False)
    monkeypatch.setattr(builds, "kafka_jars", lambda version: Path("/jars") / version)


@pytest.fixture
def told(tmp_path: Path) -> str:
    """The path of a small scenario."""
    (tmp_path / "small.yaml").write_text(SCENARIO)
    return str(tmp_path / "small.yaml")


def prepared(told: str, tmp_path: Path, **change: Any) -> Path:
    """Prepare a run with these changes, under ``runs/``."""
    return prepare(told, **{"kafka": "3.9.1", "runs": tmp_path / "runs", **change})


def left_under_runs(tmp_path: Path) -> list[Path]:
    """Return the files under ``runs/``."""
    return list((tmp_path / "runs").rglob("*"))


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

    assert {name: (build.version, build.jars) for name, build in kraft.builds.items()} == {
        "3.9.1": ("3.9.1", Path("/jars/3.9.1"))
    }
    assert (kraft.scenario.cluster.metadata_version, zookeeper.scenario.cluster.metadata_version) == (None, "3.8")


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


# --- prepare -----------------------------------------------------------------------------------


def test_a_prepared_run_is_a_folder_with_its_plan(told: str, tmp_path: Path) -> None:
    """A prepared run is a folder with a lease and a fully resolved plan."""
    run = prepared(told, tmp_path, rate=50.0, seed=7)
    plan = World(run).plan

    assert sorted(path.name for path in (run / "work").iterdir()) == ["lease", "plan.json"]
    assert (plan.kafka_version, plan.mode, plan.runtime, plan.seed) == ("3.9.1", "kraft", "process", 7)
    assert plan.jars == Path("/jars/3.9.1")
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

    with pytest.raises(BadInput, match="Scenario small needs network, which the process runtime cannot do; use --ru"):
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

    assert World(prepared(told, tmp_path, subnet="127.91.17")).plan.subnet == "127.91.17"


@pytest.mark.parametrize(
    ("answers", "missing"),
    [
        ({1: {0: 7, 1: 0}, 2: {0: 7, 1: 0}}, []),
        ({1: {0: 7, 1: 0}, 2: {0: 7, 1: None}}, ["orders-1 on broker 2"]),  # an error has no log end
        ({1: {0: 7, 1: 0}, 2: {}}, ["orders-0 on broker 2", "orders-1 on broker 2"]),  # it does not answer
    ],
)
def test_a_topic_is_there_once_every_broker_has_its_replicas(answers: Any, missing: list[str]) -> None:
    """A topic exists once every broker reports its replicas; the ISR does not matter."""
    partitions = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    world: Any = SimpleNamespace(
        partitions=partitions,
        replicas=lambda partition: list(answers),
        samples=lambda number, wanted: {
            TopicPartition("orders", at): SimpleNamespace(log_end_offset=end) for at, end in answers[number].items()
        },
    )

    assert experiment._without_replica(world) == missing


# --- leases, reaping, removing -----------------------------------------------------------------


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces the removal of runs; lists the names of removed runs."""
    runs: list[str] = []

    def remove(run: Path) -> list[str]:
        runs.append(run.name)
        return [f"{run.name}/broker-1"]

    monkeypatch.setattr(leftovers_module, "_remove_all", remove)
    return runs


def leftovers(monkeypatch: pytest.MonkeyPatch, *runs: Path) -> None:
    """Let these runs have processes."""
    monkeypatch.setattr(leftovers_module, "_runs_with_processes", lambda: list(runs))
    monkeypatch.setattr(leftovers_module, "_runs_on_docker", list)


def test_a_held_lease_spares_the_run(
    told: str, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is spared while its lease is held, and removed afterwards."""
    run = prepared(told, tmp_path, lease="process")
    leftovers(monkeypatch, run)

    with hold_lease(run):
        assert reap() == []
    assert reap() == [f"{run.name}/broker-1"]


def test_a_trial_is_spared_while_it_lasts(removed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel trial is spared while it lasts, and its leftovers are found like a run's."""
    with leftovers_module.hold_trial() as trial:
        leftovers(monkeypatch, trial)
        assert reap() == []
    assert reap() == [f"{trial.name}/broker-1"]


class Clock:
    """A clock that moves only on request; it replaces ``time`` and the event that ends the renewal."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.until = 0.0
        self.arrived = Event()
        self.on_tick: Callable[[], object] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        if self.now >= self.until:
            self.arrived.set()
            return True
        self.now += seconds
        self.on_tick()
        return False

    def set(self) -> None:
        """The renewal ends at the set time."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of leases."""
    told = Clock()
    monkeypatch.setattr(leftovers_module, "time", told)
    monkeypatch.setattr(leftovers_module, "Event", lambda: told)
    return told


@pytest.mark.parametrize(("work_s", "dies"), [(0, False), (3900, False), (3900, True)])
def test_a_lease_by_time_is_renewed_by_whoever_works(  # noqa: PLR0917  # of four fixtures and a case
    told: str,
    tmp_path: Path,
    removed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
    work_s: float,
    dies: bool,
) -> None:
    """A timed lease is renewed while a step works, also for more than an hour; after a worker's death it expires."""
    run = prepared(told, tmp_path, lease="time")
    leftovers(monkeypatch, run)
    clock.until = clock.now + work_s
    clock.on_tick = reap
    if dies:  # nothing is renewed after its last tick
        renew = leftovers_module._renew_lease
        monkeypatch.setattr(leftovers_module, "_renew_lease", lambda run: clock.now < clock.until and renew(run))
    with leftovers_module.hold_step(run, 1):
        assert clock.arrived.wait(30)
    assert clock.now == 1000 + work_s

    clock.now += leftovers_module.LEASE_S - leftovers_module._RENEWED_EVERY_S - 1
    assert reap() == []
    clock.now += leftovers_module._RENEWED_EVERY_S + 2
    assert removed == []
    assert reap() == [f"{run.name}/broker-1"]


def test_the_lease_of_a_process_is_not_renewed(
    told: str, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process lease is not renewed by a step, since its tasks may outlive the command that held it."""
    run = prepared(told, tmp_path, lease="process")
    leftovers(monkeypatch, run)

    with leftovers_module.hold_step(run, 1):
        assert reap() == [f"{run.name}/broker-1"]


@pytest.mark.parametrize("lease", ["{", '{"expires_s": "x"}'])
def test_a_lease_that_is_not_sound_stays_so(told: str, tmp_path: Path, lease: str) -> None:
    """A malformed lease is left unchanged, and work on the run continues."""
    run = prepared(told, tmp_path, lease="time")
    (run / "work" / "lease").write_text(lease)
    with leftovers_module.hold_step(run, 1):
        pass
    assert (run / "work" / "lease").read_text() == lease


def test_all_runs_are_all(told: str, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """``all_runs`` also removes runs whose lease is held."""
    held, free = (prepared(told, tmp_path, lease="process") for _ in range(2))
    leftovers(monkeypatch, held, free)

    with hold_lease(held):
        assert reap() == [f"{free.name}/broker-1"]
        reap(all_runs=True)
    assert removed == [free.name, held.name, free.name]


def test_a_run_that_resists_keeps_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that cannot be removed does not keep others from being removed; the error names it."""
    leftovers(monkeypatch, tmp_path / "1-stuck", tmp_path / "2")
    monkeypatch.setattr(leftovers_module, "_runs_on_docker", lambda: [tmp_path / "3"])

    def remove(run: Path) -> list[str]:
        if run.name == "1-stuck":
            raise WaitTimeout("Waited 10 s for the processes of 1-stuck to end.")
        return [f"{run.name}/broker-1"]

    monkeypatch.setattr(leftovers_module, "_remove_all", remove)
    with pytest.raises(NotRemoved, match="Waited 10 s for the processes of 1-stuck to end") as error:
        reap()
    assert error.value.removed == ["2/broker-1", "3/broker-1"]


@pytest.mark.parametrize("named", ["DOCKER_HOST", "the socket"])
def test_a_docker_that_does_not_answer_has_not_said_that_nothing_is_left(
    named: str, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Docker does not answer, removal raises an error with its address; without Docker there is no error."""
    monkeypatch.setattr(leftovers_module, "_runs_with_processes", lambda: [tmp_path / "a-run"])
    monkeypatch.setattr(leftovers_module, "_DOCKER", tmp_path / "docker.sock")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert reap() == ["a-run/broker-1"]

    if named == "DOCKER_HOST":
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    else:
        (tmp_path / "docker.sock").touch()
    with pytest.raises(NotRemoved, match=rf"Docker does not answer at .*{tmp_path}/docker.sock") as error:
        reap()
    assert error.value.removed == ["a-run/broker-1"]


@pytest.mark.parametrize("is_started", [True, False])
def test_a_docker_that_is_not_started_has_no_runs(
    is_started: bool, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run ignores a Docker daemon that is not started, but not one that listens without answering."""
    monkeypatch.setattr(leftovers_module, "_runs_with_processes", lambda: [tmp_path / "a-run"])
    monkeypatch.chdir(tmp_path)  # a socket's address has 107 characters at most
    monkeypatch.setattr(leftovers_module, "_DOCKER", Path("/proc/self/cwd/docker.sock"))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind("docker.sock")
        if is_started:
            daemon.listen()
        with pytest.raises(NotRemoved, match="Docker does not answer") if is_started else nullcontext():
            reap(docker_may_be_down=True)
    assert removed == ["a-run"]


@pytest.mark.parametrize(
    "lease",
    [
        *(None, "", "{", "[]", "7", "{}", '{"expires_s": null}', '{"expires_s": "x"}', '{"expires_s": 1e99}'),
        '{"expires_s": 1e99, "boot": "of another start of the host"}',
    ],
)
def test_a_run_without_a_sound_lease_is_nobodys(
    tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch, lease: str | None
) -> None:
    """A run without a valid lease, or without its folder, is removed."""
    run = tmp_path / "a-run"
    if lease is not None:
        (run / "work").mkdir(parents=True)
        (run / "work" / "lease").write_text(lease)
    leftovers(monkeypatch, run)

    assert reap() == ["a-run/broker-1"]


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another user's run, whose folder is not readable."""
    run = tmp_path / "closed"
    (run / "work").mkdir(parents=True)
    (run / "work" / "lease").write_text('{"expires_s": 0}')

    def guarded(plain: Any) -> Any:
        def call(path: Path, *arguments: Any, **more: Any) -> Any:
            if run in path.parents:
                raise PermissionError(13, "Permission denied", str(path))
            return plain(path, *arguments, **more)

        return call

    for name in ("open", "stat"):
        monkeypatch.setattr(Path, name, guarded(getattr(Path, name)))
    return run


def test_a_run_that_cannot_be_looked_into_is_somebodys(
    closed: Path, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose folder is not readable is spared; another run without a lease is removed."""
    leftovers(monkeypatch, closed, tmp_path / "gone")

    assert reap() == ["gone/broker-1"]


def test_of_a_run_that_cannot_be_looked_into_the_folder_stays(
    closed: Path, tmp_path: Path, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``all_runs`` an unreadable run's nodes are removed too, and its folder stays."""
    leftovers(monkeypatch, closed, tmp_path / "gone")

    assert reap(all_runs=True) == ["closed/broker-1", "gone/broker-1"]


@pytest.mark.parametrize(
    ("plan", "asked"),
    [
        ('{"runtime": "docker"}', ["process", "docker"]),
        ('{"runtime": "process"}', ["process"]),
        ("{", ["process"]),
        (None, ["process"]),
    ],
)
def test_docker_is_asked_about_a_run_that_was_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str | None, asked: list[str]
) -> None:
    """Docker is queried about a run that was on it, even if the daemon seems down."""
    if plan is not None:
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "plan.json").write_text(plan)
    monkeypatch.setattr(leftovers_module, "open_runtime", lambda name, _run: SimpleNamespace(remove_all=lambda: [name]))

    assert tear_down(tmp_path) == asked


def test_work_goes_once_the_run_is_sealed(told: str, tmp_path: Path, removed: list[str]) -> None:
    """The work folder is removed after the run is sealed, not before; a repeated call is no error."""
    run = prepared(told, tmp_path)
    tear_down(run)
    assert (run / "work" / "plan.json").exists()

    RunFolder(run).seal()
    tear_down(run)
    tear_down(run)
    assert not (run / "work").exists()
    assert RunFolder(run).check_seal() == []


def test_a_collected_run_stays_as_it_is(told: str, tmp_path: Path) -> None:
    """Collecting a sealed run again changes nothing, and a phase in it is an error."""
    run = prepared(told, tmp_path)
    RunFolder(run).seal()
    collect(run)

    with pytest.raises(HarnessError, match=f"{run.name} is collected; start a new run"):
        run_phase(run, 0)
    assert RunFolder(run).check_seal() == []


def test_a_folder_without_a_plan_is_no_run(tmp_path: Path) -> None:
    """A folder without a plan is rejected with its name and the command that starts a run."""
    with pytest.raises(EvidenceError, match=r"nothing is no run that is under way; start a new one with `make run`"):
        World(tmp_path / "nothing")


def test_a_plan_survives_its_file(told: str, tmp_path: Path) -> None:
    """A plan read back from its file is equal, since every task reads it."""
    plan = World(prepared(told, tmp_path, subnet="127.91.18")).plan

    assert Plan.model_validate_json(plan.model_dump_json()) == plan


# --- phases and clients, on a world that is played ---------------------------------------------


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A world of three brokers and two phases, which records captures as events."""
    played: Any = FakeWorld(tmp_path / "a-run", scenario([{"hold": "1ms"}], [{"resume": "A"}]))
    monkeypatch.setattr(experiment.World, "open", lambda _run, _limit_s=None: nullcontext(played))
    monkeypatch.setattr(experiment, "capture_offsets", lambda world, label: world.events.add("capture", target=label))
    monkeypatch.setattr(experiment, "record_usage", lambda world, label: world.events.add("usage", target=label))
    return played


def test_secrets_are_made_for_the_run_and_stand_in_no_setting(told: str, tmp_path: Path) -> None:
    """With security each broker, each client and the harness gets a certificate, and settings contain no secret."""
    changes = {"cluster": {"security": {"tls": "mutual", "sasl": "PLAIN"}}}
    run = prepared(told, tmp_path, runtime="process", changes=changes)
    (run / "work" / "prefix").write_text("127.1.2")
    opened = World(run)
    experiment._secure(opened)
    folder = run / "work" / "security"
    keys = [key for file in folder.glob("*.pem") for key in file.read_text().splitlines() if "-----" not in key]
    settings = str(experiment._server_configs(opened))

    clients = {"producer", "consumer", "prober", "drain", "copier"}
    names = {"broker-1", "broker-2", *clients, "plimsoll-world", "authority"}
    assert {file.stem for file in folder.glob("*.pem")} == names
    assert "sasl.jaas.config" in settings
    assert [secret for secret in [(folder / "password").read_text(), *keys] if secret in settings] == []

    plain = prepared(told, tmp_path, runtime="process")
    experiment._secure(World(plain))
    assert not (plain / "work" / "security").exists()


def test_a_phase_is_framed_and_captured(world: Any) -> None:
    """A phase has its start and end events, usage at both, and a capture at its end."""
    run_phase(world.folder.path, 0)

    kinds = [event.kind for event in world.seen("phase_started", "step", "capture", "phase_ended", "error", "usage")]
    assert kinds == ["usage", "phase_started", "step", "usage", "capture", "phase_ended"]
    assert [event.target for event in world.seen("usage")] == ["phase 1: start", "phase 1"]


def test_a_phase_that_breaks_is_captured_all_the_same(world: Any) -> None:
    """A phase that fails is captured, and its error is recorded and raised."""
    with pytest.raises(HarnessError, match="broker-1 has no pause active"):
        run_phase(world.folder.path, 1)

    found = world.seen("error", "capture", "phase_ended")
    assert [event.kind for event in found] == ["error", "capture", "phase_ended"]
    assert found[0].phase == "phase 2"


def test_a_phase_is_not_begun_without_its_clients(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A phase does not begin if a client has died."""
    monkeypatch.setattr("clusters.faults.phase.died", lambda _: [SimpleNamespace(name="prober")])
    with pytest.raises(HarnessError, match="A client died: prober is absent"):
        run_phase(world.folder.path, 0, "phase 1")

    assert [event.kind for event in world.seen("error", "step", "phase_ended")] == ["error", "phase_ended"]


def test_a_phase_is_not_begun_twice(world: Any) -> None:
    """A phase cannot begin twice; another phase can."""
    run_phase(world.folder.path, 0, "phase 1")
    before = world.folder.events.read_text()

    with pytest.raises(HarnessError, match="The phase 'phase 1' of a-run was begun before; start a new run"):
        run_phase(world.folder.path, 0, "phase 1")
    assert world.folder.events.read_text() == before
    with pytest.raises(HarnessError, match="has no pause active"):
        run_phase(world.folder.path, 1, "phase 2")


@pytest.mark.parametrize(("index", "name"), [(0, "phase 2"), (2, "phase 3")])
def test_a_phase_of_another_scenario_is_refused(world: Any, index: int, name: str) -> None:
    """A phase that the plan does not have under that number and name is rejected."""
    with pytest.raises(HarnessError, match=f"Phase {index + 1} of a-run is not '{name}'; it has .*, start a new run"):
        run_phase(world.folder.path, index, name)
    assert not world.folder.events.exists()


@pytest.mark.parametrize(
    ("call", "there", "said"),
    [
        (experiment.start_clients, "streams", "The clients of a-run were started before"),
        (experiment.drain, "drain", "a-run was drained before"),
    ],
)
def test_clients_are_not_started_twice(world: Any, call: Any, there: str, said: str) -> None:
    """Clients and the drain are not started twice, since they would overwrite what they recorded."""
    (world.folder.work / there).mkdir()

    with pytest.raises(HarnessError, match=f"{said}; start a new run"):
        call(world.folder.path)
    assert (world.started, world.folder.events.exists()) == ([], False)


@pytest.mark.parametrize(
    ("call", "adds"),
    [
        (partial(experiment.capture, label="after"), ["usage", "capture"]),
        (experiment.quiesce, ["quiesced"]),
        (experiment.stop_producers, []),
        (experiment.stop_clients, []),
    ],
)
def test_what_looks_or_ends_may_be_done_again(
    world: Any, call: Any, adds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Captures and waits may be repeated and record again; ended clients are not stopped again."""
    monkeypatch.setattr(experiment, "_is_quiet", lambda _: True)
    world.events.add("run_started")
    for times in (1, 2):
        call(world.folder.path)
        assert [event.kind for event in read_events(world.folder.events)] == ["run_started", *adds * times]


def test_a_client_that_does_not_end_is_killed(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not exit is killed and recorded, and the next one is stopped; exited ones are skipped."""
    sent: list[tuple[str, str]] = []
    states = {"prober": "running", "consumer": "running", "producer": "exited"}
    world.runtime.state = lambda name: states[name]
    world.runtime.kill = lambda name, signal: sent.append((name, signal))

    def wait(condition: Any, *, what: str, **_: Any) -> None:
        if what.startswith("prober"):
            raise WaitTimeout(what)
        states["consumer"] = "exited"
        assert condition()

    monkeypatch.setattr(client_nodes, "wait_until", wait)
    experiment.stop_clients(world.folder.path)

    assert sent == [("prober", "SIGTERM"), ("consumer", "SIGTERM"), ("prober", "SIGKILL")]
    assert [event.target for event in world.seen("error")] == ["prober"]
    assert [event.target for event in world.seen("node_exited")] == ["prober", "consumer"]


def test_a_producer_that_a_failure_left_running_has_time_for_its_answers(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running producer is stopped first and has the delivery time-out for its answers; others have 15 s."""
    world.scenario = scenario([{"hold": "1ms"}], load={"topic": "orders", "delivery_timeout": "20s"})
    running = {"prober", "consumer", "producer"}
    world.runtime.state = lambda name: "running" if name in running else "exited"
    world.runtime.kill = lambda name, _: running.remove(name)
    limits: dict[str, float] = {}
    monkeypatch.setattr(client_nodes, "wait_until", lambda _, *, limit_s, what: limits.update({what: limit_s}))
    experiment.stop_clients(world.folder.path)

    assert list(limits.items()) == [("producer to end", 35), ("prober to end", 15), ("consumer to end", 15)]


SHARED = {"topic": "orders", "group": {"protocol": "share", "lock": "2s"}}


@pytest.mark.parametrize("still", [True, False])
def test_a_share_group_comes_to_rest_before_its_members_end(
    world: Any, monkeypatch: pytest.MonkeyPatch, still: bool
) -> None:
    """Share members end after two locks and 6 s without a delivery; if that wait times out, it is recorded."""
    asked: list[tuple[float, str]] = []

    def wait(_: Any, *, limit_s: float, what: str, **_other: Any) -> None:
        asked.append((limit_s, what))
        if not still:
            raise WaitTimeout(what)

    monkeypatch.setattr(experiment, "wait_until", wait)
    world.runtime.state = lambda _: "exited"
    experiment.stop_clients(world.folder.path)
    assert asked == []

    world.scenario = scenario([{"hold": "1ms"}], load=SHARED)
    experiment.stop_clients(world.folder.path)
    assert asked == [(55.0, "no delivery to a member of the share group for 10 s")]
    assert [event.step for event in world.seen("step" if still else "wait_timed_out")] == ["settle"]


def test_a_group_is_at_rest_once_nothing_was_given_for_long_enough(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share group is at rest after enough time without a delivery; a late record restarts the wait."""
    world.scenario = scenario([{"hold": "1ms"}], load=SHARED)
    given = iter([5, 5, 6, 6, 6])
    now = iter([0.0, *(t for each in (1.0, 8.0, 9.0, 18.5, 19.5) for t in (each, each))])
    times = [0.0]

    def tick() -> float:
        times[0] = next(now, times[0])
        return times[0]

    seen: list[bool] = []
    monkeypatch.setattr(experiment, "member_names", lambda _: ["member-1"])
    monkeypatch.setattr(experiment, "given_to", lambda *_: next(given))
    monkeypatch.setattr(experiment.time, "monotonic", tick)
    monkeypatch.setattr(experiment, "wait_until", lambda condition, **_: seen.extend(condition() for _ in range(5)))
    experiment._settle_group(world)

    assert seen[:2] == [False, False]
    assert seen[-1] is True


def test_a_share_group_is_set_up_before_its_members(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share group is configured to read from the beginning before its members start; a consumer group is not."""
    told: list[tuple[str, str, dict[str, str]]] = []
    world.connect = lambda *_: nullcontext()
    monkeypatch.setattr(experiment, "alter_config", lambda _, *what: told.append(what))
    for load in ({"topic": "orders", "group": {"members": 1}}, SHARED):
        world.scenario = scenario([{"hold": "1ms"}], load=load)
        experiment._set_up_group(world)

    settings = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_uncommitted"}
    assert told == [("group", "plimsoll", settings)]


@pytest.mark.parametrize(("kafka", "level"), [("4.1.2", None), ("4.3.0", "4.1")])
def test_a_share_group_is_refused_where_it_is_not_ready(tmp_path: Path, kafka: str, level: str | None) -> None:
    """A share group is rejected if the brokers' version or metadata.version is too old for it."""
    text = SCENARIO.replace("rate: 500/s", "rate: 500/s, group: {protocol: share}")
    cluster = f"{{brokers: 2, metadata_version: '{level}'}}" if level else "{brokers: 2}"
    (tmp_path / "small.yaml").write_text(text.replace("{brokers: 2}", cluster))

    with pytest.raises(BadInput, match=r"protocol: share \(KIP-932\) needs Kafka 4.2 or newer, not 4.1"):
        prepared(str(tmp_path / "small.yaml"), tmp_path, kafka=kafka)
    assert left_under_runs(tmp_path) == []
