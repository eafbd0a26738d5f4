"""Write a run's manifest: everything known before the first record."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clusters.clients.nodes import probe_rates
from clusters.kafka.builds import Build
from clusters.kafka.jars import jars_digest
from clusters.kafka.servers import jvm_flags
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.scenario.durations import catch_up_s
from clusters.scenario.producers import Producer
from clusters.scenario.scenario import Scenario
from clusters.scenario.shapes import usual
from clusters.scenario.steps.catalog import traits_by_step
from clusters.scenario.steps.flow import Write
from history.errors import HarnessError
from history.events import read_events
from history.java import java_of
from history.manifest import Incarnation, JavaInfo, Manifest, NodeInfo, ProducerInfo, TopicInfo, read_manifest
from history.payload import copier_id
from history.product import product


def made_manifest(world: World, configs: dict[str, dict[str, str]]) -> Manifest:
    """Return the manifest of a run on a made cluster; ``configs`` maps server nodes to settings."""
    java, made = world.plan.java, world.plan.made
    return manifest_of(
        world,
        scenario_digest=world.scenario.digest,
        nodes=[_node_info(node, configs[node.name]) for node in world.servers.nodes],
        topics=topics_of(world.scenario, {name: topic.config for name, topic in world.scenario.topics.items()}),
        kafka_jars_digest=jars_digest(made.jars.glob("*.jar")),
        kafka_origin=made.origin,
        java=JavaInfo(version=java.version, vendor=java.vendor, released=java.released),
    )


def topics_of(scenario: Scenario, configs: Mapping[str, dict[str, str]]) -> dict[str, TopicInfo]:
    """Return a scenario's topics with their assignments and settings."""
    ids = scenario.cluster.broker_ids
    return {
        name: TopicInfo(assignment=topic.assignment(ids), config=configs.get(name, {}))
        for name, topic in scenario.topics.items()
    }


def manifest_of(world: World, **of_cluster: Any) -> Manifest:
    """Return a run's manifest; ``of_cluster`` are the fields that differ between made and attached clusters.

    Raises:
        HarnessError: a field has no valid value.
    """
    plan, scenario = world.plan, world.scenario
    try:
        return Manifest(
            run_id=world.folder.run_id,
            scenario_name=scenario.name,
            scenario=scenario.model_dump(),
            control=scenario.control,
            faults=scenario.faults,
            traits=traits_by_step(),
            kafka_version=plan.kafka_version,
            mode=plan.mode,
            runtime=plan.runtime,
            seed=plan.seed,
            started_at=datetime.now(UTC).isoformat(),
            started_ns=time.monotonic_ns(),
            boot_id=boot_id(),
            probe_hz=probe_rates(scenario)[0],
            patience_s=catch_up_s(scenario) or None,
            producers=producers(scenario, plan.clients),
            host=host_fingerprint(),
            plimsoll=product(),
            labels=plan.labels,
            **of_cluster,
        )
    except ValidationError as error:
        raise HarnessError(f"The manifest of {world.folder.run_id} could not be made: {error}") from error


def _node_info(node: Node, config: dict[str, str]) -> NodeInfo:
    return NodeInfo.model_validate(
        {
            "name": node.name,
            "role": node.role,
            "address": node.address,
            "node_id": node.node_id,
            "config": config,
            "jvm_flags": jvm_flags(node),
        }
    )


def add_features(world: World) -> None:
    """Add the features that a broker reports before the first record."""
    _complete(world, features=world.reports.features())


def add_incarnations(world: World) -> None:
    """Add each server start's version."""
    incarnations = [
        Incarnation(
            node=event.target,
            incarnation=event.detail["incarnation"],
            kafka_version=event.detail["kafka_version"],
            started_ns=event.t_ns,
        )
        for event in read_events(world.folder.events)
        if event.kind == "node_started" and "kafka_version" in event.detail
    ]
    _complete(world, incarnations=incarnations)


def _complete(world: World, **known: Any) -> None:
    read_manifest(world.folder.manifest).model_copy(update=known).write(world.folder.manifest)


def producers(scenario: Scenario, clients: Mapping[str, Build]) -> list[ProducerInfo]:
    """Return all producers: of loads, the copier and ``write`` steps."""
    return [
        *(_of_load(producer, clients.get(producer.of)) for producer in scenario.producers),
        *_copies(scenario),
        *(_of_write(scenario.id_of(step), step) for step in scenario.steps if isinstance(step, Write)),
    ]


def _of_write(producer_id: str, step: Write) -> ProducerInfo:
    return ProducerInfo(
        producer_id=producer_id,
        topic=step.topic,
        acks=step.acks,
        idempotence=False,
        retries=0,
        engine="raw",
        record_bytes=step.record_bytes,
    )


def _of_load(producer: Producer, client: Build | None) -> ProducerInfo:
    load = producer.load
    return ProducerInfo(
        producer_id=producer.producer_id,
        load=producer.of,
        topic=load.topic,
        acks=load.acks,
        idempotence=load.idempotence,
        retries=load.retries,
        engine=load.engine,
        client=client.version if client else None,
        rate_per_s=usual(producer.rate),
        record_bytes=0 if client else round(load.sizes.mean),  # VerifiableProducer's size varies
        transaction_timeout_ms=int(load.transaction.timeout * 1000) if load.transaction else None,
    )


def _copies(scenario: Scenario) -> list[ProducerInfo]:
    if scenario.copier is None:
        return []
    return [
        ProducerInfo(
            producer_id=copier_id(partition),
            topic=scenario.copier.to,
            acks="all",
            idempotence=True,
            retries=2_147_483_647,
            engine="copier",
            record_bytes=round(max(load.sizes.mean for load in scenario.copied)),
            transaction_timeout_ms=int(scenario.copier.timeout * 1000),
            offsets=scenario.copier.offsets,
        )
        for partition in range(scenario.topics[scenario.copier.to].partitions)
    ]


def boot_id() -> str:
    """Return the host's boot id: each boot restarts the monotonic clock."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def host_fingerprint() -> dict[str, Any]:
    """Return what a comparison needs to know about host and libraries."""
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ":")
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    names = ("apache-airflow", "confluent-kafka", "great-expectations", "kafka-python", "pyarrow", "pyspark")
    return {
        "cpu": cpu.partition(":")[2].strip(),
        "cores": os.cpu_count(),
        "memory_bytes": memory_kib * 1024,
        "kernel": platform.release(),
        "python": sys.version.split()[0],
        "java": str(java_of()),
        "libraries": {name: version(name) for name in names},
    }
