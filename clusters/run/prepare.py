"""Check a run's request and make its folder."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from clusters.attached.cluster_file import Described
from clusters.kafka.builds import Build, build_of, has_class, reported_version
from clusters.kafka.features import metadata_level
from clusters.kafka.jars import is_release, metrics_agent, tools_jars, version_of
from clusters.kafka.servers import check_java, check_storage, choose_mode
from clusters.live.plan import MadeCluster, Plan
from clusters.run.attached import planned
from clusters.run.leftovers import Lease, hold_scratch_run, write_lease
from clusters.runtimes import capabilities, choose_runtime, open_runtime
from clusters.scenario.load import Load
from clusters.scenario.scenario import Scenario, cpus_of, load_scenario, parse_scenario
from history.errors import BadInput
from history.folder import RunFolder
from history.java import Java, java_of
from history.kafka_versions import CLIENT_RELEASES, OLDEST, Mode, Version


def prepare(
    scenario: str | Mapping[str, Any],
    *,
    kafka: str,
    runtime: str = "auto",
    rate: float | None = None,
    seed: int | None = None,
    runs: Path,
    subnet: str | None = None,
    cluster: Path | Described | None = None,
    lease: Lease = "time",
    changes: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Path:
    """Check the request and make the run's folder, or none on errors; start nothing.

    ``scenario`` is a name, a file, or its content; ``cluster`` somebody else's, without kafka, runtime and subnet.
    ``changes`` is a JSON merge patch (RFC 7396) on the scenario. ``lease`` protects the run from ``reap``: by the
    caller's life (``hold_lease``), or by time, which ``hold_step`` renews.

    Raises: BadInput: the request is invalid or unsupported. OSError: the folder cannot be written.
    """
    parsed = _scenario(scenario, changes, rate)
    if cluster:
        plan = attached_plan(parsed, cluster, seed=seed, labels=labels or {})
    else:
        plan = _plan(parsed, kafka, runtime=runtime, seed=seed, subnet=subnet, labels=labels or {})
        _check_resource_limits(plan.scenario, runs)
    folder = _new_folder(runs.resolve(), _stem(plan))
    try:
        folder.work.mkdir()
        plan.write(folder)
        if isinstance(cluster, Described):
            cluster.write_settings(folder.work)
        write_lease(folder.path, lease)
    except OSError:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    return folder.path


def _stem(plan: Plan) -> str:
    name = plan.scenario.name.replace("_", "-")
    kafka = "own-cluster" if plan.attached else re.sub("[^A-Za-z0-9]+", "-", plan.kafka_version)
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{name}-{kafka}"[:57].rstrip("-")


def _new_folder(runs: Path, stem: str) -> RunFolder:
    runs.mkdir(parents=True, exist_ok=True)
    while True:
        folder = RunFolder(runs / f"{stem}-{secrets.token_hex(2)}")
        with suppress(FileExistsError):
            folder.path.mkdir()
            return folder


def check(
    scenario: str,
    *,
    kafka: str,
    runtime: str = "auto",
    cluster: Path | Described | None = None,
    changes: Mapping[str, Any] | None = None,
) -> None:
    """Check as ``prepare`` does, and fetch what the run needs; make no folder."""
    parsed = _scenario(scenario, changes, None)
    if cluster:
        attached_plan(parsed, cluster, seed=None, labels={})
    else:
        _plan(parsed, kafka, runtime=runtime, seed=None, subnet=None, labels={})


def _scenario(given: str | Mapping[str, Any], changes: Mapping[str, Any] | None, rate: float | None) -> Scenario:
    if isinstance(given, str):
        scenario = load_scenario(given, changes)
    else:
        scenario = parse_scenario(json.dumps(given), "the given scenario", changes)
    if scenario.cluster.ids:
        raise BadInput(f"Scenario {scenario.name} sets cluster.ids, which only --cluster does; leave it out.")
    return with_rate(scenario, rate)


def _plan(
    scenario: Scenario,
    kafka: str,
    *,
    runtime: str,
    seed: int | None,
    subnet: str | None,
    labels: Mapping[str, str],
) -> Plan:
    version = reported_version(kafka)
    mode = choose_mode(version, scenario.cluster.mode)
    upgrades = {name: reported_version(name) for name in (step.upgrades_to for step in scenario.steps) if name}
    _check_versions(scenario, version, mode, upgrades)
    if upgrades and mode == "zookeeper" and scenario.cluster.metadata_version is None:
        scenario = _with_protocol(scenario, version)
    chosen = _runtime_for(scenario, runtime)
    _check_subnet(chosen, subnet)
    build, java = build_of(kafka), java_of(scenario.cluster.java)
    check_java(version, scenario.cluster, java)
    if chosen == "docker":
        _prepare_docker(scenario, java)
    _check_classes(scenario, build)
    made = MadeCluster(
        kafka_version=build.version,
        jars=build.jars,
        origin=build.origin,
        builds={name: build_of(name) for name in upgrades},
        agent=metrics_agent() if scenario.cluster.metrics else None,
        mode=mode,
        runtime=chosen,
        subnet=subnet,
    )
    return Plan(
        scenario=scenario,
        java=java,
        clients={name: _client(load, kafka) for name, load in scenario.named_loads.items() if load.engine == "java"},
        seed=_seed(seed),
        labels=dict(labels),
        cluster=made,
    )


def attached_plan(scenario: Scenario, given: Path | Described, *, seed: int | None, labels: Mapping[str, str]) -> Plan:
    """Return the plan of a run on somebody else's cluster; raise BadInput if it is impossible or not permitted."""
    own, cluster = planned(scenario, given)
    return Plan(
        scenario=own,
        java=java_of(),
        clients={name: _client(load, "") for name, load in own.named_loads.items() if load.engine == "java"},
        seed=_seed(seed),
        labels=dict(labels),
        cluster=cluster,
    )


def _seed(seed: int | None) -> int:
    return secrets.randbelow(2**31) if seed is None else seed


def _check_versions(scenario: Scenario, version: str, mode: Mode, upgrades: Mapping[str, str]) -> None:
    check_storage(version, mode, scenario.cluster)
    if scenario.group and (why := scenario.group.unknown_to(_oldest(version, scenario), mode)):
        raise BadInput(f"Scenario {scenario.name}: {why}")
    _check_controllers(scenario, mode)
    _check_upgrades(version, mode, upgrades, scenario)
    if why := scenario.unknown_setting([version_of(each) for each in (version, *upgrades.values())]):
        raise BadInput(f"Scenario {scenario.name}: {why}.")


def _runtime_for(scenario: Scenario, runtime: str) -> Literal["docker", "process"]:
    if "owner" in scenario.needs:
        raise BadInput(f"Scenario {scenario.name} waits for the owner of a cluster; name one with --cluster.")
    chosen = choose_runtime(runtime)
    advice = "use --runtime=docker" if runtime == "process" else "start Docker, whose daemon does not answer"
    check_capabilities(scenario, capabilities(chosen), f"the {chosen} runtime", advice)
    return chosen


def check_capabilities(scenario: Scenario, can: frozenset[str], who: str, advice: str) -> None:
    """Raise BadInput, with what lacks and the steps that need it, unless a cluster can do what the scenario needs."""
    if lacking := scenario.needs - can:
        steps = dict.fromkeys(step.key for step in scenario.steps if step.required & lacking)
        named = f" for {', '.join(steps)}" if steps.keys() - lacking else ""
        needed = ", ".join(sorted(lacking))
        raise BadInput(f"Scenario {scenario.name} needs {needed}{named}, which {who} cannot do; {advice}.")


def _check_classes(scenario: Scenario, build: Build) -> None:
    """Reject a class that no jar has, unless a ``.path`` setting is set: the broker would exit."""
    for name, value in scenario.cluster.config.items():
        if (
            not name.endswith((".class", ".class.name"))
            or name.removesuffix(".name") + ".path" in scenario.cluster.config
        ):
            continue
        if not has_class(build.jars, value):
            raise BadInput(
                f"Scenario {scenario.name}: cluster.config.{name} names {value}, a class that no jar of Kafka "
                f"{build.version} has; correct it, or use a build with that jar."
            )


def _oldest(version: str, scenario: Scenario) -> str:
    level = scenario.cluster.metadata_version
    return level if level and Version.parse(level) < Version.parse(version) else version


def _client(load: Load, kafka: str) -> Build:
    release = load.client or kafka
    if not is_release(release):
        raise BadInput(
            f"engine: java has no released client of {kafka or 'this cluster'}; name one, such as client: "
            f"{CLIENT_RELEASES[0]}."
        )
    if Version.parse(release) < OLDEST:
        raise BadInput(f"client: {release} is too old; the oldest client that can be the load is {OLDEST}.")
    return Build(version=release, jars=tools_jars(release))


def _prepare_docker(scenario: Scenario, java: Java) -> None:
    from clusters.runtimes.docker.image import fetch_what_nodes_need
    from clusters.runtimes.kernel import OF_EVERY_RUN, lacking

    fetch_what_nodes_need(java)
    missing = lacking((*OF_EVERY_RUN, *(part for step in scenario.steps for part in step.kernel)), hold_scratch_run)
    for part in (missing[name] for name in OF_EVERY_RUN if name in missing):
        raise BadInput(
            f"Every run on docker pauses its servers, for which this host's kernel lacks {part.name}; "
            f"use {part.instead}, or a kernel that has it."
        )
    for step in scenario.steps:
        for part in (missing[name] for name in step.kernel if name in missing):
            raise BadInput(
                f"Scenario {scenario.name} has the step {step.key}, for which this host's kernel lacks {part.name}; "
                f"use {part.instead}, or a kernel that has it."
            )


def _check_controllers(scenario: Scenario, mode: Mode) -> None:
    if mode == "kraft":
        if scenario.aims_at_controller:
            raise BadInput(
                f"Scenario {scenario.name} aims at the controller, which is not a broker in KRaft mode; "
                "use mode: zookeeper with Kafka before 4.0, or aim at a broker or at the active controller."
            )
        return
    if scenario.cluster.controllers > 1:
        raise BadInput(
            f"Scenario {scenario.name} asks for {scenario.cluster.controllers} controllers; in ZooKeeper mode one of "
            "the brokers is the controller, so leave cluster.controllers out."
        )
    for step in scenario.steps:
        if not step.may_lack_controllers and any(target.role == "controllers" for target in step.targets):
            raise BadInput(
                f"Scenario {scenario.name} aims {step.key} at the controllers, which are nodes of their own in KRaft "
                "mode only; aim at the active controller."
            )


def _check_upgrades(version: str, mode: Mode, targets: Mapping[str, str], scenario: Scenario) -> None:
    for target in targets.values():
        new, old = version_of(target), version_of(version)
        # Patch releases are compatible both ways.
        if new == old or (new < old and new.minor_release != old.minor_release):
            raise BadInput(f"upgrade: Kafka {target} is no upgrade of Kafka {version}; give an older one.")
        choose_mode(target, mode)
    newest = max(version_of(target) for target in (version, *targets.values()))
    for release in filter(None, (step.finalises for step in scenario.steps)):
        if Version.parse(release) > newest:
            raise BadInput(f"finalise: {release} is newer than every Kafka of this run.")
        if mode == "kraft":
            metadata_level(release)


def _with_protocol(scenario: Scenario, version: str) -> Scenario:
    """Set ZooKeeper-mode brokers' protocol version: new binaries would finalise themselves."""
    cluster = scenario.cluster.model_copy(update={"metadata_version": version_of(version).minor_release})
    return scenario.model_copy(update={"cluster": cluster})


def with_rate(scenario: Scenario, rate: float | None) -> Scenario:
    """Return the scenario with its load at another rate; None: its own."""
    if rate is None:
        return scenario
    if scenario.load is None:
        why = "has several loads; set their rates in its file" if scenario.loads else "has no load"
        raise BadInput(f"--rate={rate:g} was given, but scenario {scenario.name} {why}.")
    if not 0 < rate < math.inf:
        raise BadInput(f"--rate={rate:g} is not a rate; give records per second above 0.")
    return scenario.model_copy(update={"load": scenario.load.model_copy(update={"rate": rate})})


def _check_resource_limits(scenario: Scenario, runs: Path) -> None:
    resource_limits = scenario.cluster.resource_limits
    if resource_limits is None:
        return
    here = os.sched_getaffinity(0)
    for cpu_set in (resource_limits.cpu_set, resource_limits.clients_cpu_set):
        if cpu_set is not None and not cpus_of(cpu_set) <= here:
            raise BadInput(f"Scenario {scenario.name} asks for CPUs {cpu_set}; this host has {sorted(here)}.")
    if resource_limits.disk_read is not None:
        from clusters.runtimes.docker.limits import block_device

        block_device(runs.resolve())


def _check_subnet(runtime: str, subnet: str | None) -> None:
    if subnet is not None:
        with hold_scratch_run() as run:
            scratch = open_runtime(runtime, run)
            try:
                scratch.reserve(subnet)
            finally:
                scratch.remove_all()
