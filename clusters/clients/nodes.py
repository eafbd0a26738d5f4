"""The nodes that are clients: what each is told, how far it says it is, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.runtimes.ports import PORTS
from clusters.scenario.durations import drain_limit_s
from clusters.scenario.groups import GROUP_ID, Group, ShareGroup
from clusters.scenario.scenario import Load, Payload, Transaction
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout
from history.folder import write_atomically

PROBE_HZ = 20.0
ISR_HZ = 10.0
OFFER_LIMIT_S = 10.0
PRODUCER, CONSUMER, PROBER, DRAIN, COPIER = "producer", "consumer", "prober", "drain", "copier"
CLIENTS = (PRODUCER, CONSUMER, PROBER, DRAIN, COPIER)
CONFIG, ALIVE = "config.json", "alive"  # in a client's folder


def client_node(world: World, name: str) -> Node:
    """A client node; its configuration is ``CONFIG`` in its folder, written here."""
    folder = world.folder.work / name
    folder.mkdir(exist_ok=True)
    config = folder / CONFIG
    if not config.exists():
        config.write_text(_client_config(world, name).to_json())
    role = "consumer" if name == DRAIN else name
    return _node(world, name, role, _module(world, name), CLIENTS.index(name))


def _node(world: World, name: str, role: str, module: str, index: int) -> Node:
    folder = world.folder.work / name
    return Node(
        name=name,
        role=role,
        address=world.client_address(index),
        folder=folder,
        program="python",
        arguments=("-m", f"clusters.clients.{module}", str(folder / CONFIG)),
        readable=tuple(_readable(world, name)),
        writable=(world.folder.work / "streams", world.folder.clients),
    )


def _readable(world: World, name: str) -> Iterator[Path]:
    if access := world.access(name):
        yield Path(access.folder)
    if name == PRODUCER and world.plan.client:
        yield from (world.plan.client.jars, world.plan.java.home)


def _module(world: World, name: str) -> str:
    return "verifiable_producer" if name == PRODUCER and world.plan.client else name


def member_names(world: World) -> list[str]:
    """The nodes that are members of the load's group."""
    group = world.scenario.group
    return [f"member-{number}" for number in range(1, group.members + 1)] if group else []


def member_node(world: World, name: str) -> Node:
    """The node of a member of the group."""
    module = "share_member" if isinstance(world.scenario.group, ShareGroup) else "member"
    return _node(world, name, "member", module, len(CLIENTS) + member_names(world).index(name))


def start_member(world: World, node: Node) -> None:
    """Start a member: it is told to call itself by a name that no other life of its node has."""
    load, name = world.scenario.load, node.name
    if load is None or load.group is None:
        raise HarnessError(f"Scenario {world.scenario.name} has no consumer group, so there is no {name}.")
    node.folder.mkdir(exist_ok=True)
    member = f"{name}.{world.incarnation_of(node) + 1}"
    common: dict[str, Any] = {
        "client_id": member,
        "out": str(world.folder.work / "streams"),
        "summary": str(world.folder.clients / f"{member}.json"),
        "access": world.access(name),
        "bootstrap": world.bootstrap,
        "topic": load.topic,
        "group_id": GROUP_ID,
        "alive": str(node.folder / ALIVE),
    }
    write_atomically(node.folder / CONFIG, _member_config(load.group, load.isolation, common).to_json())
    world.start(node)


def _member_config(group: Group | ShareGroup, isolation: str, common: dict[str, Any]) -> ClientConfig:
    if isinstance(group, ShareGroup):
        return ShareMemberConfig(**common, processing_s=group.processing, release_every=group.release_every)
    return MemberConfig(
        **common,
        protocol=group.protocol,
        assignor=group.assignor,
        session_timeout_ms=int(group.session_timeout * 1000),
        commit_every_s=group.commit_every,
        commit_ahead=group.commit == "ahead",
        isolation=isolation,
    )


def last_poll(world: World, name: str) -> int:
    """When a member last polled, by the clock of its file; 0: never."""
    try:
        return (world.folder.work / name / ALIVE).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def given_to(world: World, name: str) -> int:
    """How many records a member of a share group was given in its life, as it last said."""
    return int(_summary(world, name).get("so_far", {}).get("given", 0))


def _client_config(world: World, name: str) -> ClientConfig:
    scenario = world.scenario
    common: dict[str, Any] = {
        "client_id": name,
        "out": str(world.folder.work / "streams"),
        "summary": str(summary_file(world, name)),
        "access": world.access(name),
    }
    topics = {topic: settings.partitions for topic, settings in scenario.topics.items()}
    if name == PROBER:
        brokers = {number: f"{node.address}:{PORTS['PROBE']}" for number, node in world.brokers.items()}
        ids = scenario.cluster.broker_ids
        assignment = {topic: settings.assignment(ids) for topic, settings in scenario.topics.items()}
        return ProberConfig(**common, brokers=brokers, assignment=assignment, hz=PROBE_HZ, isr_hz=ISR_HZ)
    load = scenario.load
    isolation = load.isolation if load else "read_uncommitted"
    reads: dict[str, Any] = {"bootstrap": world.bootstrap, "topics": topics, "isolation": isolation}
    if name == CONSUMER:
        return ConsumerConfig(**common, **reads)
    if name == DRAIN:
        return DrainConfig(**common, **reads, limit_s=drain_limit_s(scenario))
    if load is None:
        raise HarnessError(f"Scenario {scenario.name} has no load, so there is no producer to start.")
    if name == COPIER and scenario.copier:
        return CopierConfig(
            **common,
            bootstrap=world.bootstrap,
            topic=load.topic,
            to=scenario.copier.to,
            partitions=topics[load.topic],
            offsets=scenario.copier.offsets,
            records=scenario.copier.records,
            record_bytes=load.record_bytes,
            transaction_timeout_ms=int(scenario.copier.timeout * 1000),
        )
    settings = _producer_settings(world, load, common, topics[load.topic])
    if client := world.plan.client:
        return VerifiableProducerConfig(**settings, java=world.plan.java.command, jars=str(client.jars))
    return ProducerConfig(**settings)


def _producer_settings(world: World, load: Load, common: dict[str, Any], partitions: int) -> dict[str, Any]:
    return dict(
        **common | {"client_id": load.producer_id},
        bootstrap=world.bootstrap,
        topic=load.topic,
        partitions=partitions,
        rate_per_s=load.rate,
        record_bytes=load.record_bytes,
        acks=load.acks,
        idempotence=load.idempotence,
        retries=load.retries,
        request_timeout_ms=int(load.request_timeout * 1000),
        delivery_timeout_ms=int(load.delivery_timeout * 1000),
        linger_ms=int(load.linger * 1000),
        batch_bytes=load.batch_bytes,
        compression=load.compression,
        **_payload_settings(world, load.payload),
        engine=load.engine,
        control=str(world.folder.work / PRODUCER),
        **_transaction_settings(load.transaction),
    )


def _payload_settings(world: World, payload: Payload | None) -> dict[str, Any]:
    """A file is copied to where the node can read it."""
    if payload is None or payload.file is None:
        return {"compresses_to": payload.compresses_to if payload else None}
    copied = world.folder.work / PRODUCER / "payload"
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


def set_rate(world: World, rate_per_s: float) -> dict[str, Any]:
    """Let the producer that runs change its rate; returns its answer: ``rate_per_s`` and ``from_ns``.

    Raises:
        WaitTimeout: it does not answer.
    """
    folder = world.folder.work / PRODUCER
    answer = folder / OFFERED
    answer.unlink(missing_ok=True)
    write_atomically(folder / OFFER, json.dumps({"rate_per_s": rate_per_s}))
    wait_until(answer.exists, limit_s=OFFER_LIMIT_S, every_s=0.005, what=f"the producer to offer {rate_per_s:g}/s")
    taken: dict[str, Any] = json.loads(answer.read_text())
    return taken


def summary_file(world: World, name: str) -> Path:
    """A client's account of itself (``clusters.clients.summary``)."""
    return world.folder.clients / f"{name}.json"


def _summary(world: World, name: str) -> dict[str, Any]:
    try:
        told = json.loads((world.folder.work / name / CONFIG).read_text())
        found: dict[str, Any] = json.loads(Path(told["summary"]).read_text())
    except FileNotFoundError:
        return {}
    return found


def is_ready(world: World, name: str) -> bool:
    """Whether a client has seen its first sample, record or acknowledgement."""
    return _summary(world, name).get("ready_ns") is not None


def has_ended(world: World, name: str) -> bool:
    """Whether a client runs no more."""
    return world.runtime.state(name) in ("exited", "absent")


def record_exit(world: World, name: str) -> None:
    """Record that a client ended, and whether it ended as it should."""
    world.events.add("node_exited", target=name, clean=_summary(world, name).get("clean", False))


def end_clients(world: World, names: list[str], limit_s: float = 15) -> None:
    """SIGTERM to those that run; one that does not end in time is killed, and that is recorded."""
    live = [name for name in names if world.runtime.state(name) == "running"]
    for name in live:
        world.runtime.kill(name, "SIGTERM")
    for name in live:
        try:
            wait_until(partial(has_ended, world, name), limit_s=limit_s, what=f"{name} to end")
        except WaitTimeout as error:
            world.runtime.kill(name, "SIGKILL")
            world.events.add("error", step="stop_clients", target=name, why=str(error))
        record_exit(world, name)
