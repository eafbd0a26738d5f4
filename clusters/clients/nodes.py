"""The nodes that are clients: what each is told, how far it says it is, and how it ends."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from clusters.clients.configs import (
    OFFER,
    OFFERED,
    ClientConfig,
    ConsumerConfig,
    DrainConfig,
    ProberConfig,
    ProducerConfig,
)
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.runtimes.ports import PORTS
from clusters.scenario.durations import drain_limit_s
from clusters.scenario.scenario import Transaction
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout
from history.folder import write_atomically

PROBE_HZ = 20.0
ISR_HZ = 10.0
OFFER_LIMIT_S = 10.0
PRODUCER, CONSUMER, PROBER, DRAIN = "producer", "consumer", "prober", "drain"
CLIENTS = (PRODUCER, CONSUMER, PROBER, DRAIN)


def client_node(world: World, name: str) -> Node:
    """A client node; its configuration is ``config.json`` in its folder, written here."""
    folder = world.folder.work / name
    folder.mkdir(exist_ok=True)
    config = folder / "config.json"
    if not config.exists():
        config.write_text(_client_config(world, name).to_json())
    return Node(
        name=name,
        role="consumer" if name == DRAIN else name,
        address=world.client_address(CLIENTS.index(name)),
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
    load = scenario.load
    isolation = load.isolation if load else "read_uncommitted"
    reads: dict[str, Any] = {"bootstrap": world.bootstrap, "topics": topics, "isolation": isolation}
    if name == CONSUMER:
        return ConsumerConfig(**common, **reads)
    if name == DRAIN:
        return DrainConfig(**common, **reads, limit_s=drain_limit_s(scenario))
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
        batch_bytes=load.batch_bytes,
        compression=load.compression,
        engine=load.engine,
        control=str(world.folder.work / name),
        **_transaction_settings(load.transaction),
    )


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


def _summary(world: World, name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((world.folder.clients / f"{name}.json").read_text())
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
