"""A run folder opened for judging: its tables as DataFrames, its small files as Python values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from history.folder import RunFolder
from history.manifest import Manifest
from history.tables import RECORDED
from kafka_files.checkpoints import LEADER_EPOCHS, read_epochs
from spark.folder.run import Run, drains, open_folder
from spark.folder.tables import PARTITION, REPLICA, read_files, rows

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

_BEFORE = (Window.unboundedPreceding, -1)

SMALL_BYTES = 500_000_000


@dataclass(frozen=True)
class Recorded(Run):
    """Everything that the checks read."""

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
    run = open_folder(folder)
    manifest = run.manifest
    tables = {name: read_files(spark, run.files[name], schema) for name, schema in RECORDED.items()}
    whole = _in_one_piece(spark, folder)
    segments = spark.read.format("kafka_log").load(str(folder.brokers))
    pairs = [F.lit(part) for node in manifest.brokers for part in (node.name, node.node_id)]
    broker_id = F.create_map(*pairs)[F.col("node")] if pairs else F.lit(None).cast("int")
    return Recorded(
        **vars(run),
        sends=tables["sends"].transform(whole).persist(),
        polls=tables["polls"].transform(whole).persist(),
        seeks=tables["seeks"],
        replicas=tables["replicas"].transform(whole).persist(),
        isr=tables["isr"].transform(whole).persist(),
        offsets=tables["offsets"],
        usage=tables["usage"],
        segments=segments.withColumn("broker_id", broker_id).transform(whole).persist(),
        epochs=rows(spark, EPOCHS, _epoch_starts(folder, manifest)),
        drains=rows(spark, DRAINS, (where._asdict() | drain._asdict() for where, drain in drains(run.clients).items())),
    )


def _in_one_piece(spark: SparkSession, folder: RunFolder) -> Callable[[DataFrame], DataFrame]:
    """What keeps the tables of a small run in one piece: nothing is shuffled then, and a query is one task.

    Of a run of some minutes, starting tasks costs more than all of its rows.
    """
    small = sum(file.stat().st_size for file in folder.path.rglob("*") if file.is_file()) < SMALL_BYTES
    spark.conf.set("spark.sql.shuffle.partitions", 1 if small else 2 * spark.sparkContext.defaultParallelism)
    return lambda frame: frame.coalesce(1) if small else frame


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
