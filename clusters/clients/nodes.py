"""Configure, start, watch and end the client nodes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from clusters.clients.configs import (
    OFFER,
    OFFERED,
    ClientConfig,
    ConsumerConfig,
    CopierConfig,
    DrainConfig,
    MemberConfig,
    ProberConfig,
    ProducerConfig,
    ShareMemberConfig,
    VerifiableProducerConfig,
)
from clusters.kafka.builds import Build
from clusters.live.reports import ANSWER_S_A_PARTITION
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.scenario.durations import drain_limit_s
from clusters.scenario.groups import GROUP_ID, Group, ShareGroup
from clusters.scenario.load import Payload, Transaction
from clusters.scenario.producers import Producer
from clusters.scenario.scenario import Scenario
from clusters.scenario.shapes import as_written
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout
from history.folder import write_atomically

PROBE_HZ = 20.0
ISR_HZ = 10.0
PROBED_ROWS_PER_S = 10_000  # limit, for many partitions
ANSWER_LIMIT_S = 0.25  # plus a share per partition
OTHERS_ANSWER_LIMIT_S = 2.0  # on a cluster that somebody else runs
OTHERS_BUSY = 0.2  # there, a request is outstanding at a broker for at most this share of the time
OFFER_LIMIT_S = 10.0
CONSUMER, PROBER, DRAIN, COPIER = "consumer", "prober", "drain", "copier"
CONFIG, ALIVE = "config.json", "alive"


def client_names(world: World) -> list[str]:
    """Return all possible client nodes in the order of their addresses."""
    return [*producer_names(world), CONSUMER, PROBER, DRAIN, COPIER, *member_names(world)]


def client_node(world: World, name: str) -> Node:
    """Return a client node; write its ``CONFIG`` if missing."""
    folder = world.folder.work / name
    folder.mkdir(exist_ok=True)
    config = folder / CONFIG
    if not config.exists():
        config.write_text(_client_config(world, name).to_json())
    if producer := _producers(world).get(name):
        java = world.plan.clients.get(producer.of)
        return _node(world, name, "producer", "verifiable_producer" if java else "producer", java)
    return _node(world, name, "consumer" if name == DRAIN else name, name)


def _node(world: World, name: str, role: str, module: str, java: Build | None = None) -> Node:
    folder, access = world.folder.work / name, world.access(name)
    return Node(
        name=name,
        role=role,
        address=world.client_address(client_names(world).index(name)),
        folder=folder,
        program="python",
        arguments=("-m", f"clusters.clients.{module}", str(folder / CONFIG)),
        readable=(
            *((access.path.parent,) if access else ()),
            *((java.jars, world.plan.java.home) if java else ()),
        ),
        writable=(world.folder.work / "streams", world.folder.clients),
        environment=access.environment if access else {},
    )


def _producers(world: World) -> dict[str, Producer]:
    return {producer.name: producer for producer in world.scenario.producers}


def producer_names(world: World) -> list[str]:
    """Return the producer nodes' names."""
    return list(_producers(world))


def member_names(world: World) -> list[str]:
    """Return the names of the group's nodes."""
    group = world.scenario.group
    return [f"member-{number}" for number in range(1, group.members + 1)] if group else []


def member_node(world: World, name: str) -> Node:
    """Return a group member's node."""
    module = "share_member" if isinstance(world.scenario.group, ShareGroup) else "member"
    return _node(world, name, "member", module)


def start_member(world: World, node: Node) -> None:
    """Start a group member under a name unique to this incarnation."""
    load, name = world.scenario.grouped, node.name
    if load is None or load.group is None:
        raise HarnessError(f"Scenario {world.scenario.name} has no consumer group, so there is no {name}.")
    node.folder.mkdir(exist_ok=True)
    summary = world.folder.clients / f"{name}.{world.incarnation(node) + 1}.json"
    settings = _common_settings(world, name, summary) | {
        "bootstrap": world.bootstrap,
        "topic": load.topic,
        "group_id": f"{world.plan.id_prefix}{GROUP_ID}",
        "alive": str(node.folder / ALIVE),
    }
    write_atomically(node.folder / CONFIG, _member_config(load.group, world.scenario.isolation, settings).to_json())
    world.start(node)


def _member_config(group: Group | ShareGroup, isolation: str, settings: dict[str, Any]) -> ClientConfig:
    if isinstance(group, ShareGroup):
        return ShareMemberConfig(**settings, processing_s=group.processing, release_every=group.release_every)
    return MemberConfig(
        **settings,
        protocol=group.protocol,
        assignor=group.assignor,
        session_timeout_ms=int(group.session_timeout * 1000),
        commit_every_s=group.commit_every,
        commit_ahead=group.commit == "ahead",
        isolation=isolation,
    )


def last_poll(world: World, name: str) -> int:
    """Return the time (ns) of a member's latest poll; 0: never."""
    try:
        return (world.folder.work / name / ALIVE).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def deliveries_to(world: World, name: str) -> int:
    """Return the records that this incarnation of a share group member received."""
    return int(summary_of(world, name).get("so_far", {}).get("given", 0))


def probe_rates(scenario: Scenario) -> tuple[float, float]:
    """Return the rates (Hz) of replica samples and brokers' views; many partitions reduce them."""
    ids = scenario.cluster.broker_ids
    replicas = sum(len(of) for topic in scenario.topics.values() for of in topic.assignment(ids).values())
    viewed = sum(topic.partitions for topic in scenario.topics.values()) * len(ids)
    return min(PROBE_HZ, PROBED_ROWS_PER_S / replicas), min(ISR_HZ, PROBED_ROWS_PER_S / viewed)


def _client_config(world: World, name: str) -> ClientConfig:
    settings = _common_settings(world, name, world.folder.clients / f"{name}.json")
    if producer := _producers(world).get(name):
        return _producer_config(world, producer, settings)
    make = {PROBER: _prober_config, CONSUMER: _consumer_config, DRAIN: _drain_config, COPIER: _copier_config}.get(name)
    if make is None:
        raise _no_client(world, name)
    return make(world, settings)


def _no_client(world: World, name: str) -> HarnessError:
    return HarnessError(f"Scenario {world.scenario.name} has no client {name} to start.")


def _common_settings(world: World, node: str, summary: Path) -> dict[str, Any]:
    access = world.access(node)
    return {
        "client_id": summary.stem,
        "out": str(world.folder.work / "streams"),
        "summary": str(summary),
        "access": str(access.path) if access else None,
        "id_prefix": world.plan.id_prefix,
    }


def _prober_config(world: World, settings: dict[str, Any]) -> ProberConfig:
    ids = world.scenario.cluster.broker_ids
    hz, isr_hz = probe_rates(world.scenario)
    limit_s, busy = (ANSWER_LIMIT_S, 1.0) if world.plan.attached is None else (OTHERS_ANSWER_LIMIT_S, OTHERS_BUSY)
    return ProberConfig(
        **settings,
        brokers={number: str(node.endpoints["PROBE"]) for number, node in world.servers.brokers.items()},
        assignment={name: topic.assignment(ids) for name, topic in world.scenario.topics.items()},
        hz=hz,
        isr_hz=isr_hz,
        timeout_ms=round(1000 * (limit_s + ANSWER_S_A_PARTITION * len(world.partitions))),
        busy=busy,
    )


def _consumer_config(world: World, settings: dict[str, Any]) -> ConsumerConfig:
    return ConsumerConfig(**settings, **_what_is_read(world))


def _drain_config(world: World, settings: dict[str, Any]) -> DrainConfig:
    return DrainConfig(**settings, **_what_is_read(world), limit_s=drain_limit_s(world.scenario))


def _what_is_read(world: World) -> dict[str, Any]:
    topics = {name: topic.partitions for name, topic in world.scenario.topics.items()}
    return {"bootstrap": world.bootstrap, "topics": topics, "isolation": world.scenario.isolation}


def _copier_config(world: World, settings: dict[str, Any]) -> CopierConfig:
    scenario, copier = world.scenario, world.scenario.copier
    if copier is None:
        raise _no_client(world, COPIER)
    return CopierConfig(
        **settings,
        bootstrap=world.bootstrap,
        topic=scenario.copied[0].topic,
        to=copier.to,
        partitions=scenario.topics[copier.to].partitions,
        offsets=copier.offsets,
        records=copier.records,
        transaction_timeout_ms=int(copier.timeout * 1000),
    )


def _producer_config(world: World, producer: Producer, settings: dict[str, Any]) -> ProducerConfig:
    settings = _producer_settings(world, producer, settings)
    if client := world.plan.clients.get(producer.of):
        settings |= {"java": world.plan.java.command, "jars": str(client.jars), "value_prefix": producer.value_prefix}
        return VerifiableProducerConfig(**settings)
    return ProducerConfig(**settings)


def _producer_settings(world: World, producer: Producer, common: dict[str, Any]) -> dict[str, Any]:
    load, folder = producer.load, world.folder.work / producer.name
    return dict(
        **common | {"client_id": producer.producer_id},
        bootstrap=world.bootstrap,
        topic=load.topic,
        partitions=world.scenario.topics[load.topic].partitions,
        rate_per_s=as_written(producer.rate),
        record_bytes=as_written(load.record_bytes),
        acks=load.acks,
        idempotence=load.idempotence,
        retries=load.retries,
        request_timeout_ms=int(load.request_timeout * 1000),
        delivery_timeout_ms=int(load.delivery_timeout * 1000),
        linger_ms=int(load.linger * 1000),
        batch_bytes=load.batch_bytes,
        compression=load.compression,
        **_payload_settings(folder, load.payload),
        engine=load.engine,
        control=str(folder),
        **_transaction_settings(load.transaction),
        keys=as_written(load.keys),
        client_partitions=load.client_partitions,
        seed=world.plan.seed,
    )


def _payload_settings(folder: Path, payload: Payload | None) -> dict[str, Any]:
    if payload is None or payload.file is None:
        return {"compresses_to": payload.compresses_to if payload else None}
    copied = folder / "payload"
    copied.write_bytes(payload.file.read_bytes())
    return {"payload_file": str(copied)}


def _transaction_settings(transaction: Transaction | None) -> dict[str, Any]:
    if transaction is None:
        return {}
    return {
        "transaction_records": transaction.records,
        "abort_every": transaction.abort_every,
        "transaction_timeout_ms": int(transaction.timeout * 1000),
    }


def set_rate(world: World, load: str, rate_per_s: float) -> dict[str, Any]:
    """Set a load's producers to equal shares of a rate; return it and when the last one changed.

    Raises:
        WaitTimeout: a producer does not answer.
    """
    folders = [world.folder.work / name for name, producer in _producers(world).items() if producer.of == load]
    answers = [folder / OFFERED for folder in folders]
    for folder, answer in zip(folders, answers, strict=True):
        answer.unlink(missing_ok=True)
        write_atomically(folder / OFFER, json.dumps({"rate_per_s": rate_per_s / len(folders)}))
    for answer in answers:
        what = f"{answer.parent.name} to offer {rate_per_s / len(folders):g}/s"
        wait_until(answer.exists, limit_s=OFFER_LIMIT_S, every_s=0.005, what=what)
    offered = [json.loads(answer.read_text()) for answer in answers]
    rate, since_ns = math.fsum(each["rate_per_s"] for each in offered), max(each["from_ns"] for each in offered)
    return {"rate_per_s": rate, "from_ns": since_ns}


def summary_of(world: World, name: str) -> dict[str, Any]:
    """Return a client's latest summary, or {}."""
    try:
        config = json.loads((world.folder.work / name / CONFIG).read_text())
        summary: dict[str, Any] = json.loads(Path(config["summary"]).read_text())
    except FileNotFoundError:
        return {}
    return summary


def is_ready(world: World, name: str) -> bool:
    """Return whether a client has its first sample, record or ack."""
    return summary_of(world, name).get("ready_ns") is not None


def has_ended(world: World, name: str) -> bool:
    """Return whether a client's process has ended or does not exist."""
    return world.runtime.state(name) in ("exited", "absent")


def died(world: World) -> list[Node]:
    """Return clients that ended unasked: their data has a gap."""
    members = member_names(world)
    ended = (name for name in client_names(world) if world.runtime.state(name) == "exited")
    unclean = [name for name in ended if not summary_of(world, name).get("clean")]
    return [member_node(world, name) if name in members else client_node(world, name) for name in unclean]


def record_exit(world: World, name: str) -> None:
    """Record that a client ended, and whether cleanly."""
    world.events.add("node_exited", target=name, clean=summary_of(world, name).get("clean", False))


def end_clients(world: World, limits: Mapping[str, float]) -> None:
    """Send SIGTERM to running clients (name → limit in s); kill and record slow ones."""
    live = {name: limit_s for name, limit_s in limits.items() if world.runtime.state(name) == "running"}
    for name in live:
        world.runtime.kill(name, "SIGTERM")
    for name, limit_s in live.items():
        try:
            wait_until(partial(has_ended, world, name), limit_s=limit_s, what=f"{name} to end")
        except WaitTimeout as error:
            world.runtime.kill(name, "SIGKILL")
            world.events.add("error", step="stop_clients", target=name, why=str(error))
        record_exit(world, name)
