"""The checks that rest on the replicas' other sources, run: more rows of the invariants and the anomalies table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use
from pyspark.sql.pandas.types import from_arrow_schema

from history.partition import TopicPartition
from history.samples import Sample
from spark.checks import agreement, elections, watermarks
from spark.checks.anomalies import SEVERITY
from spark.checks.invariants import Invariant
from spark.checks.sources import Sources
from spark.checks.tally import TALLIES, Check, summaries, tally
from spark.checks.watermarks import Facts
from spark.folder.tables import PARTITION, REPLICA, VALUE, rows

INVARIANTS = {
    "I4": Invariant("a replica's high watermark falls at most once within an epoch"),
    "I7": Invariant("every member of the ISR holds all that a leader has shown as committed"),
    "I9": Invariant("no follower's high watermark is ahead of its leader's"),
    "I11": Invariant("below min.insync.replicas the high watermark stands still"),
    "I12": Invariant("below their high watermarks all replicas hold the same bytes"),
    "I13": Invariant("a batch of one offset and epoch, and all before it, is the same on every replica"),
    "I14": Invariant("leader epochs go up, and each batch carries the one of its replica's epoch file"),
    "I16": Invariant("what a consumer read stands in the final log"),
    "I17": Invariant("an idempotent producer's sequence numbers follow one another"),
    "I19": Invariant("a leader epoch has one leader"),
    "I20": Invariant("a new leader comes from the ISR, first in the assignment's order"),
    "I21": Invariant("leader, ISR, ELR and epochs make sense in the controller's own history"),
    "I22": Invariant("a new leader's high watermark soon reaches its epoch's start", "S2"),
    "I23": Invariant("a follower that stopped leaves the ISR in time", "S2"),
    "I24": Invariant("a replica that joins the ISR has caught up with the high watermark"),
    "I25": Invariant("a boot takes its high watermark from its checkpoint, within its own log"),
    "I28": Invariant("below min.insync.replicas nothing is acknowledged with acks=all"),
}
# Of the rest, a run of our own owes the evidence; these are about something that need not happen in a run.
_OCCASIONAL = {"I11", "I20", "I22", "I23", "I24", "I28"}
_NEED_HISTORY = {"I7", "I9", "I20", "I21", "I24"}
_NEED_SEGMENTS = {"I12", "I13", "I14", "I16", "I17", "I28"}
# A stretch in which the ISR was below min.insync.replicas under a leader.
SHORT = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("broker_id", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("isr", pa.list_(pa.int32())),
        pa.field("from_ns", pa.int64()),
        pa.field("until_ns", pa.int64()),
    ]
)
_COLUMNS = ["broker_id", "leader_epoch", "sent_ns", "received_ns", "high_watermark", "log_end_offset", "incarnation"]


def invariants(spark: SparkSession, sources: Sources, lacking_segments: str | None = None) -> list[dict[str, Any]]:
    """Rows of the invariants table. ``lacking_segments`` says why a replica's log cannot be trusted to be whole."""
    # A log that is not whole cannot say that a record is missing from it.
    read = [tally("I16", [])] if lacking_segments else phantoms(sources)
    tallies = [*on_samples(sources), *on_logs(spark, sources), *on_history(sources), *read, *too_few(spark, sources)]
    lacking = dict.fromkeys(_NEED_SEGMENTS, lacking_segments) if lacking_segments else {}
    if sources.owes_history and not sources.states:
        what = (
            "ZooKeeper's transaction log" if sources.manifest.mode == "zookeeper" else "the controller's metadata log"
        )
        lacking |= dict.fromkeys(_NEED_HISTORY, f"{what} was not collected, or does not know the run's topics")
    counts: dict[str, int] = {}
    for each in tallies:
        counts[each["invariant"]] = counts.get(each["invariant"], 0) + each["checked"]
    listed = {
        name: invariant
        for name, invariant in INVARIANTS.items()
        if name in counts and (counts[name] or (sources.owes_history and name not in _OCCASIONAL))
    }
    return summaries(tallies, listed, {name: why for name, why in lacking.items() if why})


def on_samples(sources: Sources) -> list[dict[str, Any]]:
    """The checks of ``spark.checks.watermarks`` on each topic, all partitions in one pass: rows of ``TALLIES``."""
    facts = {where: sources.facts(where) for where in sources.partitions}
    clean = {topic for topic in sources.manifest.topics if sources.clean(topic)}

    def judge(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
        where = TopicPartition(key[0].as_py(), key[1].as_py())
        known = facts.get(where)
        if known is None:
            return pa.Table.from_pylist([], schema=TALLIES)
        samples, checks = samples_of(table), watermarks.checks(clean=where.topic in clean)
        return pa.Table.from_pylist([tally(name, check(samples, known)) for name, check in checks.items()], TALLIES)

    asked = sources.run.samples.select(*PARTITION, *_COLUMNS).groupBy(*PARTITION)
    return [row.asDict() for row in asked.applyInArrow(judge, from_arrow_schema(TALLIES)).collect()]


def samples_of(table: pa.Table) -> list[Sample]:
    """A partition's samples in the order in which they were asked for; one without an epoch is no use here."""
    columns = [table.column(name).to_pylist() for name in _COLUMNS]
    found = [Sample(*values) for values in zip(*columns, strict=True) if values[1] is not None]
    return sorted(found, key=lambda sample: (sample.sent_ns, sample.broker))


def on_logs(spark: SparkSession, sources: Sources) -> list[dict[str, Any]]:
    """The checks of ``spark.checks.agreement``, one task a partition: rows of ``TALLIES``."""
    logs = list(sources.logs.values())
    if not logs:
        return []
    idempotent = {producer.topic for producer in sources.manifest.producers if producer.idempotence}
    found = spark.sparkContext.parallelize(logs, len(logs)).flatMap(tallies_of_logs).collect()
    return [each for each in found if each["invariant"] != "I17" or idempotent]


def tallies_of_logs(logs: agreement.Logs) -> list[dict[str, Any]]:
    """One partition's logs compared: rows of ``TALLIES``."""
    checks: dict[str, list[Check]] = {}
    for name, check in agreement.compare(logs):
        checks.setdefault(name, []).append(check)
    return [tally(name, found) for name, found in checks.items()]


def on_history(sources: Sources) -> list[dict[str, Any]]:
    """The checks of ``spark.checks.elections``: rows of ``TALLIES``."""
    states = [state for history in sources.states.values() for state in history]
    clean = {where: history for where, history in sources.states.items() if sources.clean(where.topic)}
    found = [
        tally("I19", elections.i19_one_leader_per_epoch(states, sources.lines, sources.views)),
        *(tally("I20", elections.i20_clean_election(history)) for history in clean.values()),
        *(
            tally("I21", elections.i21_history_in_order(history, sources.effective_min_isr(where)))
            for where, history in sources.states.items()
        ),
    ]
    if any(sources.clean(topic) for topic in sources.manifest.topics):
        found.append(tally("I25", elections.i25_boot_high_watermark(*_of_clean(sources), sources.new_logs)))
    return [*found, *([] if sources.states else [tally("I21", [])])]


def _of_clean(sources: Sources) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    def clean(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [row for row in rows if row["topic"] in sources.manifest.topics and sources.clean(row["topic"])]

    return clean(sources.lines), clean(sources.captures)


def i16_no_phantom_read(polls: DataFrame, segments: DataFrame, final: DataFrame) -> DataFrame:
    """I16, all versions, clean topics; serves C2, C13 and C46. A record that a consumer was given at an offset is at
    that offset in the partition's final log: it was below a high watermark, so it was committed.

    ``final`` names the replica whose log counts and where that log starts (topic, partition, broker_id,
    log_start_offset). Found broken by KAFKA-14704 (2.8.0 to 3.4.0), where a follower served what it was about to cut.
    """
    value = F.struct("producer_id", "seq")
    stands = (
        segments.filter(F.col("offset").isNotNull())
        .join(F.broadcast(final), [*PARTITION, "broker_id"], how="inner")
        .select(*PARTITION, "offset", value.alias("stands"))
    )
    read = (
        polls.filter(F.col("producer_id").isNotNull())
        .join(F.broadcast(final), PARTITION, how="inner")
        .filter(F.col("offset") >= F.col("log_start_offset"))
        .select(*PARTITION, "offset", value.alias("read"), "consumer_id", F.col("received_ns").alias("t_ns"))
    )
    found = read.join(stands, [*PARTITION, "offset"], how="left")
    violated = F.col("stands").isNull() | (F.col("stands") != F.col("read"))
    facts = F.when(violated, F.to_json(F.struct("consumer_id", "offset", "read", "stands", "t_ns")))
    return found.withColumns({"violated": violated, "evidence": facts}).select(
        *PARTITION, "t_ns", "violated", "evidence"
    )


def phantoms(sources: Sources) -> list[dict[str, Any]]:
    """I16 on all clean topics: a row of ``TALLIES``, or none where no topic is clean."""
    logs = [logs for logs in sources.logs.values() if logs.clean and logs.final is not None]
    if not logs:
        return []
    run = sources.run
    final = run.polls.sparkSession.createDataFrame(
        [(each.topic, each.partition, each.final, _start(each)) for each in logs],
        "topic string, partition int, broker_id int, log_start_offset bigint",
    )
    return [_counted("I16", i16_no_phantom_read(run.polls, run.segments, final))]


def _counted(name: str, checks: DataFrame) -> dict[str, Any]:
    """A row of ``TALLIES`` from checks in Spark."""
    first = F.min(F.when(F.col("violated"), F.struct("t_ns", *PARTITION, "evidence"))).alias("first")
    counted = checks.agg(F.count("*").alias("checked"), F.count_if("violated").alias("violations"), first)
    return counted.select(F.lit(name).alias("invariant"), "checked", "violations", "first.*").collect()[0].asDict()


def _start(logs: agreement.Logs) -> int:
    return next((r.log_start_offset or 0 for r in logs.replicas if r.broker_id == logs.final), 0)


def i28_enough_replicas(sends: DataFrame, segments: DataFrame, isr: DataFrame, short: DataFrame) -> DataFrame:
    """I28, all versions; serves C1 and C27. Below min.insync.replicas nothing is acknowledged with acks=all.

    While the ISR is smaller than min(min.insync.replicas, replicas) the leader refuses to append such a send. ``short``
    are such stretches of the controller's history. Checked on sends from two seconds on after the leader's own metadata
    showed that ISR, as it may hear of it late: one that was acknowledged before the stretch ended is a violation. Its
    batch has to stand in the leader's log with the epoch of the stretch; otherwise a former leader took it, which knew
    of another ISR. Nothing is said of a stretch in which the leader or a controller was out of reach.
    """
    state = [*REPLICA, "leader_epoch", "isr"]
    views = isr.select(
        *PARTITION,
        "observer",
        "leader_epoch",
        F.array_sort("isr").alias("isr"),
        F.col("sent_ns").alias("asked_ns"),
        "received_ns",
    )
    known = (
        views.join(F.broadcast(short), [*PARTITION, "leader_epoch", "isr"], how="inner")
        .filter(F.col("observer") == F.col("broker_id").cast("string"))
        .filter((F.col("asked_ns") >= F.col("from_ns")) & (F.col("received_ns") <= F.col("until_ns")))
        .groupBy(*state, "until_ns")
        .agg((F.min("received_ns") + watermarks.UNFENCED_NS).alias("known_ns"))
    )
    asked = (
        sends.filter("acks = 'all'")
        .join(F.broadcast(known), PARTITION, how="inner")
        .filter((F.col("sent_ns") >= F.col("known_ns")) & (F.col("sent_ns") <= F.col("until_ns")))
        .withColumn(
            "violated", F.coalesce((F.col("outcome") == "ok") & (F.col("done_ns") <= F.col("until_ns")), F.lit(False))
        )
    )
    appended = segments.filter(F.col("offset").isNotNull()).select(
        *REPLICA, "leader_epoch", "offset", *VALUE, F.lit(True).alias("appended")
    )
    found = asked.join(appended, [*REPLICA, "leader_epoch", "offset", *VALUE], how="left")
    told = F.to_json(F.struct("broker_id", "leader_epoch", "isr", "offset", *VALUE, "sent_ns", "done_ns"))
    return found.filter(~F.col("violated") | F.col("appended")).select(
        *PARTITION, F.col("done_ns").alias("t_ns"), "violated", F.when(F.col("violated"), told).alias("evidence")
    )


def short_rows(facts: Facts) -> Iterator[dict[str, Any]]:
    """The stretches of a partition below min.insync.replicas: rows of ``SHORT``."""
    for state, from_ns, until_ns in watermarks.short_of_members(facts):
        where = {"topic": facts.topic, "partition": facts.partition, "broker_id": state.leader}
        told = {"leader_epoch": state.leader_epoch, "isr": sorted(state.isr)}
        yield where | told | {"from_ns": from_ns, "until_ns": until_ns}


def too_few(spark: SparkSession, sources: Sources) -> list[dict[str, Any]]:
    """I28: a row of ``TALLIES``, or none where no ISR was ever too small."""
    short = [row for where in sources.partitions for row in short_rows(sources.facts(where))]
    if not short:
        return []
    run = sources.run
    return [_counted("I28", i28_enough_replicas(run.sends, run.segments, run.isr, rows(spark, SHORT, short)))]


# --- findings that violate no guarantee -------------------------------------------------------------


def anomalies(sources: Sources) -> list[dict[str, Any]]:
    """Rows of the anomalies table: sources that disagree, and behaviour that a later version changed."""
    found = [row for where in sources.partitions for row in _disagreements(sources, where)]
    return found + [row for where in sources.partitions for row in _changes(sources, where)]


def _disagreements(sources: Sources, where: TopicPartition) -> Iterator[dict[str, Any]]:
    def own(rows: Iterable[dict[str, Any]]) -> list[Mapping[str, Any]]:
        return [row for row in rows if (row["topic"], row["partition"]) == where]

    told = elections.disagreements(
        sources.states.get(where, []), own(sources.lines), own(sources.views), sources.starts(where)
    )
    for explanation, evidence in told:
        yield _row("source_disagreement", where, explanation, evidence)


def _changes(sources: Sources, where: TopicPartition) -> Iterator[dict[str, Any]]:
    for before, after in pairwise(sources.states.get(where, [])):
        if elections.last_known_leader(before, after):
            yield _row(
                "behaviour_change",
                where,
                f"Broker {after.leader} was elected in epoch {after.leader_epoch} as the last known leader, "
                "with nobody left in ISR and ELR.",
                {"leader": after.leader, "leader_epoch": after.leader_epoch, "position": after.position},
                why="with ELR the last known leader may lead again, without unclean.leader.election.enable (KIP-966)",
            )
    for state in elections.led_from_elr(sources.states.get(where, [])):
        yield _row(
            "behaviour_change",
            where,
            f"Broker {state.leader} was elected in epoch {state.leader_epoch} out of the ELR, with nobody left in the "
            "ISR; it was not in the last one.",
            {"leader": state.leader, "leader_epoch": state.leader_epoch, "position": state.position},
            why="with ELR a replica that left the ISR below min.insync.replicas may still lead (KIP-966)",
        )
    facts = sources.facts(where)
    if not facts.lax_min_isr or not any(len(state.isr) < facts.effective_min_isr for state in facts.states):
        return
    chosen = sources.run.samples.filter((F.col("topic") == where.topic) & (F.col("partition") == where.partition))
    for check in watermarks.hw_below_min_isr(samples_of(chosen.select(*_COLUMNS).toArrow()), facts):
        if check.violated:
            told = check.evidence
            yield _row(
                "behaviour_change",
                where,
                f"The high watermark went from {told['from_hw']} to {told['to_hw']} with ISR {told['isr']}, below "
                f"min.insync.replicas={told['effective_min_isr']}.",
                told,
                why="up to 3.6 the high watermark goes on below min.insync.replicas; from 3.7 it stands (KAFKA-15583)",
            )


def _row(
    anomaly: str, where: TopicPartition, explanation: str, evidence: Mapping[str, Any], why: str | None = None
) -> dict[str, Any]:
    return {
        "anomaly": anomaly,
        "severity": SEVERITY[anomaly],
        "topic": where.topic,
        "partition": where.partition,
        "offset": None,
        "producer_id": None,
        "seq": None,
        "allowed": why is not None,
        "allowed_why": why,
        "explanation": explanation,
        "evidence": json.dumps(evidence, sort_keys=True),
    }
