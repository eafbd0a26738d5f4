"""A run, call by call; Airflow's tasks are thin steps around these.

Every call takes the run's folder, finds all else in it, and may be made by another process than the one before.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import structlog
from pydantic import ValidationError

from clusters import kafka
from clusters import scenario as story
from clusters.admin import create_topic
from clusters.capture import capture_offsets, direct_producer_id
from clusters.clients.configs import ClientConfig, ConsumerConfig, DrainConfig, ProberConfig, ProducerConfig
from clusters.collect import collect_clients, collect_servers, write_tables
from clusters.jars import jars_digest, kafka_jars
from clusters.nodes import Node
from clusters.partition import TopicPartition
from clusters.ports import PORTS
from clusters.runtimes import CAPABILITIES, choose_runtime, open_runtime
from clusters.steps import PhaseRun
from clusters.waiting import wait_until
from clusters.wire import Connection
from clusters.world import Plan, World
from history.errors import BadInput, HarnessError, WaitTimeout
from history.folder import RunFolder, write_atomically
from history.java import java_home
from history.manifest import Manifest, NodeInfo, ProducerInfo, TopicInfo

log = structlog.get_logger()

PROBE_HZ = 20.0
ISR_HZ = 10.0
READY_LIMIT_S = 60.0
QUIESCE_LIMIT_S = 30.0
DRAIN_LIMIT_S = 120.0
PRODUCER, CONSUMER, PROBER, DRAIN = "producer", "consumer", "prober", "drain"
_CLIENTS = (PRODUCER, CONSUMER, PROBER, DRAIN)
Lease = Literal["process", "time"]


# --- before anything starts --------------------------------------------------------------------


def prepare(
    scenario: str,
    *,
    kafka: str,
    runtime: str = "auto",
    rate: float | None = None,
    seed: int | None = None,
    runs: Path,
    subnet: str | None = None,
    lease: Lease = "time",
) -> Path:
    """Check everything that was asked for and make the run's folder; nothing is started.

    ``lease`` says what spares the run from ``reap``: the life of the calling process (``hold_lease``), or time.

    Raises:
        BadInput: something cannot be done; no folder is left behind.
    """
    plan = _plan(scenario, kafka, runtime=runtime, rate=rate, seed=seed, subnet=subnet)
    now = datetime.now(UTC)
    name = plan.scenario.name.replace("_", "-")
    stem = f"{now:%Y%m%d-%H%M%S}-{name}-{kafka.replace('.', '-')}"[:57].rstrip("-")
    run_id = f"{stem}-{secrets.token_hex(2)}"
    folder = RunFolder(runs.resolve() / run_id)
    folder.work.mkdir(parents=True)
    write_atomically(folder.work / "plan.json", plan.model_dump_json(indent=1))
    expires = time.time() + 3 * expected_seconds(plan.scenario) + 900 if lease == "time" else 0
    write_atomically(folder.work / "lease", json.dumps({"expires": expires}))
    return folder.path


def _plan(
    scenario: str, version_wanted: str, *, runtime: str, rate: float | None, seed: int | None, subnet: str | None
) -> Plan:
    told = story.load_scenario(scenario)
    if rate is not None:
        told = _with_rate(told, rate)
    mode = kafka.choose_mode(version_wanted, told.cluster.mode)
    if mode == "kraft" and told.aims_at_controller:
        raise BadInput(
            f"Scenario {told.name} aims at the controller, which is no broker in KRaft mode; "
            "use mode: zookeeper with Kafka before 4.0, or aim at a broker."
        )
    chosen = choose_runtime(runtime)
    if lacking := told.needs - CAPABILITIES[chosen]:
        raise BadInput(
            f"Scenario {told.name} needs {', '.join(sorted(lacking))}, which the {chosen} runtime cannot do; "
            "use RUNTIME=docker."
        )
    _check_subnet(chosen, subnet)
    return Plan(
        scenario=told,
        kafka_version=version_wanted,
        jars=kafka_jars(version_wanted),
        mode=mode,
        runtime=chosen,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        subnet=subnet,
    )


def _with_rate(told: story.Scenario, rate: float) -> story.Scenario:
    if told.load is None:
        raise BadInput(f"RATE={rate:g} was given, but scenario {told.name} has no load.")
    if not 0 < rate < math.inf:
        raise BadInput(f"RATE={rate:g} is no rate; give records a second above 0.")
    return told.model_copy(update={"load": told.load.model_copy(update={"rate": rate})})


def _check_subnet(runtime: str, subnet: str | None) -> None:
    """Try the subnet that was asked for, so that one in use is refused before anything starts."""
    if subnet is not None:
        trial = open_runtime(runtime, Path("/nonexistent") / f"trial-{secrets.token_hex(4)}")
        try:
            trial.reserve(subnet)
        finally:
            trial.remove_all()


def expected_seconds(scenario: story.Scenario) -> float:
    """About how long a run takes when every wait takes half of its limit."""
    return 45.0 + sum(_step_seconds(step) for phase in scenario.phases for step in phase.steps)


def _step_seconds(step: story.Step) -> float:
    if isinstance(step, story.Hold):
        return step.seconds
    if isinstance(step, story.Wait | story.Slow):
        return step.limit / 2
    return 2.0


@contextmanager
def hold_lease(run: Path) -> Iterator[None]:
    """Spare the run from ``reap`` for as long as this process lives."""
    with (RunFolder(run).work / "lease").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- setting up --------------------------------------------------------------------------------


def start_cluster(run: Path) -> None:
    """Start the coordinator and all brokers; on failure everything started is removed again.

    Raises:
        HarnessError: a node did not start, or the run is not one that can be started.
    """
    with World.open(run) as world:
        if (world.folder.work / "prefix").exists():
            raise HarnessError(f"{run.name} was started before; a run is never started twice, start a new one.")
        try:
            _start_cluster(world)
        except BaseException as error:
            world.events.add("error", step="start_cluster", why=f"{type(error).__name__}: {error}")
            world.runtime.remove_all()
            raise


def _start_cluster(world: World) -> None:
    world.events.add("run_started", target=world.folder.run_id)
    world.reserve_addresses()
    configs = _server_configs(world)
    for name, config in configs.items():
        folder = world.folder.work / name
        (folder / "data").mkdir(parents=True)
        (folder / "server.properties").write_text(kafka.render(config))
    _manifest(world, configs).write(world.folder.manifest)
    if world.plan.mode == "kraft":
        identity = kafka.cluster_id(world.folder.run_id)
        kafka.format_storage(world.release, world.coordinator, list(world.brokers.values()), identity)
    for node in (world.coordinator, *world.brokers.values()):
        world.start(node)
    world.wait_for_brokers()


def _server_configs(world: World) -> dict[str, dict[str, str]]:
    cluster = world.scenario.cluster
    coordinator = world.coordinator
    configs = {coordinator.name: kafka.coordinator_config(world.release, cluster, coordinator)}
    for node in world.brokers.values():
        configs[node.name] = kafka.broker_config(world.release, cluster, node, coordinator)
    return configs


def _manifest(world: World, configs: dict[str, dict[str, str]]) -> Manifest:
    plan, scenario = world.plan, world.scenario
    nodes = [
        NodeInfo.model_validate(
            {
                "name": node.name,
                "role": node.role,
                "address": node.address,
                "node_id": node.node_id,
                "config": configs[node.name],
            }
        )
        for node in (world.coordinator, *world.brokers.values())
    ]
    topics = {
        name: TopicInfo(assignment=topic.assignment(scenario.cluster.broker_ids), config=topic.config)
        for name, topic in scenario.topics.items()
    }
    try:
        return Manifest(
            run_id=world.folder.run_id,
            scenario_name=scenario.name,
            scenario=scenario.model_dump(),
            scenario_digest=scenario.digest,
            control=scenario.control,
            faults=scenario.faults,
            kafka_version=plan.kafka_version,
            kafka_jars_digest=jars_digest(plan.jars),
            mode=plan.mode,
            runtime=plan.runtime,
            seed=plan.seed,
            started_at=datetime.now(UTC).isoformat(),
            started_ns=time.monotonic_ns(),
            boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            probe_hz=PROBE_HZ,
            nodes=nodes,
            topics=topics,
            producers=_producers(scenario),
            host=host_fingerprint(),
        )
    except ValidationError as error:
        raise HarnessError(f"The manifest of {world.folder.run_id} could not be made: {error}") from error


def _producers(scenario: story.Scenario) -> list[ProducerInfo]:
    found = []
    if load := scenario.load:
        found.append(
            ProducerInfo(
                producer_id=PRODUCER,
                topic=load.topic,
                acks=load.acks,
                idempotence=load.idempotence,
                retries=load.retries,
                engine=load.engine,
                rate_per_s=load.rate,
                record_bytes=load.record_bytes,
            )
        )
    writes = [step for phase in scenario.phases for step in phase.steps if isinstance(step, story.Write)]
    found += [
        ProducerInfo(
            producer_id=direct_producer_id(scenario, step),
            topic=step.topic,
            acks=step.acks,
            idempotence=False,
            retries=0,
            engine="raw",
            record_bytes=step.record_bytes,
        )
        for step in writes
    ]
    return found


def host_fingerprint() -> dict[str, Any]:
    """What a later comparison must know about this host and the libraries."""
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ":")
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    names = ("apache-airflow", "confluent-kafka", "great-expectations", "kafka-python", "pyarrow", "pyspark")
    return {
        "cpu": cpu.partition(":")[2].strip(),
        "cores": os.cpu_count(),
        "memory_bytes": memory_kib * 1024,
        "kernel": platform.release(),
        "python": sys.version.split()[0],
        "java": java_home().name,
        "libraries": {name: version(name) for name in names},
    }


def create_topics(run: Path) -> None:
    """Create the scenario's topics and wait until every broker knows their full ISR."""
    with World.open(run) as world:
        any_broker = next(iter(world.brokers.values()))
        with Connection(any_broker.address, PORTS["CLIENT"], READY_LIMIT_S) as connection:
            for name, topic in world.scenario.topics.items():
                assignment = topic.assignment(world.scenario.cluster.broker_ids)
                create_topic(connection, name, assignment, topic.config)
        for partition in world.partitions:
            wait_until(
                partial(_has_full_isr, world, partition),
                limit_s=READY_LIMIT_S,
                what=f"the ISR of {partition} to be full",
            )


def _has_full_isr(world: World, partition: TopicPartition) -> bool:
    view = world.partition_view(partition)
    return view is not None and set(view.isr) == set(world.replicas(partition))


def start_clients(run: Path) -> None:
    """Start prober, consumer and producer, and wait until each has seen its first sample, record or ack.

    Raises:
        HarnessError: a client did not start; all of them are removed again.
    """
    with World.open(run) as world:
        world.folder.clients.mkdir(exist_ok=True)
        (world.folder.work / "streams").mkdir(exist_ok=True)
        names = [PROBER, *([CONSUMER, PRODUCER] if world.scenario.load else [])]
        try:
            nodes = [_client_node(world, name) for name in names]
            for node in nodes:
                world.start(node)
            for node in nodes:
                wait_until(
                    partial(_is_ready, world, node.name),
                    limit_s=READY_LIMIT_S,
                    what=f"the first success of {node.name}",
                    last_seen=partial(world.describe_node, node),
                )
        except HarnessError as error:
            world.events.add("error", step="start_clients", why=str(error))
            _stop_clients(world, names)
            raise


def _client_node(world: World, name: str) -> Node:
    """A client node; its configuration is ``config.json`` in its folder, written here."""
    folder = world.folder.work / name
    folder.mkdir(exist_ok=True)
    config = folder / "config.json"
    if not config.exists():
        config.write_text(_client_config(world, name).to_json())
    return Node(
        name=name,
        role="consumer" if name == DRAIN else name,
        address=world.client_address(_CLIENTS.index(name)),
        folder=folder,
        program="python",
        arguments=("-m", f"clusters.clients.{name}", str(config)),
        writable=(world.folder.work / "streams", world.folder.clients),
    )


def _client_config(world: World, name: str) -> ClientConfig:
    scenario = world.scenario
    common: dict[str, Any] = {
        "client_id": name,
        "out": str(world.folder.work / "streams"),
        "summary": str(world.folder.clients / f"{name}.json"),
    }
    topics = {topic: settings.partitions for topic, settings in scenario.topics.items()}
    if name == PROBER:
        brokers = {number: f"{node.address}:{PORTS['PROBE']}" for number, node in world.brokers.items()}
        ids = scenario.cluster.broker_ids
        assignment = {topic: settings.assignment(ids) for topic, settings in scenario.topics.items()}
        return ProberConfig(**common, brokers=brokers, assignment=assignment, hz=PROBE_HZ, isr_hz=ISR_HZ)
    if name == CONSUMER:
        return ConsumerConfig(**common, bootstrap=world.bootstrap, topics=topics)
    if name == DRAIN:
        return DrainConfig(**common, bootstrap=world.bootstrap, topics=topics, limit_s=DRAIN_LIMIT_S)
    load = scenario.load
    if load is None:
        raise HarnessError(f"Scenario {scenario.name} has no load, so there is no producer to start.")
    return ProducerConfig(
        **common,
        bootstrap=world.bootstrap,
        topic=load.topic,
        partitions=topics[load.topic],
        rate_per_s=load.rate,
        record_bytes=load.record_bytes,
        acks=load.acks,
        idempotence=load.idempotence,
        retries=load.retries,
        request_timeout_ms=int(load.request_timeout * 1000),
        delivery_timeout_ms=int(load.delivery_timeout * 1000),
        linger_ms=int(load.linger * 1000),
        engine=load.engine,
    )


def _summary(world: World, name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((world.folder.clients / f"{name}.json").read_text())
    except FileNotFoundError:
        return {}
    return found


def _is_ready(world: World, name: str) -> bool:
    return _summary(world, name).get("ready_ns") is not None


def _has_ended(world: World, name: str) -> bool:
    return world.runtime.state(name) in ("exited", "absent")


def _record_exit(world: World, name: str) -> None:
    world.events.add("node_exited", target=name, clean=_summary(world, name).get("clean", False))


# --- the experiment ----------------------------------------------------------------------------


def capture(run: Path, label: str) -> None:
    """Capture every replica's offsets under a label: before, a phase's name, after."""
    with World.open(run) as world:
        capture_offsets(world, label)


def run_phase(run: Path, index: int) -> None:
    """Run one phase of the scenario and capture every replica at its end.

    Raises:
        HarnessError: the run is over, or a step could not be done at all.
    """
    if RunFolder(run).is_sealed:
        raise HarnessError(f"{run.name} is collected and over; a phase cannot be run again, start a new run.")
    with World.open(run) as world:
        phase = world.scenario.phases[index]
        world.events.add("phase_started", phase=phase.name, index=index)
        try:
            PhaseRun(world, phase).run()
        except BaseException as error:
            world.events.add("error", phase=phase.name, step="run_phase", why=f"{type(error).__name__}: {error}")
            raise
        finally:
            capture_offsets(world, phase.name)
            world.events.add("phase_ended", phase=phase.name, index=index)


def stop_producers(run: Path) -> None:
    """Let the producers end: no new sends, answers awaited, the rest unknown."""
    with World.open(run) as world:
        if world.scenario.load:
            _stop_clients(world, [PRODUCER], limit_s=world.scenario.load.delivery_timeout + 15)


def stop_clients(run: Path) -> None:
    """Let prober and consumer end."""
    with World.open(run) as world:
        _stop_clients(world, [PROBER, CONSUMER, PRODUCER], limit_s=15)


def _stop_clients(world: World, names: list[str], limit_s: float = 15) -> None:
    live = [name for name in names if world.runtime.state(name) == "running"]
    for name in live:
        world.runtime.kill(name, "SIGTERM")
    for name in live:
        try:
            wait_until(partial(_has_ended, world, name), limit_s=limit_s, what=f"{name} to end")
        except WaitTimeout as error:
            world.runtime.kill(name, "SIGKILL")
            world.events.add("error", step="stop_clients", target=name, why=str(error))
        _record_exit(world, name)


def quiesce(run: Path) -> None:
    """Wait until every in-sync replica stands at the leader's end and the high watermark with it."""
    with World.open(run) as world:
        started = time.monotonic()
        try:
            wait_until(lambda: _is_quiet(world), limit_s=QUIESCE_LIMIT_S, what="all in-sync replicas to be equal")
            kind = "quiesced"
        except WaitTimeout:
            kind = "wait_ran_out"
        waited_ms = round((time.monotonic() - started) * 1000)
        world.events.add(kind, step="quiesce", condition="HW = LEO on every in-sync replica", waited_ms=waited_ms)


def _is_quiet(world: World) -> bool:
    for partition in world.partitions:
        view = world.partition_view(partition)
        if view is None or view.leader not in view.isr:
            return False
        samples = [world.sample(number, partition) for number in view.isr]
        ends = {
            (sample.high_watermark, sample.log_end_offset) if sample and not sample.error else (None, -1)
            for sample in samples
        }
        if len(ends) != 1 or any(watermark != end for watermark, end in ends):
            return False
    return True


def drain(run: Path) -> None:
    """Read every record of every partition once more, up to the high watermark."""
    with World.open(run) as world:
        node = _client_node(world, DRAIN)
        world.start(node)
        try:
            wait_until(partial(_has_ended, world, DRAIN), limit_s=DRAIN_LIMIT_S + 30, what="the drain to end")
        except WaitTimeout as error:
            world.events.add("error", step="drain", target=DRAIN, why=str(error))
        _record_exit(world, DRAIN)


# --- the end -----------------------------------------------------------------------------------


def collect(run: Path) -> None:
    """Freeze all servers, copy what they hold, turn the clients' streams into tables, seal the folder."""
    if RunFolder(run).is_sealed:
        return
    with World.open(run) as world:
        _stop_clients(world, list(_CLIENTS))
        collect_servers(world)
        collect_clients(world)
        world.events.add("collected")
        write_tables(world)
        world.folder.seal()


def tear_down(run: Path) -> list[str]:
    """Remove everything of the run but its folder; safe to call again.

    The folder's ``work/`` goes too once the run is sealed; before that it is the only evidence.
    """
    folder = RunFolder(run.resolve())
    removed = _remove_all(folder.path)
    if folder.is_sealed:
        shutil.rmtree(folder.work, ignore_errors=True)
    return removed


def _remove_all(run: Path) -> list[str]:
    removed = open_runtime("process", run).remove_all()
    if choose_runtime("auto") == "docker":
        removed += open_runtime("docker", run).remove_all()
    return removed


def reap(*, all_runs: bool = False) -> list[str]:
    """Remove what is left of runs that nobody holds any more; ``all_runs`` takes those in use, too.

    A run is in use while a process holds its lease, or until its time is up (runs of a scheduler).
    """
    removed = []
    for run in _runs_with_leftovers():
        if all_runs or not _is_leased(run):
            removed += tear_down(run)
    return removed


def _runs_with_leftovers() -> list[Path]:
    from clusters.runtimes.docker import runs_with_leftovers
    from clusters.runtimes.process import processes_of

    found = {Path(owner).parent for owner in processes_of().values()}
    if choose_runtime("auto") == "docker":
        found |= runs_with_leftovers()
    return sorted(found)


def _is_leased(run: Path) -> bool:
    try:
        with (run / "work" / "lease").open() as file:
            expires: float = json.load(file)["expires"]
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return time.time() < expires
    except (OSError, ValueError, LookupError, TypeError):
        return False
