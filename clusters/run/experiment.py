"""The calls of a run; ``clusters.run.stages`` defines their order.

Each may come from another process: everything is in the run's folder. All raise HarnessError.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from clusters.clients.nodes import (
    CONSUMER,
    COPIER,
    DRAIN,
    PROBER,
    client_names,
    client_node,
    deliveries_to,
    end_clients,
    has_ended,
    is_ready,
    member_names,
    member_node,
    producer_names,
    record_exit,
    start_member,
)
from clusters.clients.usage import record_usage
from clusters.faults.phase import PhaseRun
from clusters.kafka import class_archive, servers
from clusters.kafka.admin import alter_config, create_topic
from clusters.kafka.probe import ReplicaSample
from clusters.kafka.properties import render
from clusters.kafka.tools import Tools
from clusters.live.capture import capture_offsets
from clusters.live.disk_space import DiskSpace
from clusters.live.reports import REQUEST_LIMIT_S, WORLD
from clusters.live.resource_limits import end_cpu_limits, limit_clients, limit_cluster
from clusters.live.servers import PREFIX, MadeServers
from clusters.live.world import World
from clusters.run import attached
from clusters.run.catch_up import catch_up
from clusters.run.collect import collect_clients, collect_servers, write_tables
from clusters.run.leftovers import hold_lease, reap, tear_down
from clusters.run.manifest import add_features, add_incarnations, made_manifest
from clusters.run.prepare import check, prepare
from clusters.runtimes.nodes import Node
from clusters.scenario.durations import drain_limit_s, open_transaction_s, settle_s
from clusters.scenario.groups import GROUP_ID, ShareGroup
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout, reason_of
from history.events import read_events
from history.folder import RunFolder
from history.partition import TopicPartition
from history.share_groups import SETTLE
from history.tables import PHASE_START
from history.words import some_of

__all__ = ["check", "hold_lease", "prepare", "reap", "tear_down"]

_FOLDERS = frozenset({"dataDir", "log.dirs", "metadata.log.dir"})
READY_LIMIT_S, END_LIMIT_S = 60.0, 15.0
LOG_LIMIT_S = 0.1  # a small broker creates 100 per second
COPIER_LIMIT_S = 90.0
SETTLE_LIMIT_S = 45.0
QUIESCE_LIMIT_S = 30.0  # on top of the transaction timeout, checked every 10 s


def start_cluster(run: Path) -> None:
    """Start the metadata nodes and all brokers; on failure remove everything started."""
    check_unstarted(run)
    with World.open(run) as world:
        try:
            if world.plan.attached:
                attached.start(world)
            else:
                _start_cluster(world)
        except BaseException as error:
            why = _full_disk(world) or reason_of(error)
            world.runtime.remove_all()  # first: on a full disk the event cannot be written
            world.events.add("error", step="start_cluster", why=why)
            raise


def _full_disk(world: World) -> str:
    """Return a full disk's error: servers that cannot write do not report it."""
    try:
        DiskSpace(world.folder).check()
    except HarnessError as full:
        return str(full)
    return ""


def check_unstarted(run: Path) -> None:
    """Check that the run is new: a failed start removes its cluster."""
    if (RunFolder(run).work / PREFIX).exists():
        raise HarnessError(f"{run.name} was started before; start a new run.")


def _start_cluster(world: World) -> None:
    world.events.add("run_started", target=world.folder.run_id)
    made = MadeServers(world.folder, world.plan, world.runtime)
    made.reserve_addresses()
    _secure(world, made)
    configs = _server_configs(world, made)
    for name, config in configs.items():
        folder = world.folder.work / name
        for key in _FOLDERS & config.keys():
            for path in config[key].split(","):
                Path(path).mkdir(parents=True, exist_ok=True)
        (folder / "server.properties").write_text(render(config))
    made_manifest(world, configs).write(world.folder.manifest)
    tools = Tools(world.runtime, made.release, world.scenario.cluster)
    if world.plan.mode == "kraft":
        identity = servers.cluster_id(world.folder.run_id)
        tools.format_storage(made.metadata_nodes, list(made.brokers.values()), identity)
    for node in made.metadata_nodes:
        world.start(node)
    if world.plan.mode == "zookeeper":
        tools.store_user(*made.metadata_nodes)
    for node in made.brokers.values():
        world.start(node)
    world.reports.wait_for_brokers()
    if archive := made.class_archive(made.release.jars):
        class_archive.make(archive, world.runtime, world.plan.java, made.nodes)
    add_features(world)
    limit_cluster(world)


def _secure(world: World, made: MadeServers) -> None:
    if secrets := servers.secrets_of(world.scenario.cluster, world.folder.work):
        secrets.create(_addresses(world, made))


def _addresses(world: World, made: MadeServers) -> dict[str, str]:
    addresses = {node.name: node.address for node in made.brokers.values()}
    addresses |= {name: world.client_address(index) for index, name in enumerate(client_names(world))}
    return addresses | {WORLD: f"{made.prefix}.1"}


def _server_configs(world: World, made: MadeServers) -> dict[str, dict[str, str]]:
    release, cluster, metadata_nodes = made.release, world.scenario.cluster, made.metadata_nodes
    configs = {
        node.name: servers.metadata_node_config(release, cluster, node, metadata_nodes) for node in metadata_nodes
    }
    brokers, group = made.brokers.values(), world.scenario.group
    of_group = group.broker_settings(len(brokers)) if group else {}
    return configs | {
        node.name: of_group | servers.broker_config(release, cluster, node, metadata_nodes) for node in brokers
    }


def create_topics(run: Path) -> None:
    """Create the topics; wait until every broker has its replicas and knows the full ISRs."""
    with World.open(run) as world:
        if world.plan.attached:
            attached.create_own_topics(world)
        else:
            _create_topics(world)
        wait_until(
            lambda: not _without_full_isr(world),
            limit_s=READY_LIMIT_S,
            what="the ISR of every partition to be full",
            last_seen=lambda: f"not of {some_of(_without_full_isr(world))}",
        )
        wait_until(
            lambda: not _without_replica(world),
            limit_s=READY_LIMIT_S + LOG_LIMIT_S * len(world.partitions),
            what="every broker to have its replicas",
            last_seen=lambda: f"not {some_of(_without_replica(world))}",
        )


def _create_topics(world: World) -> None:
    any_broker = next(iter(world.servers.brokers.values()))
    with world.reports.connect(any_broker, "CLIENT", READY_LIMIT_S) as connection:
        for name, topic in world.scenario.topics.items():
            assignment = topic.assignment(world.scenario.cluster.broker_ids)
            create_topic(connection, name, assignment, topic.config)


def _without_full_isr(world: World) -> list[TopicPartition]:
    views = world.reports.partition_views(world.partitions)
    return [
        partition
        for partition, view in views.items()
        if view is None or set(view.isr) != set(world.replicas(partition))
    ]


def _without_replica(world: World) -> list[str]:
    missing = world.reports.missing_replicas({partition: world.replicas(partition) for partition in world.partitions})
    return [f"{partition} on broker {number}" for partition, number in missing]


def start_clients(run: Path) -> None:
    """Start all clients; wait for each one's first sample, record or ack. On failure end all."""
    with World.open(run) as world:
        streams = world.folder.work / "streams"
        if streams.exists():
            raise HarnessError(f"The clients of {run.name} were started before; start a new run.")
        if world.guard:
            world.guard.check_topics()
        world.folder.clients.mkdir(exist_ok=True)
        streams.mkdir()
        producers = producer_names(world)
        names = [PROBER, *([CONSUMER, *producers] if producers else []), *_copiers(world)]
        members = member_names(world)
        try:
            nodes = [client_node(world, name) for name in names]
            for node in nodes:
                world.start(node)
            _set_up_group(world)
            group = [member_node(world, name) for name in members]
            for node in group:
                start_member(world, node)
            nodes += group
            for node in nodes:
                wait_until(
                    partial(is_ready, world, node.name),
                    limit_s=READY_LIMIT_S,
                    what=f"the first success of {node.name}",
                    last_seen=partial(_why_not_ready, world, node),
                )
            limit_clients(world, nodes)
        except HarnessError as error:
            world.events.add("error", step="start_clients", why=str(error))
            end_clients(world, dict.fromkeys([*names, *members], END_LIMIT_S))
            raise


def _why_not_ready(world: World, client: Node) -> str:
    ended = [node for node in world.servers.nodes if world.state(node) == "exited"]
    return "; ".join(map(world.describe_node, [*ended, client]))


def _set_up_group(world: World) -> None:
    group = world.scenario.group
    if isinstance(group, ShareGroup):
        any_broker = next(iter(world.servers.brokers.values()))
        with world.reports.connect(any_broker, "CLIENT", READY_LIMIT_S) as connection:
            alter_config(
                connection, "group", f"{world.plan.id_prefix}{GROUP_ID}", group.group_settings(world.scenario.isolation)
            )


def capture(run: Path, label: str) -> None:
    """Capture every replica's offsets and all nodes' usage."""
    with World.open(run, REQUEST_LIMIT_S) as world:
        record_usage(world, label)
        capture_offsets(world, label)


def run_phase(run: Path, index: int, name: str | None = None) -> None:
    """Run one phase, and capture every replica at its end.

    ``name`` is the caller's expected phase: the scenario may have changed since.
    """
    if RunFolder(run).is_sealed:
        raise HarnessError(f"{run.name} is collected; start a new run.")
    with World.open(run) as world:
        _check_next(world, index, name)
        phase = world.scenario.phases[index]
        record_usage(world, f"{phase.name}{PHASE_START}")
        world.events.add("phase_started", phase=phase.name, index=index)
        try:
            PhaseRun(world, phase).run()
        except BaseException as error:
            world.events.add("error", phase=phase.name, step="run_phase", why=reason_of(error))
            raise
        finally:
            record_usage(world, phase.name)
            capture_offsets(world, phase.name)
            world.events.add("phase_ended", phase=phase.name, index=index)


def _check_next(world: World, index: int, name: str | None) -> None:
    names = [phase.name for phase in world.scenario.phases]
    if name is not None and [name] != names[index : index + 1]:
        raise HarnessError(
            f"Phase {index + 1} of {world.folder.run_id} is not {name!r}; it has {names}: "
            "its scenario was changed after the run was prepared, start a new run."
        )
    events = read_events(world.folder.events) if world.folder.events.exists() else ()
    if any(event.kind == "phase_started" and event.detail.get("index") == index for event in events):
        raise HarnessError(f"The phase {names[index]!r} of {world.folder.run_id} was begun before; start a new run.")


def stop_producers(run: Path) -> None:
    """Stop sending, wait for answers, record the rest as unknown."""
    with World.open(run) as world:
        _end_producers(world)
        end_clients(world, dict.fromkeys(_copiers(world), COPIER_LIMIT_S))
        end_cpu_limits(world)


def _copiers(world: World) -> list[str]:
    return [COPIER] if world.scenario.copier else []


def _end_producers(world: World) -> None:
    """End producers after their delivery timeouts, so that ledgers are complete."""
    producers = world.scenario.producers
    end_clients(world, {each.name: each.load.delivery_timeout + END_LIMIT_S for each in producers})


def stop_clients(run: Path) -> None:
    """Stop the other clients, and producers left by a failure."""
    with World.open(run) as world:
        _end_producers(world)
        catch_up(world)
        _settle_group(world)
        readers = [PROBER, CONSUMER, *_copiers(world), *member_names(world)]
        end_clients(world, dict.fromkeys(readers, END_LIMIT_S))


def _settle_group(world: World) -> None:
    """Wait until a share group has had no delivery for as long as one may take."""
    at_rest_s, since = settle_s(world.scenario), [(-1, time.monotonic())]
    if not at_rest_s:
        return

    def is_still() -> bool:
        given = sum(deliveries_to(world, name) for name in member_names(world))
        if given != since[-1][0]:
            since.append((given, time.monotonic()))
        return time.monotonic() - since[-1][1] >= at_rest_s

    kind, condition = "step", f"no delivery to a member of the share group for {at_rest_s:g} s"
    try:
        wait_until(is_still, limit_s=at_rest_s + SETTLE_LIMIT_S, every_s=0.5, what=condition)
    except WaitTimeout:
        kind = "wait_timed_out"
    world.events.add(kind, step=SETTLE, condition=condition)


def quiesce(run: Path) -> None:
    """Wait until in-sync replicas, high watermark and last stable offset reach the leader's end.

    An open transaction delays this until the coordinator aborts it.
    """
    with World.open(run) as world:
        started = time.monotonic()
        limit_s = QUIESCE_LIMIT_S + open_transaction_s(world.scenario)
        try:
            wait_until(lambda: _is_quiet(world), limit_s=limit_s, what="all in-sync replicas to be equal")
            kind = "quiesced"
        except WaitTimeout:
            kind = "wait_timed_out"
        waited_ms = round((time.monotonic() - started) * 1000)
        condition = "HW = LEO on every in-sync replica, and no open transaction"
        world.events.add(kind, step="quiesce", condition=condition, waited_ms=waited_ms)


def _is_quiet(world: World) -> bool:
    views = world.reports.partition_views(world.partitions)
    if any(view is None or view.leader not in view.isr for view in views.values()):
        return False
    in_sync = {
        number: [where for where, view in views.items() if view and number in view.isr]
        for number in world.servers.brokers
    }
    samples = {
        number: world.reports.samples(number, partitions) for number, partitions in in_sync.items() if partitions
    }
    return all(
        _is_at_rest(view.leader, {number: samples[number].get(where) for number in view.isr})
        for where, view in views.items()
        if view
    )


def _is_at_rest(leader: int, samples: Mapping[int, ReplicaSample | None]) -> bool:
    ends = {
        (sample.high_watermark, sample.log_end_offset) if sample and not sample.error else (None, -1)
        for sample in samples.values()
    }
    of_leader = samples[leader]
    return (
        len(ends) == 1
        and all(watermark == end for watermark, end in ends)
        and of_leader is not None
        and of_leader.last_stable_offset == of_leader.high_watermark
    )


def drain(run: Path) -> None:
    """Read every record once more, up to the high watermark."""
    with World.open(run) as world:
        if (world.folder.work / DRAIN).exists():
            raise HarnessError(f"{run.name} was drained before; start a new run.")
        node = client_node(world, DRAIN)
        world.start(node)
        try:
            wait_until(
                partial(has_ended, world, DRAIN), limit_s=drain_limit_s(world.scenario) + 30, what="the drain to end"
            )
        except WaitTimeout as error:
            world.events.add("error", step="drain", target=DRAIN, why=str(error))
        record_exit(world, DRAIN)


def collect(run: Path) -> None:
    """Kill the servers, keep their files, write the tables, and seal the folder."""
    if RunFolder(run).is_sealed:
        return
    with World.open(run) as world:
        end_clients(world, dict.fromkeys(client_names(world), END_LIMIT_S))
        if not world.folder.manifest.exists():
            return  # nothing was recorded
        collect_servers(world)
        if world.plan.attached:
            attached.collect(world)
        collect_clients(world)
        world.events.add("collected")
        write_tables(world)
        add_incarnations(world)
        world.folder.seal()
