"""Every supported Kafka version answers the wire probe and the clients.

The fixture ``cluster`` is a running cluster of three brokers, ids 1 to 3, once per Kafka version, with automatic topic
creation off and ``replica.lag.time.max.ms`` of a few seconds. It has ``brokers: dict[int, str]``, broker id →
``host:port`` for the test's connections. Each test creates a separate topic.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pytest

from clusters.clients.configs import (
    ClientConfig,
    ConsumerConfig,
    DrainConfig,
    ProberConfig,
    ProducerConfig,
    VerifiableProducerConfig,
)
from clusters.clients.ledger import sends_of
from clusters.clients.polls import polls_of
from clusters.kafka import admin
from clusters.kafka.connection import Connection
from clusters.kafka.fetching import read_batches
from clusters.kafka.jars import tools_jars
from clusters.kafka.offsets import list_offset
from clusters.kafka.probe import ReplicaSample, probe_all
from clusters.kafka.producing import produce
from clusters.kafka.views import metadata
from clusters.waiting import wait_until
from history.draws import Keys, partitions_of
from history.errors import HarnessError
from history.java import java_of
from history.partition import TopicPartition
from history.streams import read_stream
from tests.integration.conftest import VERSIONS

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
ASSIGNMENT = {0: [1, 2, 3], 1: [2, 3, 1]}
JAVA_CLIENT = "4.3.1"


class Cluster(Protocol):
    """The fixture's cluster."""

    brokers: dict[int, str]


@pytest.fixture
def to(cluster: Cluster) -> Iterator[dict[int, Connection]]:
    """A connection to each broker."""
    addresses = {broker: address.rpartition(":") for broker, address in cluster.brokers.items()}
    connections = {broker: Connection(host, int(port), 5.0) for broker, (host, _, port) in addresses.items()}
    yield connections
    for connection in connections.values():
        connection.close()


@pytest.fixture
def topic(to: dict[int, Connection]) -> str:
    """A new topic with two partitions on all brokers, led by 1 and 2, min.insync.replicas 2."""
    name = f"contract-{uuid.uuid4().hex[:8]}"
    admin.create_topic(to[3], name, ASSIGNMENT, {"min.insync.replicas": "2"})
    wait_until(
        lambda: all(probed(to[broker], name, p).error is None for p in ASSIGNMENT for broker in ASSIGNMENT[p]),
        limit_s=60,
        what=f"all replicas of {name}",
    )
    return name


def leader(to: dict[int, Connection], topic: str) -> int:
    """Return the leader of partition 0 by broker 3's metadata."""
    return next(part.leader for part in metadata(to[3], [topic]).partitions if part.partition == 0)


def probed(broker: Connection, topic: str, partition: int) -> ReplicaSample:
    """Sample one replica."""
    (sample,) = probe_all(broker, [TopicPartition(topic, partition)])
    return sample


def settled(to: dict[int, Connection], topic: str, log_end: int) -> list[ReplicaSample]:
    """Return all three replicas of partition 0 once LEO and high watermark have reached an offset."""

    def there() -> list[ReplicaSample]:
        samples = [probed(to[broker], topic, 0) for broker in ASSIGNMENT[0]]
        return samples if all(sample.high_watermark == sample.log_end_offset == log_end for sample in samples) else []

    return wait_until(there, limit_s=60, what=f"{topic}-0 at {log_end} on every replica")


def test_empty_replicas_tell_zeros(to: dict[int, Connection], topic: str) -> None:
    """Before the first record each replica answers with zeros, with or without an epoch entry."""
    samples = [probed(connection, topic, 0) for connection in to.values()]

    assert [(s.log_start_offset, s.high_watermark, s.log_end_offset) for s in samples] == [(0, 0, 0)] * 3


def test_every_replica_tells_its_own_offsets_in_one_reply(to: dict[int, Connection], topic: str) -> None:
    """After a write the leader and both followers return high watermark and LEO in one reply."""
    produced = list(produce(to[1], topic, 0, [[b"x" * 100] * 5] * 3, "all"))
    samples = settled(to, topic, 15)

    assert [(p.base_offset, p.error) for p in produced] == [(0, None), (5, None), (10, None)]
    assert [s.single_reply for s in samples] == [True, True, True]
    assert {s.leader_epoch for s in samples} == {0}


def test_only_the_leader_takes_writes(to: dict[int, Connection], topic: str) -> None:
    """A follower rejects a write with NOT_LEADER_OR_FOLLOWER, and the log does not grow."""
    (refused,) = produce(to[2], topic, 0, [[b"x"]], "all")

    assert (refused.base_offset, refused.error) == (None, "NOT_LEADER_OR_FOLLOWER")
    assert list_offset(to[1], topic, 0).offset == 0


def test_unknown_topic_is_told_by_name(to: dict[int, Connection]) -> None:
    """A replica of an unknown topic has an error's name and no values."""
    sample = probed(to[1], "no-such-topic", 0)

    assert (sample.error, sample.log_end_offset) == ("UNKNOWN_TOPIC_OR_PARTITION", None)


def test_brokers_name_their_defaults_and_find_offsets_and_times(to: dict[int, Connection], topic: str) -> None:
    """A broker describes a setting with all its sources, and finds a batch by an offset in it."""
    told = admin.describe_config(to[1], "broker", "1", ["replica.lag.time.max.ms", "no.such.setting"])
    list(produce(to[1], topic, 0, [[b"a", b"b"], [b"c"]], "all"))

    assert told.keys() == {"replica.lag.time.max.ms"}
    assert told["replica.lag.time.max.ms"]["default"] == "30000"
    assert next(iter(told["replica.lag.time.max.ms"])) == "static"
    replica = TopicPartition(topic, 0)
    assert [int.from_bytes(read_batches(to[1], replica, offset)[:8]) for offset in (0, 1, 2)] == [0, 0, 2]
    assert read_batches(to[1], replica, 3) == b""


def test_epoch_without_a_batch_is_seen_through(to: dict[int, Connection], topic: str) -> None:
    """After a leader change without a write, followers still return both offsets in one reply."""
    list(produce(to[1], topic, 0, [[b"x"] * 7], "all"))
    settled(to, topic, 7)
    admin.reassign(to[1], {TopicPartition(topic, 0): [3, 2, 1]})
    wait_until(lambda: _elected(to, topic, 3), limit_s=60, what=f"3 to lead {topic}-0", every_s=0.2)
    samples = settled(to, topic, 7)

    assert min(s.leader_epoch or 0 for s in samples) >= 1
    assert [s.single_reply for s in samples] == [True, True, True]


def _elected(to: dict[int, Connection], topic: str, broker: int) -> bool:
    try:
        admin.elect_preferred(to[1], [TopicPartition(topic, 0)])
    except HarnessError:
        return False  # the reassignment is not known everywhere yet
    return leader(to, topic) == broker


def test_settings_are_altered_and_refusals_told(to: dict[int, Connection], topic: str) -> None:
    """A valid setting is altered; a rejected one raises the broker's error name."""
    admin.alter_config(to[1], "topic", topic, {"min.insync.replicas": "3"})
    admin.alter_config(to[1], "topic", topic, {"min.insync.replicas": None})
    with pytest.raises(HarnessError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topic(to[1], topic, ASSIGNMENT, {})
    with pytest.raises(HarnessError, match=r"INVALID_CONFIG|INVALID_REQUEST"):
        admin.alter_config(to[1], "topic", topic, {"min.insync.replicas": "none"})


def start(module: str, config: ClientConfig) -> subprocess.Popen[bytes]:
    """Run a client as its node would."""
    path = Path(config.out) / f"{config.client_id}.config.json"
    path.write_text(config.to_json())
    command = [sys.executable, "-m", f"clusters.clients.{module}", str(path)]
    return subprocess.Popen(command, cwd=ROOT)


def summary(config: ClientConfig) -> dict[str, Any]:
    """Return a client's summary."""
    path = Path(config.summary)
    return dict(json.loads(path.read_text())) if path.exists() else {"ready_ns": None}


def rows(config: ClientConfig, table: str) -> list[dict[str, Any]]:
    """Return a client's records as in the run's tables."""
    read = {"sends": sends_of, "polls": polls_of}.get(table, read_stream)
    return pa.Table.from_batches(read(config.stream(table))).to_pylist()


newest_only = pytest.mark.parametrize("cluster", VERSIONS[-1:], indirect=True, scope="module")


@pytest.mark.parametrize("engine", ["kafka-python", "confluent-kafka", "java"])
def test_clients_agree_on_every_record(
    cluster: Cluster, to: dict[int, Connection], topic: str, tmp_path: Path, engine: str
) -> None:
    """Acknowledged records are read by both consumers at the same offsets, and the prober sampled every replica."""
    _clients_agree(cluster, to, topic, tmp_path, (engine, "none"))


CODECS = [("kafka-python", "snappy"), ("kafka-python", "lz4"), ("confluent-kafka", "gzip"), ("confluent-kafka", "zstd")]


@newest_only  # a broker keeps batches as they come
@pytest.mark.parametrize("load", CODECS, ids="-".join)
def test_clients_agree_on_compressed_records(
    cluster: Cluster, to: dict[int, Connection], topic: str, tmp_path: Path, load: tuple[str, str]
) -> None:
    """Clients agree on compressed records with each codec."""
    _clients_agree(cluster, to, topic, tmp_path, load)


def _clients_agree(
    cluster: Cluster, to: dict[int, Connection], topic: str, tmp_path: Path, load: tuple[str, str]
) -> None:
    bootstrap = list(cluster.brokers.values())
    topics = {topic: len(ASSIGNMENT)}

    def named(client_id: str) -> dict[str, Any]:
        return {"out": str(tmp_path), "client_id": client_id, "summary": str(tmp_path / f"{client_id}.json")}

    prober = ProberConfig(**named("prober"), brokers=cluster.brokers, assignment={topic: ASSIGNMENT})
    consumer = ConsumerConfig(**named("live"), bootstrap=bootstrap, topics=topics)
    settings = {"bootstrap": bootstrap, "topic": topic, "partitions": 2, "rate_per_s": 500.0, "record_bytes": 100}
    own_module, producer = _producer(load[0], **named("p1"), **settings, compression=load[1])
    drain = DrainConfig(**named("final"), bootstrap=bootstrap, topics=topics, limit_s=30.0)
    _record(to, topic, {"prober": prober, "consumer": consumer, own_module: producer}, drain)

    sends = {(row["partition"], row["offset"]): row["seq"] for row in rows(producer, "sends") if row["outcome"] == "ok"}
    final = {(row["partition"], row["offset"]): row["seq"] for row in rows(drain, "polls")}
    live = {(row["partition"], row["offset"]): row["seq"] for row in rows(consumer, "polls")}
    assert len(sends) > 0
    assert final == sends
    assert live == sends
    assert all(partition["complete"] for partition in summary(drain)["partitions"].values())
    assert all(summary(config)["clean"] for config in (prober, consumer, producer, drain))
    seen = {(row["broker_id"], row["partition"]) for row in rows(prober, "replicas") if row["error"] is None}
    assert seen == {(broker, partition) for partition, brokers in ASSIGNMENT.items() for broker in brokers}
    assert {row["observer"] for row in rows(prober, "isr")} == {"1", "2", "3"}


def _record(to: dict[int, Connection], topic: str, configs: dict[str, ClientConfig], drain: DrainConfig) -> None:
    """Run clients until there are records; the last one, which writes, ends before the drain, and the others after."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for module, config in configs.items():
            processes.append(start(module, config))
        for config in configs.values():
            wait_until(lambda config=config: summary(config)["ready_ns"], limit_s=60, what=config.client_id)  # type: ignore[misc]  # bound per turn
        wait_until(lambda: list_offset(to[1], topic, 0).offset or 0, limit_s=60, what="records")
        *readers, writer = processes
        _stop(writer)
        assert start("drain", drain).wait(60) == 0
        for process in readers:
            _stop(process)
    finally:
        for process in processes:
            process.kill()
            process.wait()


@newest_only  # it is the client that chooses
@pytest.mark.parametrize("keys", [{"count": 1000, "distribution": "zipf", "exponent": 1.0}, None], ids=["keys", "none"])
@pytest.mark.parametrize("engine", ["kafka-python", "confluent-kafka"])
def test_the_ledger_has_the_partitions_that_a_client_chose(
    cluster: Cluster, to: dict[int, Connection], tmp_path: Path, engine: str, keys: dict[str, Any] | None
) -> None:
    """The ledger has the partitions where the records are read, by the key's hash where a record has a key."""
    topic, partitions = f"t-{uuid.uuid4().hex[:8]}", 7
    admin.create_topic(to[1], topic, {partition: [1, 2, 3] for partition in range(partitions)}, {})
    bootstrap = list(cluster.brokers.values())

    def named(client_id: str) -> dict[str, Any]:
        return {"out": str(tmp_path), "client_id": client_id, "summary": str(tmp_path / f"{client_id}.json")}

    own = {"keys": keys, "client_partitions": True, "seed": 7, "record_bytes": {"uniform": [64, 5000]}}
    rate = {"from": 100.0, "to": 2000.0, "over": 1.0}
    common = {"bootstrap": bootstrap, "topic": topic, "partitions": partitions, "rate_per_s": rate}
    producer = ProducerConfig(**named("p1"), **common, engine=engine, **own)
    drain = DrainConfig(**named("final"), bootstrap=bootstrap, topics={topic: partitions}, limit_s=30.0)
    process = start("producer", producer)
    try:
        wait_until(
            lambda: summary(producer).get("so_far", {}).get("acked", 0) > 1000, limit_s=60, what="a thousand records"
        )
        _stop(process)
        assert start("drain", drain).wait(60) == 0
    finally:
        process.kill()
        process.wait()

    sends = {(row["partition"], row["offset"]): row["seq"] for row in rows(producer, "sends") if row["outcome"] == "ok"}
    assert {(row["partition"], row["offset"]): row["seq"] for row in rows(drain, "polls")} == sends
    assert {partition for partition, _ in sends} == set(range(partitions))
    if keys:
        seqs = np.array(list(sends.values()))
        computed = partitions_of(Keys.of(keys, "7 p1").of_records(seqs), partitions)
        assert computed.tolist() == [partition for partition, _ in sends]


def _producer(engine: str, **settings: Any) -> tuple[str, ProducerConfig]:
    """Return the client's module and its configuration."""
    if engine != "java":
        return "producer", ProducerConfig(**settings, engine=engine)
    jars = str(tools_jars(JAVA_CLIENT))
    own = VerifiableProducerConfig(**settings, engine=engine, java=java_of().command, jars=jars)
    return "verifiable_producer", own


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
