"""Prepare, start and end a run on a cluster that somebody else runs."""

from __future__ import annotations

import secrets
import shutil
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from clusters.attached.cluster_file import ENDED_BY, HOOKS, ClusterFile, Described, read_cluster_file
from clusters.attached.discover import SETTINGS, Discovered, discover, grant_own
from clusters.attached.fit import fitted, over_caps, own_names
from clusters.attached.hooks import capabilities
from clusters.attached.own_topics import remove
from clusters.attached.queries import AnyBroker
from clusters.attached.registry import Owner, Registry
from clusters.kafka.admin import create_topic, describe_config
from clusters.kafka.connection import Connection
from clusters.kafka.views import authorized_operations, topic_ids
from clusters.live.attached import AttachedServers, hooked
from clusters.live.files import remove_links
from clusters.live.plan import AttachedBroker, AttachedCluster
from clusters.live.reports import REQUEST_LIMIT_S, WORLD
from clusters.live.servers import PREFIX
from clusters.live.world import World
from clusters.run.manifest import add_features, boot_id, manifest_of, topics_of
from clusters.scenario.scenario import Scenario
from clusters.scenario.steps.owner import AwaitUpgrade
from clusters.waiting import wait_until
from history.errors import BadInput, HarnessError, Refused
from history.events import Event, read_events
from history.manifest import ATTACHED, Manifest, NodeInfo, read_manifest

RIGHTS = ("Create", "Describe", "DescribeConfigs", "Read", "Write", "Delete")  # on own topics


def planned(scenario: Scenario, given: Path | Described) -> tuple[Scenario, AttachedCluster]:
    """Return the scenario as it would run on a cluster, and the cluster; create nothing.

    Raises:
        BadInput: the cluster cannot be reached, lacks brokers or hooks, or does not permit the run.
    """
    given = Described(given, read_cluster_file(given)) if isinstance(given, Path) else given
    described, source = given.cluster, given.source
    if described.addresses:
        raise BadInput(
            f"{source}: addresses are for plimsoll watch; clients of a run connect to the advertised addresses, so "
            "make those reachable and leave addresses out."
        )
    found = discover(described, given.access, [])
    if found.unreachable:
        raise BadInput(f"A run needs every broker: {found.unreachable[0]}.")
    token = secrets.token_hex(2)
    names = own_names(list(scenario.topics), described.topics.prefix, token)
    _check_may_run(scenario, described, source)
    try:
        own = fitted(scenario, {number: broker.rack for number, broker in found.brokers.items()}, names)
    except ValidationError as error:
        raise BadInput(
            f"Scenario {scenario.name} does not fit the cluster of {len(found.brokers)} brokers: "
            f"{error.errors()[0]['msg'].removeprefix('Value error, ')}."
        ) from error
    if over := list(over_caps(own, described.caps)):
        raise BadInput(f"Scenario {scenario.name} exceeds what {source} permits: {'; '.join(over)}.")
    return own, _cluster(scenario, own, described, found, token)


def _check_may_run(scenario: Scenario, described: ClusterFile, source: Path) -> None:
    for step in scenario.steps:
        where = f"Scenario {scenario.name} has the step {step.key}"
        if lacking := sorted(step.required - capabilities(described)):
            hooks = [f"hooks.{name}" for name in lacking if name in HOOKS]
            advice = f"add {', '.join(hooks)} to {source}" if len(hooks) == len(lacking) else "no hook provides that"
            raise BadInput(f"{where}, which needs {', '.join(lacking)}; {advice}.")
        upgrades = {"upgrade"} & described.hooks.keys() if isinstance(step, AwaitUpgrade) else ()
        if forbidden := [key for key in (*step.breaks, *upgrades) if step.required and key not in described.allow]:
            raise BadInput(f"{where}; {source} does not permit the fault {forbidden[0]}: name it under allow.")


def _cluster(given: Scenario, own: Scenario, described: ClusterFile, found: Discovered, token: str) -> AttachedCluster:
    return AttachedCluster(
        cluster_id=found.cluster_id,
        scenario_digest=given.digest,
        mode=found.mode,
        id_prefix=f"{described.topics.prefix}{token}-",
        brokers={
            number: AttachedBroker(
                host=address.host,
                port=address.port,
                rack=found.brokers[number].rack,
                settings=dict(found.brokers[number].settings),
            )
            for number in own.cluster.broker_ids.values()
            if (address := found.brokers[number].address)
        },
        description=described,
    )


def registry_of(world: World) -> Registry:
    """Return the cluster's registry."""
    cluster = world.plan.foreign
    return Registry(world.reports.connect_client, cluster.brokers, cluster.description.topics.prefix)


def start(world: World) -> None:
    """Note the running brokers, create the registry unless it exists, and write the manifest."""
    world.events.add("run_started", target=world.folder.run_id)
    (world.folder.work / PREFIX).touch()  # a second start is refused
    registry = registry_of(world)
    try:
        registry.ensure()
    except (Refused, BadInput) as error:
        if "AUTHORIZATION_FAILED" not in str(error):
            raise
        raise BadInput(f"{error} The user needs these rights: {_grant(world, RIGHTS)}") from error
    with _to_controller(world) as connection:
        _check_rights(world, registry.topic, authorized_operations(connection, registry.topic))
    for node in world.servers.brokers.values():
        world.note_start(node)
    _manifest(world).write(world.folder.manifest)
    if world.plan.mode == "kraft":  # with ZooKeeper, they are settings of brokers
        add_features(world)


def create_own_topics(world: World) -> None:
    """Register and create the run's topics, and complete the manifest with their settings.

    Raises:
        Refused: the cluster rejects a topic.
        BadInput: the user lacks a right on it.
    """
    registry = registry_of(world)
    owner = Owner(run=str(world.folder.path), host=socket.gethostname(), boot_id=boot_id())
    settings = {}
    with _to_controller(world) as connection:
        for name, topic in world.scenario.topics.items():
            registry.intend(name, owner)
            create_topic(connection, name, topic.assignment(world.scenario.cluster.broker_ids), topic.config)
            registry.register(name, _id_of(connection, name))
            _check_rights(world, name, authorized_operations(connection, name))
            found = describe_config(connection, "topic", name, SETTINGS)
            settings[name] = {key: next(iter(values.values())) for key, values in found.items() if values}
    manifest = read_manifest(world.folder.manifest)
    topics = {name: info.model_copy(update={"config": settings[name]}) for name, info in manifest.topics.items()}
    manifest.model_copy(update={"topics": topics}).write(world.folder.manifest)


def _to_controller(world: World) -> Connection:
    connection = AnyBroker(world.reports.connect_client, world.servers.brokers).connection()
    connection.forwards_to_controller = world.plan.mode == "kraft"
    return connection


def _id_of(connection: Connection, topic: str) -> str:
    """Return a new topic's id; a broker learns of a topic after the controller."""
    return wait_until(
        lambda: topic_ids(connection, [topic]).get(topic), limit_s=REQUEST_LIMIT_S, what=f"a broker to know {topic}"
    )


def _check_rights(world: World, topic: str, granted: Collection[str]) -> None:
    if lacking := [right for right in RIGHTS if right not in granted]:
        raise BadInput(f"The user may not {', '.join(lacking)} on {topic}: {_grant(world, lacking)}")


def _grant(world: World, rights: Sequence[str]) -> str:
    return grant_own(world.plan.foreign.description, world.access(WORLD), rights)


def _manifest(world: World) -> Manifest:
    cluster = world.plan.foreign
    return manifest_of(
        world,
        origin="attached",
        cluster_id=cluster.cluster_id,
        scenario_digest=cluster.scenario_digest,
        kafka_jars_digest="",
        nodes=[
            NodeInfo(
                name=node.name,
                role="broker",
                address=str(node.endpoints["CLIENT"]),
                node_id=number,
                config=cluster.brokers[number].settings,
            )
            for number, node in world.servers.brokers.items()
        ],
        topics=topics_of(world.scenario, {}),
        evidence=evidence_of(cluster.description),
    )


def evidence_of(described: ClusterFile) -> frozenset[str]:
    """Return the sources that a run on this cluster can record."""
    by_hook = {"logs": {"server logs"}, "segments": {"segments", "epoch files"}}
    return ATTACHED.union(*(by_hook[name] for name in by_hook.keys() & described.hooks.keys()))


def collect(world: World) -> None:
    """Run the hooks for logs and segments; keep what belongs to the run's own topics."""
    servers, own = hooked(world.servers), {str(partition) for partition in world.partitions}
    for node in servers.nodes:
        target = world.folder.brokers / node.name
        target.mkdir(parents=True, exist_ok=True)
        if servers.has_hook("logs"):
            shutil.copy(servers.run_hook("logs", node).output, target / "server.log")
        if servers.has_hook("segments"):
            data = target / "data"
            data.mkdir()
            servers.run_hook("segments", node, target=data)
            for path in [path for path in data.iterdir() if path.name not in own]:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        remove_links(target)


def end(world: World) -> list[str]:
    """End faults that a crash left active, delete the run's topics, and return both; raise HarnessError if any stay."""
    done = list(end_faults(world))
    registry = registry_of(world)
    own = [entry for entry in registry.entries().values() if entry.run == str(world.folder.path)]
    with _to_controller(world) as connection:
        removed = remove(registry, connection, own)
    if removed.remaining:
        raise HarnessError(not_deleted(removed.remaining))
    return [*done, *(f"topic {topic}" for topic in removed.deleted)]


def not_deleted(topics: Sequence[str]) -> str:
    """Return the sentence about topics that stay."""
    return (
        f"The cluster deletes no topics (delete.topic.enable=false), so these remain: {', '.join(topics)}; "
        "ask its owner to delete them, then run plimsoll clean --cluster."
    )


def end_faults(world: World) -> Iterator[str]:
    """End faults that are still active, and start silent brokers that their owner does not replace; yield what was
    done.
    """
    events = list(read_events(world.folder.events))
    servers, faults = hooked(world.servers), open_faults(events)
    for fault in faults:
        yield _end_fault(servers, fault)
    away = {event.target for event in events if event.kind == "inject" and event.step == AwaitUpgrade.key}
    replaced = set() if servers.has_hook("upgrade") else away
    for node in servers.start_silent({fault.broker for fault in faults} | replaced):
        yield f"start {node.name}, which did not answer"
    yield from (f"{node.name} does not answer" for node in servers.stay_silent(servers.limit_s("start")))


class OpenFault(NamedTuple):
    """The hook that ends an active fault, its broker, and the values of its placeholders."""

    hook: str
    broker: str
    values: tuple[tuple[str, str], ...]


def open_faults(events: Iterable[Event]) -> list[OpenFault]:
    """Return what hooks began and no hook ended, the latest first."""
    active: dict[OpenFault, None] = {}
    for event in events:
        if event.kind != "hook":
            continue
        name, values = event.detail["name"], tuple(sorted(_of_connection(event.detail["values"]).items()))
        active.pop(OpenFault(name, event.target, values), None)
        if name in ENDED_BY:
            active[OpenFault(ENDED_BY[name], event.target, values)] = None
    return list(active)[::-1]


def _of_connection(values: Mapping[str, str]) -> dict[str, str]:
    return {name: values[name] for name in ("direction", "peer", "peer_host") if name in values}


def _end_fault(servers: AttachedServers, fault: OpenFault) -> str:
    node = next(node for node in servers.nodes if node.name == fault.broker)
    if servers.has_hook(fault.hook):
        ran = servers.run_hook(fault.hook, node, **dict(fault.values))
        return f"{fault.hook} {fault.broker} (exit code {ran.exit_code})"
    return f"{fault.broker}, which comes back by itself"
