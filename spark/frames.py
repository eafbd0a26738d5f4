"""Parts of the judge on DataFrames that ``spark/job.py`` calls until it judges by partitions."""

from __future__ import annotations

import math
from collections import Counter
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from history.events import Event
from history.manifest import Manifest
from history.partition import TopicPartition
from history.tables import LATENCY, RECOVERY
from kafka_files.segments import segment_files
from spark.checks.anomalies import GONE
from spark.evidence.counts import Counts, Ledger, Replica, of_captures
from spark.evidence.silences import silences
from spark.folder.recorded import Recorded
from spark.folder.tables import PARTITION, REPLICA, VALUE, rows
from spark.measures.latency import ABORTED, SETTLING_NS
from spark.measures.recovery import fault_times
from spark.verdict import evidence

QUANTILES = ("p50_ms", "p99_ms", "p999_ms")
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


# --- recovery and latency ---


def recovery(
    spark: SparkSession, manifest: Manifest, events: list[Event], changes: DataFrame, stalls: DataFrame
) -> DataFrame:
    """The recovery table: ISR times per fault and partition, write and HW stalls per phase.

    ``changes`` (``Sources.changes``) is small and collected; ``stalls`` comes from ``longest_stalls``.
    """
    states = [row.asDict() for row in changes.orderBy("received_ns").collect()]
    return rows(spark, RECOVERY, fault_times(manifest, events, states)).union(stalls.select(*RECOVERY.names))


def longest_stalls(sends: DataFrame, samples: DataFrame, spans: DataFrame) -> DataFrame:
    """Per phase and partition: the longest time without an acknowledgement, and without the HW growing.

    ``spans`` is (phase, from_ns, to_ns), ``sends`` those of open loops, which never pause by themselves. The
    stretches from the phase's start and to its end count; the one to the end is censored.
    """
    acked = F.when((F.col("outcome") == "ok"), F.col("done_ns"))
    acks = sends.select(*PARTITION, acked.alias("t_ns"))
    samples = samples.join(F.broadcast(sends.select(*PARTITION).distinct()), PARTITION, how="left_semi")
    so_far = Window.partitionBy(*PARTITION).orderBy("received_ns").rowsBetween(Window.unboundedPreceding, -1)
    grown = samples.withColumn("top", F.max("high_watermark").over(so_far)).filter(
        F.col("top").isNull() | (F.col("high_watermark") > F.col("top"))
    )
    growth = grown.select(*PARTITION, F.col("received_ns").alias("t_ns"))
    writes = _longest_gap(acks, spans, "write_unavailable", "sends")
    return writes.union(_longest_gap(growth, spans, "hw_stall", "replicas"))


def _longest_gap(moments: DataFrame, spans: DataFrame, metric: str, source: str) -> DataFrame:
    in_order = Window.partitionBy("phase", *PARTITION).orderBy("t_ns")
    starts = moments.select(*PARTITION).distinct().crossJoin(F.broadcast(spans))
    inside = F.col("t_ns").between(F.col("from_ns"), F.col("to_ns"))
    within = (
        moments.join(F.broadcast(spans), inside, how="inner")
        .withColumn("seen", F.lit(1))
        .unionByName(starts.withColumns({"t_ns": F.col("from_ns"), "seen": F.lit(0)}))
    )
    next_ns = F.lead("t_ns").over(in_order)
    gaps = within.withColumns({"gap_ns": F.coalesce(next_ns, "to_ns") - F.col("t_ns"), "open": next_ns.isNull()})
    longest = F.max(F.struct("gap_ns", "t_ns", "open"))
    return (
        gaps.groupBy("phase", *PARTITION)
        .agg(longest.alias("longest"), F.sum("seen").alias("samples"))
        .select(
            "phase",
            F.lit("").alias("fault"),
            *PARTITION,
            F.lit(metric).alias("metric"),
            F.col("longest.t_ns").alias("from_ns"),
            (F.col("longest.gap_ns") / 1e6).alias("value_ms"),
            F.col("longest.open").alias("censored"),
            F.lit(source).alias("source"),
            "samples",
            F.lit(None).cast("string").alias("note"),
        )
    )


def latency(sends: DataFrame, spans: DataFrame) -> DataFrame:
    """Load and latency by phase: sends by the phase in which they were due, acknowledgements by that of their arrival.

    Latency counts from the due time, whatever the cluster did then; ``spans`` is (phase, from_ns, to_ns). What was due
    right before the end may still be under way then, and is not owed. What is owed and was never acknowledged took
    longer than anything: a quantile that falls on it has no value.

    A transaction that was aborted was answered, with all its records in the log: most are aborted on purpose.
    """
    settling = F.least(F.lit(SETTLING_NS), ((F.col("to_ns") - F.col("from_ns")) / 2).cast("long"))
    owed = F.col("due_ns") < F.col("to_ns") - settling
    aborted = F.col("error").eqNullSafe(ABORTED) & F.col("done_ns").isNotNull()
    answered = (F.col("outcome") == "ok") | aborted
    kept = owed & answered & (F.col("done_ns") < F.col("to_ns"))
    taken_ms = F.when(answered, (F.col("done_ns") - F.col("due_ns")) / 1e6)
    waited_ms = F.coalesce(taken_ms, F.when(owed, F.lit(math.inf)))
    quantiles = F.percentile(waited_ms, F.array(F.lit(0.5), F.lit(0.99), F.lit(0.999)))
    arrivals = (
        _within(sends.filter("outcome = 'ok'"), "done_ns", spans).groupBy("phase").agg(F.count("*").alias("came"))
    )
    return (
        _within(sends, "due_ns", spans)
        .groupBy("phase", "from_ns", "to_ns")
        .agg(
            F.count("*").alias("due"),
            F.count(taken_ms).alias("acked"),
            F.count_if(owed).alias("owed"),
            F.count_if(kept).alias("kept"),
            quantiles.alias("q"),
            F.max(taken_ms).alias("max_ms"),
        )
        .join(arrivals, "phase", how="left")
        .withColumns({name: F.nullif(F.col("q")[at], F.lit(math.inf)) for at, name in enumerate(QUANTILES)})
        .withColumn("arrived", F.coalesce("came", F.lit(0)))
        .withColumn("seconds", (F.col("to_ns") - F.col("from_ns")) / 1e9)
        .select(*LATENCY.names)
    )


def _within(sends: DataFrame, moment: str, spans: DataFrame) -> DataFrame:
    inside = (F.col(moment) >= F.col("from_ns")) & (F.col(moment) < F.col("to_ns"))
    return sends.join(F.broadcast(spans), inside, how="inner")


# --- counts ---


def count(recorded: Recorded) -> Counts:
    """Collect the few numbers that the evidence items are about."""
    ledgers = recorded.sends.groupBy("producer_id").agg(
        F.count("*").alias("rows"),
        F.count_distinct("seq").alias("distinct"),
        F.max("seq").alias("last_seq"),
        F.sum("seq").alias("seq_sum"),
        F.count_if(F.col("outcome") == "ok").alias("acked"),
    )
    logs = recorded.segments.groupBy(*REPLICA).agg(
        F.max(F.when(F.col("problem").isNull(), F.col("last_offset"))).alias("last_offset"),
        F.sort_array(F.collect_set("problem")).alias("problems"),
    )
    found = [(_replica(row), row) for row in logs.collect()]
    read = {replica: row["last_offset"] + 1 for replica, row in found if row["last_offset"] is not None}
    waits = recorded.usage.filter("source = 'host' AND name = 'psi_cpu_some_us'").select("t_ns", "value").collect()
    rows_read, rows_sought = _by_consumer(recorded.polls), _by_consumer(recorded.seeks)
    counts = Counts(
        ledgers={row["producer_id"]: Ledger(*row[1:]) for row in ledgers.collect()},
        sampled={_replica(row) for row in recorded.samples.select(*REPLICA).distinct().collect()},
        log_ends={replica: max(read.get(replica, 0), base) for replica, base in _exported(recorded).items()},
        log_problems={replica: row["problems"] for replica, row in found if row["problems"]},
        read=rows_read,
        sought=rows_sought,
        completed_reads=recorded.polls.filter("pass != 'incomplete'").count(),
        unnamed_reads=recorded.polls.filter("producer_id IS NULL").count(),
        probed=Counter(rows=recorded.replicas.count(), isr_rows=recorded.isr.count()),
        silences=silences(
            recorded.files["replicas"],
            evidence.watched(recorded.events),
            {broker_id for broker_id, _, _ in evidence.assigned(recorded.manifest)},
            [tuple(row) for row in waits],
        ),
        probed_in=_probed_in(recorded),
    )
    return counts.merge([of_captures(row.asDict() for row in recorded.offsets.collect())])


def _by_consumer(frame: DataFrame) -> Counter[str]:
    return Counter({row["consumer_id"]: row["count"] for row in frame.groupBy("consumer_id").count().collect()})


def _replica(row: Row) -> Replica:
    return row["broker_id"], row["topic"], row["partition"]


def _exported(recorded: Recorded) -> dict[Replica, int]:
    """Each replica with a segment file, and where its last one begins."""
    broker_ids = {node.name: node.node_id for node in recorded.manifest.brokers}
    found: dict[Replica, int] = {}
    for file in segment_files(recorded.folder.brokers):
        broker_id = broker_ids.get(file.relative_to(recorded.folder.brokers).parts[0])
        if broker_id is not None:
            replica = broker_id, *TopicPartition.parse(file.parent.name)
            found[replica] = max(found.get(replica, 0), int(file.stem))
    return found


def _probed_in(recorded: Recorded) -> set[tuple[str, int]]:
    phases = evidence.phases(recorded.events)
    if not phases:
        return set()
    at = F.col("received_ns")
    counts = [F.count_if(at.between(*span)).alias(str(number)) for number, span in enumerate(phases.values())]
    found = recorded.samples.groupBy("broker_id").agg(*counts).collect()
    return {(name, row["broker_id"]) for row in found for number, name in enumerate(phases) if row[str(number)]}
