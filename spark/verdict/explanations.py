"""What happened to each acknowledged record that is gone, in one sentence with its numbers."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from spark.checks.anomalies import GONE
from spark.folder.tables import PARTITION, REPLICA, VALUE

_CASE = [*PARTITION, *VALUE]
OLD_NS = 500_000_000  # a sample that is older than this says so: its broker could not be asked since


class Witnesses(NamedTuple):
    """What tells of a record's end: the probe's good samples, who led which epoch, the epoch files, and the brokers'
    own lines (``BROKER_LOG``).
    """

    samples: DataFrame
    leaders: DataFrame
    epochs: DataFrame
    lines: DataFrame


def truncations(samples: DataFrame) -> DataFrame:
    """Places where a replica's log end fell: (broker_id, topic, partition, t_ns, from_offset, to_offset)."""
    in_order = Window.partitionBy(*REPLICA).orderBy("sent_ns")
    return (
        samples.withColumn("from_offset", F.lag("log_end_offset").over(in_order))
        .filter(F.col("log_end_offset") < F.col("from_offset"))
        .select(*REPLICA, F.col("received_ns").alias("t_ns"), "from_offset", F.col("log_end_offset").alias("to_offset"))
    )


def with_leader(cases: DataFrame, leaders: DataFrame) -> DataFrame:
    """Adds ``by_leader`` and ``by_epoch``: the newest leadership that anyone had seen when the record was acked."""
    seen = leaders.select(*PARTITION, "leader", "leader_epoch", "seen_ns")
    then = (
        cases.join(F.broadcast(seen), PARTITION, how="inner")
        .filter(F.col("seen_ns") <= F.col("at_ns"))
        .groupBy(*_CASE)
        .agg(F.max(F.struct("leader_epoch", "leader")).alias("then"))
        .select(*_CASE, F.col("then.leader").alias("by_leader"), F.col("then.leader_epoch").alias("by_epoch"))
    )
    return cases.join(then, _CASE, how="left")


def with_replicas(cases: DataFrame, samples: DataFrame) -> DataFrame:
    """Adds ``stood``: the last sample of each replica before the acknowledgement, as text, an old one with its age."""
    state = F.struct("high_watermark", "log_end_offset", "received_ns")
    brokers = samples.select(*REPLICA).distinct()
    seen = samples.select(
        *REPLICA,
        F.col("received_ns").alias("t_ns"),
        state.alias("state"),
        F.lit(None).cast("string").alias("producer_id"),
        F.lit(None).cast("bigint").alias("seq"),
    )
    asked = cases.join(F.broadcast(brokers), PARTITION, how="inner").select(
        *REPLICA, F.col("at_ns").alias("t_ns"), F.lit(None).cast(seen.schema["state"].dataType).alias("state"), *VALUE
    )
    up_to_now = Window.partitionBy(*REPLICA).orderBy("t_ns").rangeBetween(Window.unboundedPreceding, 0)
    age_ns = F.col("t_ns") - F.col("last.received_ns")
    text = F.concat(
        F.lit("broker "),
        F.col("broker_id"),
        F.lit(" at HW "),
        F.col("last.high_watermark"),
        F.lit(" and LEO "),
        F.col("last.log_end_offset"),
        F.when(
            age_ns >= OLD_NS, F.concat(F.lit(" ("), F.format_number(age_ns / 1e9, 1), F.lit(" s before)"))
        ).otherwise(""),
    )
    stood = (
        seen.union(asked)
        .withColumn("last", F.last("state", ignorenulls=True).over(up_to_now))
        .filter(F.col("seq").isNotNull() & F.col("last").isNotNull())
        .groupBy(*_CASE)
        .agg(F.array_join(F.sort_array(F.collect_set(text)), ", ").alias("stood"))
    )
    return cases.join(stood, _CASE, how="left")


def with_removal(cases: DataFrame, seen: Witnesses) -> DataFrame:
    """Adds ``elected``, the first later epoch that started at or below the record, ``cut``, where a log end was seen
    to fall below it (that of the acknowledging leader, if it was seen), ``said``, that leader's own word of having
    cut its log there, and ``own``, the later epoch that its log now has from there.
    """
    samples, leaders, epochs, lines = seen
    began = lines.filter("kind = 'leader_started'").groupBy(*PARTITION, "leader_epoch").agg(F.min("line").alias("line"))
    starts = epochs.groupBy(*PARTITION, "leader_epoch").agg(F.min("start_offset").alias("start_offset"))
    first = F.min(F.struct("seen_ns", "leader"))
    first_leader = leaders.groupBy(*PARTITION, "leader_epoch").agg(first.alias("first"))
    first_leader = first_leader.select(*PARTITION, "leader_epoch", "first.leader", "first.seen_ns")
    epoch = [*PARTITION, "leader_epoch"]
    elections = starts.join(first_leader, epoch, how="left").join(began, epoch, how="left")
    elected = (
        cases.join(F.broadcast(elections), PARTITION, how="inner")
        .filter((F.col("leader_epoch") > F.col("by_epoch")) & (F.col("start_offset") <= F.col("offset")))
        .groupBy(*_CASE)
        .agg(F.min(F.struct("leader_epoch", "leader", "start_offset", "seen_ns", "line")).alias("elected"))
    )
    own = (
        cases.join(F.broadcast(epochs), PARTITION, how="inner")
        .filter((F.col("broker_id") == F.col("by_leader")) & (F.col("leader_epoch") > F.col("by_epoch")))
        .filter(F.col("start_offset") <= F.col("offset"))
        .groupBy(*_CASE)
        .agg(F.min(F.struct("leader_epoch", "start_offset")).alias("own"))
    )
    elsewhere = (~F.col("broker_id").eqNullSafe(F.col("by_leader"))).alias("elsewhere")
    cut = (
        cases.join(F.broadcast(truncations(samples)), PARTITION, how="inner")
        .filter(
            (F.col("t_ns") >= F.col("at_ns"))
            & (F.col("from_offset") > F.col("offset"))
            & (F.col("to_offset") <= F.col("offset"))
        )
        .groupBy(*_CASE)
        .agg(F.min(F.struct(elsewhere, "t_ns", "broker_id", "from_offset", "to_offset")).alias("cut"))
    )
    cuts = lines.filter("kind = 'truncating'").select(
        *PARTITION, F.col("broker_id").alias("by_leader"), "t_ns", "line", F.col("log_end_offset").alias("to_offset")
    )
    said = (
        cases.join(F.broadcast(cuts), [*PARTITION, "by_leader"], how="inner")
        .filter((F.col("t_ns") >= F.col("at_ns")) & (F.col("to_offset") <= F.col("offset")))
        .groupBy(*_CASE)
        .agg(F.min(F.struct("t_ns", "line", "to_offset")).alias("said"))
    )
    return reduce(lambda told, found: told.join(found, _CASE, how="left"), (elected, own, cut, said), cases)


def _seconds(column: str, origin_ns: int) -> Column:
    return F.concat(F.lit("+"), F.format_number((F.col(column) - F.lit(origin_ns)) / 1e9, 3), F.lit(" s"))


def _sentence(origin_ns: int) -> Column:
    nothing = F.lit("")
    by = F.when(
        F.col("by_leader").isNotNull(),
        F.concat(F.lit(" while broker "), F.col("by_leader"), F.lit(" led epoch "), F.col("by_epoch")),
    )
    at = F.when(F.col("offset").isNotNull(), F.concat(F.lit(" at offset "), F.col("offset")))
    stood = F.when(F.col("stood").isNotNull(), F.concat(F.lit("; last seen before that: "), F.col("stood")))
    elected = F.when(
        F.col("elected").isNotNull(),
        F.concat(
            F.lit("; "),
            F.coalesce(F.concat(F.lit("broker "), F.col("elected.leader")), F.lit("a leader")),
            F.lit(" began epoch "),
            F.col("elected.leader_epoch"),
            F.lit(" at offset "),
            F.col("elected.start_offset"),
            F.lit(" without it"),
            F.coalesce(F.concat(F.lit(", seen at "), _seconds("elected.seen_ns", origin_ns)), nothing),
            F.coalesce(F.concat(F.lit(" (its server.log, line "), F.col("elected.line"), F.lit(")")), nothing),
        ),
    )
    cut = F.when(
        F.col("cut").isNotNull(),
        F.concat(
            F.lit("; broker "),
            F.col("cut.broker_id"),
            F.lit("'s log end fell from "),
            F.col("cut.from_offset"),
            F.lit(" to "),
            F.col("cut.to_offset"),
            F.lit(" at "),
            _seconds("cut.t_ns", origin_ns),
        ),
    )
    said = F.when(
        F.col("said").isNotNull(),
        F.concat(
            F.lit("; broker "),
            F.col("by_leader"),
            F.lit(" logged at "),
            _seconds("said.t_ns", origin_ns),
            F.lit(' "Truncating to offset '),
            F.col("said.to_offset"),
            F.lit('" (server.log, line '),
            F.col("said.line"),
            F.lit(")"),
        ),
    )
    own = F.when(
        F.col("own").isNotNull() & F.coalesce(F.col("cut.elsewhere"), F.lit(True)),
        F.concat(
            F.lit("; broker "),
            F.col("by_leader"),
            F.lit("'s own log now has epoch "),
            F.col("own.leader_epoch"),
            F.lit(" from offset "),
            F.col("own.start_offset"),
        ),
    )
    unexplained = F.when(
        F.coalesce("elected.leader_epoch", "cut.to_offset", "said.to_offset", "own.start_offset").isNull(),
        F.lit("; no election or truncation that removed it was seen"),
    )
    fate = (
        F.when(F.col("anomaly") == "invisible_ack", F.lit("; it is in a log, above where readers stop"))
        .when(F.col("anomaly") == "undrained", F.lit("; it is below the high watermark; the final drain stopped early"))
        .when(F.col("anomaly") == "unseen", F.lit("; nobody read it, and not every log can tell whether it is there"))
    )
    parts = [F.coalesce(part, nothing) for part in (by, at, stood)]
    ending = F.coalesce(fate, F.concat(*(F.coalesce(part, nothing) for part in (elected, cut, said, own, unexplained))))
    return F.concat(
        F.lit("Record "),
        F.col("producer_id"),
        F.lit("/"),
        F.col("seq"),
        F.lit(" (acks="),
        F.col("acks"),
        F.lit(") was acknowledged"),
        F.coalesce(F.concat(F.lit(" at "), _seconds("at_ns", origin_ns)), nothing),
        *parts,
        ending,
        F.lit("."),
    )


def with_explanation(cases: DataFrame, seen: Witnesses, origin_ns: int) -> DataFrame:
    """Fills ``explanation`` for the acknowledged records that were not read; the other cases keep theirs."""
    open_cases = F.col("anomaly").isin(*GONE, "invisible_ack", "undrained", "unseen")
    told = cases.filter(open_cases).transform(with_leader, seen.leaders).transform(with_replicas, seen.samples)
    told = told.transform(with_removal, seen).withColumn("explanation", _sentence(origin_ns))
    return told.select(*cases.columns).union(cases.filter(~open_cases))
