"""What is different about an imported history: no drain, no probe and no segments, only what its clients told.

Every completed read counts as a drain does in a run of our own, and what lies above the last of them is unseen.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from history.folder import RunFolder
from history.tables import IMPORTED
from spark.checks.order import PLACED
from spark.folder.tables import PARTITION, VALUE, read_table

_VALUES = "array<struct<producer_id: string, seq: bigint>>"


def imported(spark: SparkSession, folder: RunFolder) -> DataFrame:
    """What the history itself called its records (``history.tables.IMPORTED``)."""
    return read_table(spark, folder.table("imported"), IMPORTED)[0]


def as_drain(polls: DataFrame) -> DataFrame:
    """Completed reads of partitions that nobody drained count as their final pass."""
    drained = F.max(F.col("pass") == "final").over(Window.partitionBy(*PARTITION))
    counts = (F.col("pass") == "live") & ~drained
    return polls.withColumn("pass", F.when(counts, "final").otherwise(F.col("pass")))


def with_operations(sends: DataFrame, imported: DataFrame) -> DataFrame:
    """An atomic operation that sent several records is a transaction."""
    whole = imported.filter(F.col("operation").isNotNull()).select(*PARTITION, *VALUE, "operation")
    return (
        sends.join(whole, [*PARTITION, *VALUE], how="left")
        .withColumn("transaction", F.coalesce("transaction", "operation"))
        .drop("operation")
    )


def standing(sends: DataFrame, polls: DataFrame) -> DataFrame:
    """The records that are known to be in the log, with their places (``spark.checks.order.PLACED``): read by anybody
    and not reported as failed, or acknowledged at an offset.
    """
    failed = sends.filter("outcome = 'fail'").select(*PARTITION, *VALUE)
    read = polls.filter(F.col("producer_id").isNotNull()).select(*PLACED)
    acked = sends.filter("outcome = 'ok' AND offset >= 0").select(*PLACED)
    return read.join(failed, [*PARTITION, *VALUE], how="left_anti").select(*PLACED).union(acked).distinct()


def with_rebalances(cases: DataFrame, subscribed: Sequence[str]) -> DataFrame:
    """Permits a step back or ahead to consumers that subscribe: a rebalance may put them anywhere."""
    moved = F.get_json_object("evidence", "$.consumer_id").isin(*subscribed) & F.col("anomaly").isin(
        "poll_skip", "nonmonotonic_poll"
    )
    why = F.when(moved, "a subscribed consumer may be given its partitions anew at any time")
    return cases.withColumn("allowed_why", F.coalesce("allowed_why", why)).withColumn(
        "allowed", F.col("allowed_why").isNotNull()
    )


def with_acknowledged_place(sends: DataFrame) -> DataFrame:
    """Widens ``found_at`` and ``copies``: a record also stands where its acknowledgement says.

    A run of our own has the log itself to look at; here a record that was acknowledged at one offset and read at
    another is the only sign of its second copy.
    """
    both = F.array_sort(F.array_union("found_at", F.array("offset")))
    is_known = F.col("read") & F.col("committed") & F.col("offset").isNotNull()
    found_at = F.when(is_known, both).otherwise(F.col("found_at"))
    return sends.withColumn("found_at", found_at).withColumn("copies", F.coalesce(F.size("found_at"), F.lit(0)))


def with_names(cases: DataFrame, imported: DataFrame) -> DataFrame:
    """Adds key and value, as the history had them, to ``explanation`` and ``evidence``; explains unread records."""
    names = imported.select(*PARTITION, *VALUE, "key", "value")
    named = cases.join(names, [*PARTITION, *VALUE], how="left").join(_values_at(cases, names), _PLACE, how="left")
    told = F.when(F.col("explanation") == "", _unread()).otherwise(F.col("explanation"))
    more = F.concat(F.lit(" Key "), F.col("key"), F.lit(", value "), F.coalesce("all_values", "value"), F.lit("."))
    facts = F.concat(
        F.lit('{"key":'),
        F.col("key"),
        F.lit(',"value":'),
        F.col("value"),
        F.when(F.col("evidence") == "{}", "}").otherwise(
            F.concat(F.lit(","), F.expr("substring(evidence, 2)")),
        ),
    )
    return (
        named.withColumn("evidence", F.coalesce(facts, F.col("evidence")))
        .withColumn("explanation", F.concat(told, F.coalesce(more, F.lit(""))))
        .select(*cases.columns)
    )


_PLACE = ["anomaly", *PARTITION, "offset"]


def _values_at(cases: DataFrame, names: DataFrame) -> DataFrame:
    """``all_values``: every value that was at the offset of an inconsistent one."""
    there = F.explode(F.from_json(F.get_json_object("evidence", "$.values"), _VALUES))
    return (
        cases.filter("anomaly = 'inconsistent_offset'")
        .select(*_PLACE, there.alias("there"))
        .select(*_PLACE, "there.producer_id", "there.seq")
        .join(names, [*PARTITION, *VALUE], how="inner")
        .groupBy(*_PLACE)
        .agg(F.array_join(F.sort_array(F.collect_set("value")), " and ").alias("all_values"))
    )


def _unread() -> Column:
    """The sentence about a record that was acknowledged, or must have been written, and that no read returned."""
    written = F.when(
        F.get_json_object("evidence", "$.outcome") == "info", " has no known end and must have been written"
    ).otherwise(" was acknowledged")
    at = F.coalesce(F.concat(F.lit(" at offset "), F.col("offset")), F.lit(""))
    then = F.when(F.col("anomaly") == "lost_write", "; reads went past it, and none returned it.").otherwise(
        "; no read that completed went as far."
    )
    return F.concat(F.lit("Record "), F.col("producer_id"), F.lit("/"), F.col("seq"), written, at, then)
