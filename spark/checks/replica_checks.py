"""The checks that rest on the replicas' other sources, run: more rows of the invariants and the anomalies table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use
from pyspark.sql.pandas.types import from_arrow_schema

from history.partition import TopicPartition
from history.tables import POLLS, REPLICAS, SEEKS, SENDS
from spark.checks import agreement, elections, watermarks
from spark.checks.anomalies import SEVERITY
from spark.checks.findings import Findings, Tally
from spark.checks.invariants import Invariant
from spark.checks.log_content import ShortIsr
from spark.checks.sources import Sources
from spark.checks.tally import TALLIES, Check, summaries, tally
from spark.evidence.columns import Names, Polls, Samples, Seeks, Sends
from spark.evidence.facts import UNFENCED_NS, Facts
from spark.evidence.partition import PartitionEvidence
from spark.folder.tables import PARTITION, REPLICA, rows

INVARIANTS = {
    "I4": Invariant("a replica's high watermark falls at most once within an epoch"),
    "I7": Invariant("every member of the ISR holds all that a leader has shown as committed"),
    "I9": Invariant("no follower's high watermark is ahead of its leader's"),
    "I11": Invariant("below min.insync.replicas the high watermark stands still"),
    "I12": Invariant("below their high watermarks all replicas hold the same bytes"),
    "I13": Invariant("a batch of one offset and epoch, and all before it, is the same on every replica"),
    "I14": Invariant("leader epochs go up, and each batch carries the one of its replica's epoch file"),
    "I15": Invariant("a record acknowledged with acks=all is on every replica of the final ISR"),
    "I16": Invariant("what a consumer read stands in the final log"),
    "I17": Invariant("an idempotent producer's sequence numbers follow one another"),
    "I19": Invariant("a leader epoch has one leader"),
    "I20": Invariant("a new leader comes from the ISR, first in the assignment's order"),
    "I21": Invariant("leader, ISR, ELR and epochs make sense in the controller's own history"),
    "I22": Invariant("a new leader's high watermark soon reaches its epoch's start", "S2"),
    "I23": Invariant("a follower that stopped leaves the ISR in time", "S2"),
    "I24": Invariant("a replica that joins the ISR has caught up with the high watermark"),
    "I25": Invariant("a boot takes its high watermark from its checkpoint, within its own log"),
    "I27": Invariant("a transaction's records stand before the marker that its outcome names, in every log"),
    "I28": Invariant("below min.insync.replicas nothing is acknowledged with acks=all"),
}
# Of the rest, a run of our own owes the evidence; these are about something that need not happen in a run.
_OCCASIONAL = {"I11", "I20", "I22", "I23", "I24", "I28"}
_NEED_HISTORY = {"I7", "I9", "I20", "I21", "I24"}
_NEED_SEGMENTS = {"I12", "I13", "I14", "I15", "I16", "I17", "I27", "I28"}
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


def invariants(
    spark: SparkSession, sources: Sources, findings: Findings, lacking_segments: str | None = None
) -> list[dict[str, Any]]:
    """Rows of the invariants table, with those that were ``found`` in the records.

    ``lacking_segments`` says why a replica's log cannot be trusted to be whole.
    """
    records = dict(findings.tallies)
    if lacking_segments and "I16" in records:  # a log that is not whole cannot say that a record is missing from it
        records["I16"] = Tally()
    read = [_tallied(name, found) for name, found in records.items()]
    tallies = [*on_samples(sources), *on_logs(spark, sources), *on_history(sources), *read]
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
        evidence, found = of_samples(where, table, known), Findings()
        for name, check in watermarks.checks(clean=where.topic in clean).items():
            found.add_checks(where, name, check(evidence))
        return pa.Table.from_pylist([_tallied(name, tally) for name, tally in found.tallies.items()], TALLIES)

    asked = sources.run.samples.groupBy(*PARTITION)
    return [row.asDict() for row in asked.applyInArrow(judge, from_arrow_schema(TALLIES)).collect()]


def of_samples(where: TopicPartition, table: pa.Table, known: Facts) -> PartitionEvidence:
    """A partition of which nothing but its replicas is looked at."""
    names = Names()
    return PartitionEvidence(
        where,
        names,
        Sends.of(SENDS.empty_table(), names),
        Polls.of(POLLS.empty_table(), names),
        Seeks.of(SEEKS.empty_table(), names),
        Samples.of(table.cast(REPLICAS)),
        facts=known,
    )


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


def _tallied(name: str, found: Tally) -> dict[str, Any]:
    """A row of ``TALLIES``."""
    t_ns, where, evidence = found.first or (None, None, None)
    topic, partition = where or (None, None)
    counted = {"invariant": name, "checked": found.checked, "violations": found.violations}
    return counted | {"t_ns": t_ns, "topic": topic, "partition": partition, "evidence": evidence}


def short_isrs(sources: Sources) -> dict[TopicPartition, list[ShortIsr]]:
    """The stretches below min.insync.replicas that the leader's own metadata showed, and since when it has known."""
    short = [row for where in sources.partitions for row in short_rows(where, sources.facts(where))]
    found: dict[TopicPartition, list[ShortIsr]] = {}
    if not short:
        return found
    isr = sources.run.isr
    views = isr.select(
        *PARTITION,
        "observer",
        "leader_epoch",
        F.array_sort("isr").alias("isr"),
        F.col("sent_ns").alias("asked_ns"),
        "received_ns",
    )
    known = (
        views.join(F.broadcast(rows(isr.sparkSession, SHORT, short)), [*PARTITION, "leader_epoch", "isr"], how="inner")
        .filter(F.col("observer") == F.col("broker_id").cast("string"))
        .filter((F.col("asked_ns") >= F.col("from_ns")) & (F.col("received_ns") <= F.col("until_ns")))
        .groupBy(*REPLICA, "leader_epoch", "isr", "until_ns")
        .agg(F.min("received_ns").alias("shown_ns"))
    )
    for row in known.collect():
        stretch = ShortIsr(
            row["broker_id"], row["leader_epoch"], tuple(row["isr"]), row["shown_ns"] + UNFENCED_NS, row["until_ns"]
        )
        found.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(stretch)
    return found


def short_rows(where: TopicPartition, facts: Facts) -> Iterator[dict[str, Any]]:
    """The stretches of a partition below min.insync.replicas: rows of ``SHORT``."""
    for state, from_ns, until_ns in watermarks.short_of_members(facts):
        led = {**where._asdict(), "broker_id": state.leader}
        told = {"leader_epoch": state.leader_epoch, "isr": sorted(state.isr)}
        yield led | told | {"from_ns": from_ns, "until_ns": until_ns}


# --- findings that violate no guarantee -------------------------------------------------------------


def anomalies(sources: Sources) -> list[dict[str, Any]]:
    """Rows of the anomalies table: sources that disagree, and behaviour that a later version changed."""
    lines, views = _by_partition(sources.lines), _by_partition(sources.views)
    found = [
        row
        for where in sources.partitions
        for row in _disagreements(sources, where, lines.get(where, []), views.get(where, []))
    ]
    return found + [row for where in sources.partitions for row in _changes(sources, where)]


def _by_partition(rows: Iterable[dict[str, Any]]) -> dict[TopicPartition, list[Mapping[str, Any]]]:
    found: dict[TopicPartition, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(TopicPartition.of(row), []).append(row)
    return found


def _disagreements(
    sources: Sources, where: TopicPartition, lines: Sequence[elections.Row], views: Sequence[elections.Row]
) -> Iterator[dict[str, Any]]:
    told = elections.disagreements(sources.states.get(where, []), lines, views, sources.starts(where))
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
    moved = watermarks.hw_below_min_isr(of_samples(where, chosen.toArrow(), facts))
    for told in map(moved.evidence, range(moved.violated_ns.size)):
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
