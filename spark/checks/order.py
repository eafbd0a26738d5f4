"""Cases in which clients' own views contradict the order that a log promises: reads, acknowledgements and real time.

Consumers read in assign mode, each partition from its beginning, so that every step in a consumer's own sequence is
the log's; a step across a seek of its own (``seeks``) says nothing of the log. Every function returns the ``CASE``
columns of ``spark.checks.anomalies``; one row per case.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from spark.checks.anomalies import cases_of
from spark.folder.tables import PARTITION, REPLICA, VALUE

STALE_NS = 2_000_000_000  # for so long nobody may have seen a new epoch whose leader serves already


def precommitted_read(polls: DataFrame, samples: DataFrame, leaders: DataFrame) -> DataFrame:
    """A record was given out although its leader's high watermark, asked later, was still at or below it; serves C2.
    To a ``read_committed`` consumer: although the last stable offset was.

    Sound within one epoch, as a leader's HW never falls (I3), nor do the first open transactions' offsets: the record's
    batch is of the sample's epoch, so no earlier leader can have served it, and no later epoch was seen until
    ``STALE_NS`` after the read, so no later one can; a leader that was cut off goes on showing its old HW.
    """
    until = F.lead("since_ns", default=2**63 - 1).over(Window.partitionBy(*PARTITION).orderBy("leader_epoch"))
    led = (
        leaders.groupBy(*PARTITION, "leader_epoch")
        .agg(F.min("leader").alias("broker_id"), F.min("seen_ns").alias("since_ns"))
        .withColumn("until_ns", until)
    )
    asked = samples.join(F.broadcast(led), [*REPLICA, "leader_epoch"], how="inner").select(
        *PARTITION,
        F.col("sent_ns").alias("t_ns"),
        F.struct("high_watermark", "last_stable_offset", "broker_id", "leader_epoch", "until_ns", "sent_ns").alias(
            "sample"
        ),
        F.lit(None).cast("bigint").alias("offset"),
        F.lit(None).cast("int").alias("batch_epoch"),
        *(F.lit(None).cast(kind).alias(name) for name, kind in (("producer_id", "string"), ("seq", "bigint"))),
        *(F.lit(None).cast("string").alias(name) for name in ("consumer_id", "isolation")),
    )
    read = polls.select(
        *PARTITION,
        F.col("received_ns").alias("t_ns"),
        F.lit(None).cast(asked.schema["sample"].dataType).alias("sample"),
        "offset",
        F.col("leader_epoch").alias("batch_epoch"),
        *VALUE,
        "consumer_id",
        "isolation",
    )
    readable = F.when(F.col("isolation") == "read_committed", F.col("next.last_stable_offset"))
    limit = F.coalesce(readable, F.col("next.high_watermark"))
    later = Window.partitionBy(*PARTITION).orderBy(F.desc("t_ns")).rowsBetween(Window.unboundedPreceding, -1)
    following = F.last("sample", ignorenulls=True).over(later)
    early = (
        asked.union(read)
        .withColumn("next", following)
        .filter(F.col("offset").isNotNull() & (limit <= F.col("offset")))
        .filter(F.col("batch_epoch") == F.col("next.leader_epoch"))
        .filter(F.col("t_ns") + STALE_NS < F.col("next.until_ns"))
    )
    explanation = F.format_string(
        "Consumer %s was given offset %s while broker %s, leader in epoch %s, was at HW %s, last stable offset %s.",
        F.col("consumer_id"),
        F.col("offset"),
        F.col("next.broker_id"),
        F.col("next.leader_epoch"),
        F.col("next.high_watermark"),
        F.col("next.last_stable_offset"),
    )
    return cases_of(early, "precommitted_read", explanation, sample=F.col("next"), received_ns=F.col("t_ns"))
