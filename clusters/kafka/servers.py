"""Make configuration files and command lines of server nodes."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clusters.kafka.access import Access
from clusters.kafka.jars import version_of
from clusters.kafka.metrics import RULES
from clusters.kafka.properties import render
from clusters.kafka.security import FOLDER, Secrets
from clusters.runtimes.nodes import Node
from clusters.runtimes.ports import Listener, endpoints_of
from clusters.scenario.scenario import Cluster
from history.errors import BadInput
from history.java import Java
from history.kafka_versions import FEATURES, Mode, Version, usual_mode

CONTROLLER_ID = 100
PROTOCOL_VERSION = "inter.broker.protocol.version"
ELR = "eligible.leader.replicas.version"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"  # KIP-392
_LISTENERS: tuple[Listener, ...] = ("REPLICATION", "CLIENT", "PROBE")
SCRAM = "SCRAM-SHA-512"
_SASL_CALLS_REMOVED = 23  # in Java (KAFKA-17078)

# For correctness scenarios, never for benchmarks.
QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# As kafka-run-class.sh.
_STOCK_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
_GC_LOG = ("-Xlog:gc*:file=gc.log:time,tags:filecount=10,filesize=100M",)
HEADLESS = "-Djava.awt.headless=true"
_STOCK_HEAPS = {"broker": "1G", "controller": "1G", "zookeeper": "512M"}
_QUICK_HEAPS = {"broker": "384m", "controller": "256m", "zookeeper": "256m"}
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
)
_ZOOKEEPER = ("-Dzookeeper.admin.enableServer=false", "org.apache.zookeeper.server.quorum.QuorumPeerMain")
# Short scenarios and small exports; a scenario may override each.
QUICK = {
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "500",
    "log.index.size.max.bytes": "1048576",
    "offsets.topic.num.partitions": "1",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "transaction.state.log.num.partitions": "1",
}


@dataclass(frozen=True)
class Release:
    """A Kafka version to run, with class path and Java."""

    version: str
    jars: Path
    mode: Mode
    java: Java
    agent: Path | None = None


def choose_mode(version: str, wanted: Mode | None) -> Mode:
    """Return the mode: by default ZooKeeper up to 3.2, KRaft from 3.3 (KIP-833).

    Raises:
        BadInput: the version lacks that mode.
    """
    release = version_of(version)
    if wanted is None:
        return usual_mode(version)
    if wanted == "zookeeper" and release not in FEATURES["zookeeper"]:
        raise BadInput(f"Kafka {version} has no ZooKeeper mode (removed in 4.0); use mode: kraft.")
    if wanted == "kraft" and release not in FEATURES["kraft"]:
        raise BadInput(f"Kafka {version} has KRaft as a preview only; use mode: zookeeper, or 3.3.0 and later.")
    return wanted


def with_jars(node: Node, old: Path, new: Path) -> Node:
    """Return a server's node with other jars."""
    arguments = tuple(f"{new}/*" if argument == f"{old}/*" else argument for argument in node.arguments)
    readable = tuple(new if path == old else path for path in node.readable)
    return replace(node, arguments=arguments, readable=readable)


def cluster_id(run_id: str) -> str:
    """Derive a cluster id, which never begins with a dash: Kafka's tool takes that for an option."""
    digest = hashlib.md5(run_id.encode(), usedforsecurity=False).digest()
    identity = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return f"A{identity[1:]}" if identity.startswith("-") else identity


def check_storage(version: str, mode: Mode, cluster: Cluster) -> None:
    """Check that the version supports the scenario's storage, metadata and SCRAM settings.

    Raises:
        BadInput: metadata.version needs 3.3 (KIP-778), eligible leader replicas 4.0 (KIP-966), several log directories
            in KRaft 3.7 (KIP-858), SCRAM in KRaft 3.5 (KIP-900).
    """
    release = version_of(version)
    levels = [release, *([Version.parse(cluster.metadata_version)] if cluster.metadata_version else [])]
    if cluster.log_dirs > 1 and mode == "kraft" and min(levels) not in FEATURES["kraft_jbod"]:
        raise BadInput(
            f"cluster.log_dirs: Kafka {min(levels)} in KRaft mode does not survive the failure of one of several log "
            "directories; use 3.7 or later, or mode: zookeeper."
        )
    sasl = cluster.security.sasl if cluster.security else None
    if sasl == SCRAM and mode == "kraft" and min(levels) not in FEATURES["kraft_scram"]:
        raise BadInput(
            f"cluster.security: Kafka {min(levels)} in KRaft mode has no users for {sasl}; use 3.5 or later, sasl: "
            "PLAIN, or mode: zookeeper."
        )
    if cluster.elr is not None and release not in FEATURES["elr"]:
        raise BadInput(
            f"cluster.elr: Kafka {version} has no eligible leader replicas; use 4.0 or later, or leave it out."
        )
    level = cluster.metadata_version
    if level is None:
        return
    wanted = Version.parse(level)
    if wanted > release:
        raise BadInput(
            f"cluster.metadata_version: {level} is newer than Kafka {version}; name its own or an older one."
        )
    if mode == "kraft" and wanted not in FEATURES["kraft"]:
        raise BadInput(f"cluster.metadata_version: {level} is a preview of KRaft; 3.3 is the oldest that can be used.")
    if cluster.elr and wanted not in FEATURES["elr"]:
        raise BadInput(f"cluster.elr: true needs metadata_version 4.0 or later, not {level}.")


def check_java(version: str, cluster: Cluster, java: Java) -> None:
    """Check that brokers can use SASL on this Java.

    Raises:
        BadInput: SASL on Java 23 and later needs 3.9.1 (KAFKA-17078).
    """
    sasl = cluster.security.sasl if cluster.security else None
    if sasl and java.feature >= _SASL_CALLS_REMOVED and version_of(version) not in FEATURES["sasl_from_java_23"]:
        raise BadInput(
            f"cluster.security: Kafka {version} cannot log in by SASL on Java {java.feature}; set cluster.java to 17 "
            "or 21, or use Kafka 3.9.1 or later."
        )


def secrets_of(cluster: Cluster, work: Path) -> Secrets | None:
    """Return a run's secrets, None for plaintext."""
    security = cluster.security
    return Secrets(work / FOLDER, security.tls, security.sasl) if security else None


def access_of(cluster: Cluster, work: Path, name: str) -> Access | None:
    """Return a node's access to the brokers, None for plaintext."""
    secrets = secrets_of(cluster, work)
    return Access(secrets.client_file(name)) if secrets else None


def metadata_nodes_of(release: Release, cluster: Cluster, addresses: Sequence[str], work: Path) -> list[Node]:
    """Return the KRaft controllers, or ZooKeeper."""
    if release.mode == "zookeeper":
        return [_java_node(release, cluster, "zookeeper", addresses[0], work, main=_ZOOKEEPER)]
    names = ["controller"] if cluster.controllers == 1 else [f"controller-{n + 1}" for n in range(cluster.controllers)]
    return [
        _java_node(release, cluster, name, address, work, node_id=CONTROLLER_ID + index)
        for index, (name, address) in enumerate(zip(names, addresses, strict=False))
    ]


def broker_node(release: Release, cluster: Cluster, broker_id: int, address: str, work: Path) -> Node:
    """Return a broker; its folder has its ``server.properties``."""
    return _java_node(release, cluster, f"broker-{broker_id}", address, work, node_id=broker_id)


def _java_node(
    release: Release,
    cluster: Cluster,
    name: str,
    address: str,
    work: Path,
    *,
    main: tuple[str, ...] = ("kafka.Kafka",),
    node_id: int | None = None,
) -> Node:
    folder = work / name
    role = name.partition("-")[0]
    agent = release.agent if role == "broker" else None
    flags, endpoints = _jvm_flags(cluster, role), endpoints_of(role, address)
    if agent:
        flags += (f"-javaagent:{agent}={endpoints['METRICS']}:{RULES}",)
    loggers = cluster.debug if role == "broker" else []
    secrets = secrets_of(cluster, work) if role == "broker" else None
    logging = (*_LOGGING, *(f"-Dorg.slf4j.simpleLogger.log.{logger}=debug" for logger in loggers))
    return Node(
        name=name,
        role=role,
        address=address,
        folder=folder,
        program=release.java.command,
        arguments=(*flags, *logging, "-cp", f"{release.jars}/*", *main, str(folder / "server.properties")),
        endpoints=endpoints,
        node_id=node_id,
        readable=(
            *(release.jars, release.java.home),
            *((agent, RULES) if agent else ()),
            *((secrets.folder,) if secrets else ()),
        ),
        log_dir_count=cluster.log_dirs if role == "broker" else 1,
        disk_bytes=next((size for name, size in cluster.disks.items() if cluster.broker_ids[name] == node_id), None),
        disk_read=cluster.resource_limits.disk_read if cluster.resource_limits and role == "broker" else None,
    )


def _jvm_flags(cluster: Cluster, role: str) -> tuple[str, ...]:
    heap, flags = (cluster.heap, cluster.jvm_flags) if role == "broker" else (None, None)
    if cluster.jvm == "production":
        heap = heap or _STOCK_HEAPS[role]
        return (f"-Xmx{heap}", f"-Xms{heap}", *(flags or _STOCK_JVM), *_GC_LOG, HEADLESS)
    return (f"-Xmx{heap or _QUICK_HEAPS[role]}", *(flags or QUICK_JVM), HEADLESS)


def jvm_flags(node: Node) -> list[str]:
    """Return a server's JVM flags."""
    return list(node.arguments[: node.arguments.index("-cp")])


def metadata_node_config(
    release: Release, cluster: Cluster, node: Node, metadata_nodes: Sequence[Node]
) -> dict[str, str]:
    """Return the configuration of one controller or of ZooKeeper."""
    if release.mode == "zookeeper":
        return {
            "dataDir": str(node.folder / "data"),
            "clientPort": str(node.endpoints["ZOOKEEPER"].port),
            "clientPortAddress": node.address,
            "tickTime": "1000",  # sessions between 2 and 20 s
            "maxClientCnxns": "0",
        }
    return {
        **kraft_config(node, metadata_nodes),
        **_session_config(release.mode, cluster),
        "process.roles": "controller",
        "listeners": f"CONTROLLER://{node.endpoints['CONTROLLER']}",
        "log.dirs": str(node.folder / "data"),
        **_replication_defaults(cluster),
        **cluster.config,
    }


def broker_config(release: Release, cluster: Cluster, node: Node, metadata_nodes: Sequence[Node]) -> dict[str, str]:
    """Return a broker's configuration."""
    addresses = ",".join(f"{name}://{node.endpoints[name]}" for name in _LISTENERS)
    common = {
        "listeners": addresses,
        "advertised.listeners": addresses,
        "inter.broker.listener.name": "REPLICATION",
        "log.dirs": ",".join(map(str, node.log_dirs)),
        **_session_config(release.mode, cluster),
        **QUICK,
        **_replication_defaults(cluster),
    }
    if release.mode == "zookeeper":
        own = {
            "broker.id": str(node.node_id),
            "zookeeper.connect": str(metadata_nodes[0].endpoints["ZOOKEEPER"]),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in _LISTENERS),
        }
        if cluster.metadata_version:
            own[PROTOCOL_VERSION] = cluster.metadata_version
    else:
        own = {**kraft_config(node, metadata_nodes), "process.roles": "broker"}
        if cluster.log_dirs > 1:
            own["metadata.log.dir"] = str(node.metadata_dir)
    if secrets := secrets_of(cluster, node.folder.parent):
        plaintext = ("CONTROLLER",) if release.mode == "kraft" else ()
        own |= secrets.broker_settings(node.name, _LISTENERS, plaintext)
    return {**common, **own, **_rack_config(cluster, node), **cluster.config}


def _rack_config(cluster: Cluster, node: Node) -> dict[str, str]:
    racks = {cluster.broker_ids[letter]: rack for letter, rack in cluster.racks.items()}
    if node.node_id not in racks:
        return {}
    return {"broker.rack": racks[node.node_id], "replica.selector.class": RACK_AWARE_SELECTOR}


def kraft_config(node: Node, voters: Sequence[Node]) -> dict[str, str]:
    """Return the common part of controllers, brokers and the storage tool."""
    return {
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(f"{v.node_id}@{v.endpoints['CONTROLLER']}" for v in voters),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in (*_LISTENERS, "CONTROLLER")),
        "metadata.max.retention.bytes": "-1",  # KIP-630: else snapshots replace old segments
        "metadata.max.retention.ms": "-1",
    }


def _session_config(mode: Mode, cluster: Cluster) -> dict[str, str]:
    session_ms = str(int(cluster.session_timeout * 1000))
    if mode == "zookeeper":
        return {"zookeeper.session.timeout.ms": session_ms}
    return {"broker.session.timeout.ms": session_ms, "broker.heartbeat.interval.ms": "500"}


def _replication_defaults(cluster: Cluster) -> dict[str, str]:
    factor = str(min(cluster.brokers, 3))
    return {"offsets.topic.replication.factor": factor, "transaction.state.log.replication.factor": factor}


def change(properties: str, settings: Mapping[str, str]) -> str:
    """Change or add settings of a ``render``ed file; other lines stay."""
    lines = [*properties.splitlines(keepends=True), *render(settings).splitlines(keepends=True)]
    by_name = {re.split(r"(?<!\\)=", line, maxsplit=1)[0]: line for line in lines}
    return "".join(line for _, line in sorted(by_name.items()))
