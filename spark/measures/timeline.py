"""Down-sampled series for the plots; what nobody saw stays a gap."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from history.tables import CONTROLLER
from spark.folder.tables import PARTITION, REPLICA

BUCKETS = 900  # two points a bucket, so that a replica has about 2,000 with its steps and gaps
GAP_NS = 300_000_000
_SERIES = ["leader_epoch", "high_watermark", "log_end_offset"]


def gap_limit_ns(probe_hz: float) -> int:
    """A replica was unseen when no good sample came for this long."""
    return max(GAP_NS, int(3e9 / probe_hz)) if probe_hz else GAP_NS


def timeline_replicas(samples: DataFrame, replicas: DataFrame, probe_hz: float) -> DataFrame:
    """HW and LEO of every replica: first and last sample of each bucket of time, every fall, change of epoch and gap.

    Within a bucket a series only grows between the points that are kept, so a plot of them hides no change. A gap
    is a row of nulls after the last sample before it (or at the first probe that went unanswered). Args: the good
    samples, and all probes for when observation began and ended.
    """
    limit = gap_limit_ns(probe_hz)
    observed = replicas.groupBy(*REPLICA).agg(
        F.min("received_ns").alias("from_ns"), F.max("received_ns").alias("to_ns")
    )
    in_order = Window.partitionBy(*REPLICA).orderBy("received_ns")
    bucket = F.floor((F.col("received_ns") - F.col("from_ns")) / ((F.col("to_ns") - F.col("from_ns") + 1) / BUCKETS))
    of_bucket = Window.partitionBy(*REPLICA, "bucket")
    marked = (
        samples.join(F.broadcast(observed), REPLICA, how="inner")
        .withColumn("bucket", bucket)
        .withColumn("before", F.lag(F.struct("received_ns", *_SERIES)).over(in_order))
        .withColumn("next_ns", F.lead("received_ns").over(in_order))
        .withColumn("first_ns", F.min("received_ns").over(of_bucket))
        .withColumn("last_ns", F.max("received_ns").over(of_bucket))
    )
    t_ns = F.col("received_ns")
    edge = (t_ns == F.col("first_ns")) | (t_ns == F.col("last_ns"))
    turned = (
        (F.col("leader_epoch") != F.col("before.leader_epoch"))
        | (F.col("high_watermark") < F.col("before.high_watermark"))
        | (F.col("log_end_offset") < F.col("before.log_end_offset"))
    )
    gap_after = F.coalesce("next_ns", "to_ns") - t_ns > limit
    gap_before = t_ns - F.coalesce("before.received_ns", "from_ns") > limit
    points = marked.filter(edge | F.coalesce(turned, F.lit(False)) | gap_after | gap_before)
    nothing = [
        F.lit(None).cast(kind).alias(name) for name, kind in zip(_SERIES, ("int", "bigint", "bigint"), strict=True)
    ]
    never_before = F.col("before").isNull() & (t_ns - F.col("from_ns") > limit)
    unseen = observed.join(samples.select(*REPLICA).distinct(), REPLICA, how="left_anti")
    return (
        points.select(*REPLICA, t_ns.alias("t_ns"), *_SERIES)
        .union(marked.filter(gap_after).select(*REPLICA, (t_ns + 1).alias("t_ns"), *nothing))
        .union(marked.filter(never_before).select(*REPLICA, F.col("from_ns").alias("t_ns"), *nothing))
        .union(unseen.select(*REPLICA, F.col("from_ns").alias("t_ns"), *nothing))
    )


def timeline_isr(isr: DataFrame, changes: DataFrame) -> DataFrame:
    """The controller's own history, as far as ``changes`` has it, and each observer's views, where they changed."""
    in_order = Window.partitionBy(*PARTITION, "observer", "source").orderBy("received_ns")
    state = F.struct("leader", "leader_epoch", F.array_sort("isr").alias("isr"))
    columns = [*PARTITION, "t_ns", "leader", "leader_epoch", "isr", "observer"]
    views = (
        isr.withColumn("state", state)
        .withColumn("before", F.lag("state").over(in_order))
        .filter(F.col("before").isNull() | ~F.col("before").eqNullSafe(F.col("state")))
        .select(
            *PARTITION,
            F.col("received_ns").alias("t_ns"),
            "state.leader",
            "state.leader_epoch",
            "state.isr",
            "observer",
        )
    )
    decided = changes.filter(F.col("observer") == CONTROLLER).withColumn("t_ns", F.col("received_ns"))
    return decided.select(*columns).unionByName(views.select(*columns))


def timeline_sends(sends: DataFrame) -> DataFrame:
    """Sends and the latency of the acknowledged ones, from the due time on, by the second in which they were due."""
    latency_ms = F.when(F.col("outcome") == "ok", (F.col("done_ns") - F.col("due_ns")) / 1e6)
    second = F.col("due_ns") - F.col("due_ns") % 1_000_000_000
    return sends.groupBy(second.alias("t_ns")).agg(
        F.count_if(F.col("outcome") == "ok").alias("acked"),
        F.count_if(F.col("outcome") == "fail").alias("failed"),
        F.count_if(F.col("outcome") == "info").alias("indeterminate"),
        F.percentile(latency_ms, 0.5).alias("p50_ms"),
        F.percentile(latency_ms, 0.99).alias("p99_ms"),
    )
