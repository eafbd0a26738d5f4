"""What became of every send, and the delivery of each partition."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from history.events import Event
from history.partition import TopicPartition
from spark.folder.tables import PARTITION, VALUE

# Up to which offset a partition's records were deleted, by order or by retention.
DELETED = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("deleted_before", pa.int64(), nullable=False),
    ]
)
# Fates of acknowledged records above the bound, told apart by the replicas' state at the end of the drain.
UNSEEN = ("truncated_ack", "invisible_ack", "undrained", "unknown_offset_ack", "undecided")


def final_reads(polls: DataFrame) -> DataFrame:
    """Records of ours that the final drain returned."""
    return polls.filter((F.col("pass") == "final") & F.col("producer_id").isNotNull())


def with_read(sends: DataFrame, polls: DataFrame) -> DataFrame:
    """Adds ``read`` (the final drain saw it), ``found_at`` (where), ``copies``, ``seen`` (any reader saw it),
    ``seen_at`` (where, at the furthest) and ``committed`` (it must be in the log).

    An indeterminate send that any reader saw was written; one that none saw was not: both are legal.
    """
    ours = polls.filter(F.col("producer_id").isNotNull())
    # A foreign read whose operation did not end well proves that the record is there, and nothing about others.
    is_final = F.col("pass").isin("final", "incomplete")
    seen = ours.groupBy(*PARTITION, *VALUE).agg(
        F.max(is_final).alias("read"),
        F.sort_array(F.collect_set(F.when(is_final, F.col("offset")))).alias("found_at"),
        F.lit(True).alias("seen"),
        F.max("offset").alias("seen_at"),
    )
    written = (F.col("outcome") == "ok") | ((F.col("outcome") == "info") & F.col("seen"))
    return (
        sends.join(seen, [*PARTITION, *VALUE], how="left")
        .withColumn("read", F.coalesce("read", F.lit(False)))
        .withColumn("seen", F.coalesce("seen", F.lit(False)))
        .withColumn("copies", F.coalesce(F.size("found_at"), F.lit(0)))
        .withColumn("committed", written)
    )


def with_index(sends: DataFrame, polls: DataFrame) -> DataFrame:
    """Adds ``last_index`` and ``bound`` on the dense index of the partition's log.

    The log is every record that a reader saw and every committed send with a known offset. Offsets that hold
    nothing (control records, aborted transactions) are legal gaps, so positions are counted, not offsets.
    ``bound`` is the largest earliest index of a value that the final drain read: what lies at or below it has
    been passed by a completed read.
    """
    read = polls.filter(F.col("producer_id").isNotNull()).select(*PARTITION, "offset", *VALUE)
    sent = sends.filter(F.col("committed") & F.col("offset").isNotNull()).select(*PARTITION, "offset", *VALUE)
    log = read.union(sent).distinct()
    position = F.dense_rank().over(Window.partitionBy(*PARTITION).orderBy("offset"))
    index = (
        log.withColumn("index", position)
        .groupBy(*PARTITION, *VALUE)
        .agg(F.min("index").alias("first_index"), F.max("index").alias("last_index"))
    )
    finally_read = final_reads(polls).select(*PARTITION, *VALUE).distinct()
    bound = (
        index.join(finally_read, [*PARTITION, *VALUE], how="left_semi")
        .groupBy(*PARTITION)
        .agg(F.max("first_index").alias("bound"))
    )
    return (
        sends.join(index.drop("first_index"), [*PARTITION, *VALUE], how="left")
        .join(F.broadcast(bound), PARTITION, how="left")
        .withColumn("bound", F.coalesce("bound", F.lit(0)))
    )


def with_fate(sends: DataFrame, segments: DataFrame, drains: DataFrame, whole: DataFrame) -> DataFrame:
    """Adds ``fate``: read, lost_write, one of ``UNSEEN``, or null (nothing was promised).

    Above the bound the replicas' logs decide: the record is on no replica at its offset (truncated_ack; without
    an offset, nowhere at all: unknown_offset_ack), or on one but not below the high watermark (invisible_ack), or
    below it and the drain stopped early (undrained). A drain that passed its offset without returning it has
    lost it. ``whole`` lists the partitions (topic, partition) of which every replica's log could be read: where
    one is missing, absence proves nothing (undecided).
    """
    held = segments.filter(F.col("offset").isNotNull()).select(*PARTITION, *VALUE, F.col("offset").alias("held_offset"))
    open_case = F.col("committed") & ~F.col("read")
    lost = F.col("last_index") <= F.col("bound")
    unseen = sends.filter(open_case & ~F.coalesce(lost, F.lit(False))).select(*PARTITION, *VALUE, "offset")
    where = (
        unseen.join(held, [*PARTITION, *VALUE], how="inner")
        .filter(F.col("offset").isNull() | (F.col("offset") == F.col("held_offset")))
        .groupBy(*PARTITION, *VALUE)
        .agg(F.min("held_offset").alias("held_offset"))
    )
    absent = F.when(F.col("offset").isNull(), "unknown_offset_ack").otherwise("truncated_ack")
    fate = (
        F.when(~F.col("committed"), None)
        .when(F.col("read"), "read")
        .when(lost, "lost_write")
        .when(F.col("held_offset").isNull() & F.col("whole").isNull(), "undecided")
        .when(F.col("held_offset").isNull(), absent)
        .when(F.col("end_offset").isNull(), "undecided")
        .when(F.col("held_offset") >= F.col("end_offset"), "invisible_ack")
        .when(F.col("complete") & (F.col("position") > F.col("held_offset")), "lost_write")
        .otherwise("undrained")
    )
    return (
        sends.join(where, [*PARTITION, *VALUE], how="left")
        .join(F.broadcast(drains), PARTITION, how="left")
        .join(F.broadcast(whole.withColumn("whole", F.lit(True))), PARTITION, how="left")
        .withColumn("fate", fate)
        .drop("position", "end_offset", "complete", "whole", "last_index", "bound")
    )


def deleted(events: Iterable[Event]) -> dict[TopicPartition, int]:
    """Partition → up to where ``delete_records`` steps deleted its records, as the leaders answered."""
    furthest: dict[TopicPartition, int] = {}
    for event in events:
        if event.kind == "injected" and event.step == "delete_records" and "deleted_before" in event.detail:
            where = TopicPartition.parse(event.detail["partition"])
            furthest[where] = max(furthest.get(where, 0), int(event.detail["deleted_before"]))
    return furthest


def above_deleted(sends: DataFrame, deleted: DataFrame) -> DataFrame:
    """The sends of which the log still owes something: not those that were deleted."""
    kept = F.col("deleted_before").isNull() | F.col("offset").isNull() | (F.col("offset") >= F.col("deleted_before"))
    return sends.join(F.broadcast(deleted), PARTITION, how="left").filter(kept).drop("deleted_before")


def without_deleted(fates: DataFrame, deleted: DataFrame) -> DataFrame:
    """Takes the fate from records that were deleted and not read: nothing is promised of them any more.

    Where a record stood its acknowledgement says, else a reader, else a replica's log. Where nobody knows, it may have
    been among those that were deleted: that is undecided.
    """
    place = F.coalesce(F.when(F.col("offset") >= 0, F.col("offset")), "seen_at", "held_offset")
    owed = F.col("fate").isNotNull() & ~F.col("read") & F.col("deleted_before").isNotNull()
    fate = (
        F.when(owed & (place < F.col("deleted_before")), None)
        .when(owed & place.isNull(), "undecided")
        .otherwise(F.col("fate"))
    )
    return (
        fates.join(F.broadcast(deleted), PARTITION, how="left")
        .withColumn("fate", fate)
        .drop("deleted_before", "seen_at")
    )


def delivery(fates: DataFrame, anomalies: DataFrame) -> DataFrame:
    """One row per partition; phantoms, corrupt and aborted reads are counted from the anomalies found."""

    def count(condition: str) -> Column:
        return F.count_if(F.expr(condition))

    by_partition = fates.groupBy(*PARTITION).agg(
        F.count("*").alias("sent"),
        count("outcome = 'ok'").alias("acked"),
        count("outcome = 'info'").alias("indeterminate"),
        count("outcome = 'fail'").alias("failed"),
        count("read").alias("read"),
        count("fate = 'lost_write'").alias("lost"),
        F.count_if(F.col("fate").isin(*UNSEEN)).alias("unseen"),
        *(count(f"fate = '{name}'").alias(name) for name in UNSEEN if name != "undecided"),
        count("copies > 1").alias("duplicated"),
        F.sum(F.greatest(F.col("copies") - 1, F.lit(0))).alias("duplicate_copies"),
    )
    found = anomalies.groupBy(*PARTITION).agg(
        count("anomaly = 'phantom_record'").alias("phantom"),
        count("anomaly = 'corrupt_record'").alias("corrupt"),
        count("anomaly = 'aborted_read'").alias("aborted_read"),
    )
    joined = by_partition.join(found, PARTITION, how="full").fillna(0)
    acked, read = F.nullif(F.col("acked"), F.lit(0)), F.nullif(F.col("read"), F.lit(0))
    return (
        joined.withColumn("loss_rate_low", F.col("lost") / acked)
        .withColumn("loss_rate_high", F.least((F.col("lost") + F.col("unseen")) / acked, F.lit(1.0)))
        .withColumn("duplicate_rate", F.col("duplicate_copies") / read)
    )
