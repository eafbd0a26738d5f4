"""A run folder opened for judging: its tables as DataFrames, its small files as Python values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from history.errors import EvidenceError
from history.events import Event, read_events
from history.folder import RunFolder
from history.manifest import Manifest, read_manifest
from history.partition import TopicPartition
from history.tables import RECORDED
from kafka_files.checkpoints import LEADER_EPOCHS, read_epochs
from spark.folder.tables import PARTITION, REPLICA, read_table, rows

# Where an epoch starts, as a replica's leader-epoch-checkpoint says; the file has one "<epoch> <start>" a line.
EPOCHS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("broker_id", pa.int32(), nullable=False),
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field("start_offset", pa.int64(), nullable=False),
    ]
)
# What the final drain reached, by partition.
DRAINS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("position", pa.int64()),
        pa.field("end_offset", pa.int64()),  # where readers stopped: the high watermark, or the last stable offset
        pa.field("complete", pa.bool_(), nullable=False),
    ]
)
PRODUCERS = pa.schema(
    [
        pa.field("producer_id", pa.string(), nullable=False),
        pa.field("clean", pa.bool_(), nullable=False),  # false: its ledger may lack sends
    ]
)

CONTROLLER = "controller"  # as an observer: its own history, not a view
_BEFORE = (Window.unboundedPreceding, -1)

SMALL_BYTES = 500_000_000


@dataclass(frozen=True)
class Recorded:
    """Everything that the checks read. ``problems`` are files that could not be read, one sentence each."""

    folder: RunFolder
    manifest: Manifest
    events: list[Event]
    clients: list[dict[str, Any]]
    sends: DataFrame
    polls: DataFrame
    seeks: DataFrame
    replicas: DataFrame
    isr: DataFrame
    offsets: DataFrame
    usage: DataFrame
    segments: DataFrame  # kafka_files.segments.SEGMENTS plus broker_id
    epochs: DataFrame
    drains: DataFrame
    problems: list[str]

    @property
    def samples(self) -> DataFrame:
        """The probe's good answers."""
        return good_samples(self.replicas)

    def release(self) -> None:
        for frame in (self.sends, self.polls, self.replicas, self.isr, self.segments):
            frame.unpersist()


def good_samples(replicas: DataFrame) -> DataFrame:
    """Rows that carry values; an error's row says only that the broker could not be asked."""
    return replicas.filter(
        F.col("error").isNull() & F.col("high_watermark").isNotNull() & F.col("log_end_offset").isNotNull()
    )


def leaders(isr: DataFrame) -> DataFrame:
    """Who led in which epoch: (topic, partition, leader_epoch, leader, seen_ns)."""
    named = isr.filter((F.col("leader") >= 0) & F.col("leader_epoch").isNotNull())
    return named.groupBy(*PARTITION, "leader_epoch", "leader").agg(F.min("received_ns").alias("seen_ns"))


def of_leaders(samples: DataFrame, leaders: DataFrame) -> DataFrame:
    """The samples of each epoch's own leader; ``leaders`` as above."""
    led = leaders.select(*PARTITION, "leader_epoch", F.col("leader").alias("broker_id")).distinct()
    return samples.join(F.broadcast(led), [*REPLICA, "leader_epoch"], how="left_semi")


def isr_changes(isr: DataFrame) -> DataFrame:
    """The partition's states in order, each as its own leader's metadata first showed it.

    Brokers answer Metadata from their own caches, and one that was cut off or paused answers with an old one. Leader
    epochs tell old views from new ones, but an ISR may change within an epoch. So a view counts when no observer
    had shown a newer epoch, and when it is the leader's own (a cache only goes forward) or the first to say that nobody
    leads. What a leader showed was decided by then, at the latest.
    """
    known = isr.filter(F.col("leader").isNotNull() & F.col("leader_epoch").isNotNull() & F.col("isr").isNotNull())
    in_order = Window.partitionBy(*PARTITION).orderBy("received_ns", "observer")
    newest, earlier = F.max("leader_epoch").over(in_order), F.max("leader_epoch").over(in_order.rowsBetween(*_BEFORE))
    nobody = (F.col("leader") < 0) & F.coalesce(F.col("leader_epoch") > earlier, F.lit(True))
    own = (F.col("observer") == F.col("leader").cast("string")) | nobody
    state = F.struct("leader", "leader_epoch", F.array_sort("isr").alias("isr"))
    return (
        known.withColumns({"newest": newest, "own": own})
        .filter((F.col("leader_epoch") == F.col("newest")) & F.col("own"))
        .withColumn("state", state)
        .withColumn("before", F.lag("state").over(in_order))
        .filter(F.col("before").isNull() | (F.col("before") != F.col("state")))
        .select(*PARTITION, "received_ns", "leader", "leader_epoch", F.array_sort("isr").alias("isr"), "observer")
    )


def final_isr(isr: DataFrame) -> DataFrame:
    """Members that every last view of the newest epoch names: (topic, partition, broker_id).

    The intersection, because an observer that was cut off keeps naming a member that has left.
    """
    by_partition = Window.partitionBy(*PARTITION)
    by_observer = Window.partitionBy(*PARTITION, "observer", "source").orderBy(F.desc("received_ns"))
    last = (
        isr.filter(F.col("leader_epoch").isNotNull() & F.col("isr").isNotNull())
        .withColumn("newest", F.max("leader_epoch").over(by_partition))
        .filter(F.col("leader_epoch") == F.col("newest"))
        .withColumn("turn", F.row_number().over(by_observer))
        .filter("turn = 1")
    )
    views = last.groupBy(*PARTITION).agg(F.count("*").alias("views"))
    members = last.select(*PARTITION, F.explode("isr").alias("broker_id"))
    return (
        members.groupBy(*PARTITION, "broker_id")
        .agg(F.count("*").alias("named"))
        .join(views, PARTITION, how="inner")
        .filter("named = views")
        .select(*PARTITION, "broker_id")
    )


def open_run(spark: SparkSession, folder: RunFolder) -> Recorded:
    """Read a sealed run folder.

    Raises:
        EvidenceError: the manifest, the events or a client's file cannot be read.
    """
    manifest = read_manifest(folder.manifest)
    tables, problems = {}, []
    for name, schema in RECORDED.items():
        where = folder.table(name)
        tables[name], unreadable = read_table(spark, where, schema)
        problems += unreadable
    clients = _read_clients(folder)
    whole = _in_one_piece(spark, folder)
    segments = spark.read.format("kafka_log").load(str(folder.brokers))
    pairs = [F.lit(part) for node in manifest.brokers for part in (node.name, node.node_id)]
    broker_id = F.create_map(*pairs)[F.col("node")] if pairs else F.lit(None).cast("int")
    return Recorded(
        folder=folder,
        manifest=manifest,
        events=_read_events(folder),
        clients=clients,
        sends=tables["sends"].transform(whole).persist(),
        polls=tables["polls"].transform(whole).persist(),
        seeks=tables["seeks"],
        replicas=tables["replicas"].transform(whole).persist(),
        isr=tables["isr"].transform(whole).persist(),
        offsets=tables["offsets"],
        usage=tables["usage"],
        segments=segments.withColumn("broker_id", broker_id).transform(whole).persist(),
        epochs=rows(spark, EPOCHS, _epoch_starts(folder, manifest)),
        drains=rows(spark, DRAINS, _drains(clients)),
        problems=problems,
    )


def _in_one_piece(spark: SparkSession, folder: RunFolder) -> Callable[[DataFrame], DataFrame]:
    """What keeps the tables of a small run in one piece: nothing is shuffled then, and a query is one task.

    Of a run of some minutes, starting tasks costs more than all of its rows.
    """
    small = sum(file.stat().st_size for file in folder.path.rglob("*") if file.is_file()) < SMALL_BYTES
    spark.conf.set("spark.sql.shuffle.partitions", 1 if small else 2 * spark.sparkContext.defaultParallelism)
    return lambda frame: frame.coalesce(1) if small else frame


def producers(recorded: Recorded) -> list[dict[str, Any]]:
    """Each producer and whether it ended cleanly (a row of ``PRODUCERS``); an imported one does by its nature."""
    ended = {client["client_id"]: client.get("clean") is True for client in recorded.clients}
    return [
        {"producer_id": p.producer_id, "clean": ended.get(p.producer_id, p.engine == "foreign")}
        for p in recorded.manifest.producers
    ]


def _read_events(folder: RunFolder) -> list[Event]:
    try:
        return sorted(read_events(folder.events), key=lambda event: event.t_ns)
    except (OSError, ValueError, TypeError) as error:
        raise EvidenceError(f"{folder.events} cannot be read as events: {error}.") from error


def _read_clients(folder: RunFolder) -> list[dict[str, Any]]:
    clients = []
    for file in sorted(folder.clients.glob("*.json")):
        try:
            client = json.loads(file.read_text())
            clients.append({"client_id": file.stem, "role": "", **client})
        except (OSError, ValueError, TypeError) as error:
            raise EvidenceError(f"{file} cannot be read as a client's last words: {error}.") from error
    return clients


def _drains(clients: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The furthest complete drain of each partition."""
    best: dict[TopicPartition, dict[str, Any]] = {}
    for client in clients:
        for key, reached in (client.get("partitions") or {}).items() if client["role"] == "drain" else ():
            where = TopicPartition.parse(key)
            row = {
                **where._asdict(),
                "position": reached.get("position"),
                "end_offset": reached.get("end_offset"),
                "complete": reached.get("complete") is True and client.get("clean") is True,
            }
            known = best.get(where)
            if known is None or _reach(row) > _reach(known):
                best[where] = row
    yield from best.values()


def _reach(drain: dict[str, Any]) -> tuple[bool, int]:
    return drain["complete"], drain["position"] or 0


def _epoch_starts(folder: RunFolder, manifest: Manifest) -> Iterator[dict[str, Any]]:
    broker_ids = {node.name: node.node_id for node in manifest.brokers}
    for file in sorted(folder.brokers.rglob(LEADER_EPOCHS)):
        node = file.relative_to(folder.brokers).parts[0]
        topic, _, partition = file.parent.name.rpartition("-")
        if node not in broker_ids or topic not in manifest.topics:
            continue
        for epoch, start in read_epochs(file) or ():
            yield {
                "topic": topic,
                "partition": int(partition),
                "broker_id": broker_ids[node],
                "leader_epoch": epoch,
                "start_offset": start,
            }
