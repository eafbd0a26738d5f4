"""The Spark application that judges run folders: ``spark-submit spark/job.py RUN [RUN …]``; see spark/submit.py."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from expectations.suites import MISSING, Outcome, record_expectations, replica_expectations, validate
from history.errors import EvidenceError
from history.folder import RunFolder, write_atomically
from history.tables import JUDGED
from kafka_files.broker_log import BROKER_LOG
from spark.checks import anomalies, delivery, foreign, invariants, known_bugs, order, replica_checks, transactions
from spark.checks.allowed import allowed, allowed_to
from spark.checks.gates import sometimes
from spark.checks.sources import Sources, max_isr_lag_ns
from spark.folder import recorded
from spark.folder.kafka_log import register
from spark.folder.tables import REPLICA, read_table, rows, write_table
from spark.measures import metrics, recovery, timeline
from spark.verdict import evidence, explanations
from spark.verdict.summary import Findings, verdict_of

log = logging.getLogger("plimsoll.judge")

SPANS = pa.schema([("phase", pa.string()), ("from_ns", pa.int64()), ("to_ns", pa.int64())])
ALLOWED = pa.schema([("producer_id", pa.string()), ("anomaly", pa.string()), ("allowed_why", pa.string())])
WHOLE = pa.schema([("topic", pa.string()), ("partition", pa.int32())])
WHOLE_LOGS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("broker_id", pa.int32())])
OWN_STARTS = pa.schema([*WHOLE_LOGS, ("from_offset", pa.int64())])  # up to there a replica may have deleted by itself
LIMITS = pa.schema([("topic", pa.string()), ("max_isr_lag_ns", pa.int64()), ("effective_min_isr", pa.int32())])

SIDE_BY_SIDE = 2  # runs that are judged at the same time


def main(folders: Sequence[str]) -> None:
    """Judge run folders in one application, each into its own verdict/; two at a time, as much of one is waiting."""
    spark = SparkSession.builder.appName("plimsoll judge").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
        judged = [pool.submit(judge_folder, _session(spark), RunFolder(Path(folder))) for folder in folders]
        for done, each in enumerate(as_completed(judged), 1):
            each.result()
            print(f"judged {done} of {len(folders)}", flush=True)  # noqa: T201  # what a person waits for
    spark.stop()


def _session(spark: SparkSession) -> SparkSession:
    """A session of its own, as settings follow from a run's size. Made before a thread has judged anything: where
    another session was active, Spark says that the format exists already.
    """
    own = spark.newSession()
    register(own)
    return own


def judge_folder(spark: SparkSession, folder: RunFolder) -> None:
    """Write ``verdict/`` of one run folder. Evidence that cannot be read makes it unknown, with the reason named."""
    folder.verdict.mkdir(exist_ok=True)
    try:
        _check_seal(folder)
        _judge(spark, folder)
    except EvidenceError as error:
        _unknown(spark, folder, str(error))
    except PySparkException as error:
        _unknown(spark, folder, f"The recorded tables could not be read to the end: {str(error).splitlines()[0][:300]}")
    except Exception as error:  # a checker that crashed has proved nothing, and the next run waits
        log.exception("judging %s", folder.path)
        _unknown(spark, folder, f"The judge itself failed: {type(error).__name__}: {error}")


def _check_seal(folder: RunFolder) -> None:
    if broken := folder.check_seal():
        more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
        raise EvidenceError(f"The run folder is not what was sealed: {'; '.join(broken[:3])}{more}.")


def _judge(spark: SparkSession, folder: RunFolder) -> None:
    run = recorded.open_run(spark, folder)
    counts = evidence.count(run)
    items = evidence.evidence(run, counts)
    sources = Sources(run)
    fates, cases = _records(spark, sources, counts)
    if not run.manifest.foreign:  # nobody saw the replicas of an imported history
        cases = cases.select(*JUDGED["anomalies"].names).union(
            rows(spark, JUDGED["anomalies"], replica_checks.anomalies(sources))
        )
    write_table(cases, folder.judged("anomalies"), JUDGED["anomalies"])
    spans = rows(spark, SPANS, (span._asdict() for span in recovery.phases(run.events)))
    load_spans = rows(spark, SPANS, (span._asdict() for span in recovery.load_spans(run.events)))
    changes = sources.changes
    loads = [producer.producer_id for producer in run.manifest.producers if producer.rate_per_s]
    stalls = recovery.longest_stalls(run.sends.filter(F.col("producer_id").isin(loads)), run.samples, spans)
    tables: dict[str, Callable[[], DataFrame]] = {
        "invariants": lambda: _invariants(spark, sources, counts, items),
        "delivery": lambda: delivery.delivery(fates, read_judged(spark, folder, "anomalies")),
        "recovery": lambda: recovery.recovery(spark, run.manifest, run.events, changes, stalls),
        "latency": lambda: recovery.latency(run.sends, load_spans),
        "timeline_replicas": lambda: timeline.timeline_replicas(run.samples, run.replicas, run.manifest.probe_hz),
        "timeline_isr": lambda: timeline.timeline_isr(run.isr, changes),
        "timeline_sends": lambda: timeline.timeline_sends(run.sends),
    }
    # A partition's history is one task, so side by side the tables keep more than one core busy.
    with ThreadPoolExecutor(max_workers=3) as pool:
        preload = pool.submit(import_module, "great_expectations")
        for written in [pool.submit(_write, folder, name, build) for name, build in tables.items()]:
            written.result()
        preload.result()
    _write(folder, "metrics", lambda: rows(spark, JUDGED["metrics"], metrics.metrics(_measured(spark, run))))
    _conclude(spark, run, items)
    run.release()


def _write(folder: RunFolder, name: str, build: Callable[[], DataFrame]) -> None:
    write_table(build(), folder.judged(name), JUDGED[name])


def read_judged(spark: SparkSession, folder: RunFolder, name: str) -> DataFrame:
    """A table that was already judged."""
    return read_table(spark, folder.judged(name), JUDGED[name])[0]


def _measured(spark: SparkSession, run: recorded.Recorded) -> metrics.Measured:
    found = {
        name: [row.asDict() for row in read_judged(spark, run.folder, name).collect()]
        for name in ("latency", "recovery", "delivery")
    }
    return metrics.Measured(
        run.manifest,
        run.events,
        found["latency"],
        found["recovery"],
        _delivered(found["delivery"]),
        [row.asDict() for row in run.usage.collect()],
    )


def _records(spark: SparkSession, sources: Sources, counts: evidence.Counts) -> tuple[DataFrame, DataFrame]:
    """What became of every send, and the anomalies table."""
    run = sources.run
    whole = rows(spark, WHOLE, evidence.whole_partitions(run.manifest, counts))
    producers = rows(spark, recorded.PRODUCERS, evidence.ledgers(run, counts))
    permitted = [
        {"producer_id": producer.producer_id, "anomaly": anomaly, "allowed_why": why}
        for producer in run.manifest.producers
        for anomaly, why in allowed_to(run.manifest, producer, run.events).items()
    ]
    sends, polls, leaders = run.sends, run.polls, recorded.leaders(run.isr)
    if run.manifest.foreign:
        names = foreign.imported(spark, run.folder)
        sends, polls = foreign.with_operations(sends, names), foreign.as_drain(polls)
    atomic = transactions.transactional(run.manifest)
    if atomic:
        polls = transactions.stable(polls, sends)
    read = sends.transform(delivery.with_read, polls)
    if atomic:
        read = read.transform(transactions.with_siblings)
    if run.manifest.foreign:
        read = read.transform(foreign.with_acknowledged_place)
    deleted = rows(spark, delivery.DELETED, sources.deleted)
    fates = (
        read.transform(delivery.with_index, polls)
        .transform(delivery.with_fate, run.segments, run.drains, whole)
        .transform(delivery.without_deleted, deleted)
        .localCheckpoint()  # what follows is planned from here on: planning costs more than these rows
    )
    found = anomalies.anomalies(fates, sends, polls, run.segments, producers)
    if atomic:
        found = found.union(transactions.torn_transaction(fates))
    if run.manifest.foreign:
        found = found.union(order.imported_cases(sends, run.polls, run.seeks, foreign.standing(sends, run.polls)))
    else:
        of_order = order.cases(sends, run.polls, run.seeks, run.samples, leaders, drains=run.drains, deleted=deleted)
        found = found.union(of_order)
        if atomic:
            limit_ns, faults = transactions.limit_ns(run.manifest), transactions.faults(run.events)
            found = found.union(transactions.hanging_transaction(run.samples, leaders, sends, limit_ns, faults))
    found = found.localCheckpoint()
    if run.manifest.foreign:
        told = foreign.with_names(found, names)
    elif found.isEmpty():
        told = found
    else:
        seen = explanations.Witnesses(run.samples, leaders, run.epochs, rows(spark, BROKER_LOG, sources.lines))
        told = explanations.with_explanation(found, seen, _origin_ns(run))
    told = told.transform(anomalies.with_severity).transform(anomalies.with_allowed, rows(spark, ALLOWED, permitted))
    subscribed = run.manifest.scenario.get("subscribed", [])
    return fates, told.transform(foreign.with_rebalances, subscribed) if subscribed else told


def _origin_ns(run: recorded.Recorded) -> int:
    """From where explanations count their seconds, as the page does: the start of the first phase."""
    return next((span.from_ns for span in recovery.phases(run.events)), run.manifest.started_ns)


def _invariants(
    spark: SparkSession, sources: Sources, counts: evidence.Counts, items: list[evidence.Item]
) -> DataFrame:
    """The invariants that this configuration lets us consider, with their verdicts."""
    run = sources.run
    if run.manifest.foreign:  # nobody saw its replicas
        return rows(spark, JUDGED["invariants"], [])
    clean = [topic for topic in run.manifest.topics if sources.clean(topic)]
    is_clean = run.samples["topic"].isin(clean)
    samples, leaders = run.samples, recorded.leaders(run.isr)
    checks = {
        "I1": invariants.i1_bounds(samples),
        "I2": invariants.i2_hw_below_leo(samples, [topic for topic in run.manifest.topics if topic not in clean]),
        "I3": invariants.i3_leader_monotonic(samples, leaders),
        "I10": invariants.i10_quiescence(
            samples,
            sources.changes,
            rows(spark, LIMITS, _limits(sources)),
            rows(spark, invariants.OUTAGES, (outage._asdict() for outage in sources.outages)),
        ),
    }
    if transactions.transactional(run.manifest):
        checks["I26"] = invariants.i26_stable_offset(samples, leaders)
    if clean:
        checks["I6"] = invariants.i6_own_floor(samples.filter(is_clean), sources.new_logs)
        if _epochs_changed(run):
            checks["I8"] = invariants.i8_leader_completeness(samples.filter(is_clean), run.epochs)
        if transactions.transactional(run.manifest):
            checks["I27"] = invariants.i27_markers(run.sends.filter(run.sends["topic"].isin(clean)), run.segments)
    if any(producer.acks == "all" and producer.topic in clean for producer in run.manifest.producers):
        promised = run.sends.filter(run.sends["topic"].isin(clean)).transform(
            delivery.above_deleted, rows(spark, delivery.DELETED, sources.deleted)
        )
        whole = rows(spark, WHOLE_LOGS, evidence.whole_logs(run.manifest, counts))
        members = recorded.final_isr(run.isr).join(whole, REPLICA, how="left_semi")
        members = members.join(rows(spark, OWN_STARTS, sources.own_starts), REPLICA, how="left")
        checks["I15"] = invariants.i15_durability(promised, run.segments, members)
    listed = [name for name in invariants.INVARIANTS if name in checks]
    table = invariants.summary(listed[0], checks[listed[0]])
    for name in listed[1:]:
        table = table.union(invariants.summary(name, checks[name]))
    lacking = next((reason for item, reason in items if item == "segments of every replica"), None)
    unknown = [(name, lacking) for name in ("I15", "I27")] if lacking else []
    table = invariants.with_missing_evidence(table, unknown)
    found = [row.asDict() for row in table.collect()] + replica_checks.invariants(spark, sources, lacking)
    return rows(spark, JUDGED["invariants"], known_bugs.named(found, run.manifest.kafka_versions, sources.lines))


def _epochs_changed(run: recorded.Recorded) -> bool:
    """Whether a second leader epoch was seen anywhere: without one there is no election to check."""
    seen = run.samples.select("topic", "partition", "leader_epoch").union(
        run.isr.select("topic", "partition", "leader_epoch")
    )
    named = seen.union(run.epochs.select("topic", "partition", "leader_epoch")).dropna()
    return (
        not named.groupBy("topic", "partition")
        .agg({"leader_epoch": "min"})
        .join(named.groupBy("topic", "partition").agg({"leader_epoch": "max"}), ["topic", "partition"], how="inner")
        .filter("`min(leader_epoch)` < `max(leader_epoch)`")
        .isEmpty()
    )


def _limits(sources: Sources) -> list[dict[str, Any]]:
    """How long a member of the ISR may hold the high watermark back, and the ISR below which it stands still."""
    strict = sometimes("strict_min_isr", sources.manifest.kafka_versions)
    return [
        {
            "topic": name,
            "max_isr_lag_ns": max_isr_lag_ns(sources.manifest),
            "effective_min_isr": max(
                (sources.effective_min_isr(p) for p in sources.partitions if p.topic == name), default=1
            )
            * strict,
        }
        for name in sources.manifest.topics
    ]


def _conclude(spark: SparkSession, run: recorded.Recorded, items: list[evidence.Item]) -> None:
    """Run the suites on the written tables and write verdict.json."""
    folder = run.folder
    found = read_judged(spark, folder, "anomalies").groupBy("anomaly", "allowed", "allowed_why").count().collect()
    counted = {name: sum(row["count"] for row in found if row["anomaly"] == name) for name in anomalies.SEVERITY}
    forbidden = {
        name: sum(row["count"] for row in found if row["anomaly"] == name and not row["allowed"])
        for name in anomalies.SEVERITY
    }
    judged = sorted(read_judged(spark, folder, "invariants").collect(), key=lambda row: int(row["invariant"][1:]))
    delivered = _delivered(read_judged(spark, folder, "delivery").collect())
    items = [
        ("seal intact", None),
        *items,
        evidence.undecided(judged),
        evidence.undrained(delivered),
        evidence.control_seen(run.manifest.control, counted),
    ]
    violated = {row["invariant"]: row["violations"] for row in judged}
    permitted = allowed(run.manifest, run.events)
    outcome = _validate(
        spark,
        folder,
        items,
        [
            ("records", forbidden, record_expectations(run.manifest, anomalies.SEVERITY, permitted)),
            (
                "replicas",
                violated,
                replica_expectations(
                    run.manifest, {row["invariant"]: (row["title"], row["severity"]) for row in judged}
                ),
            ),
        ],
    )
    findings = Findings(
        outcome=outcome,
        missing=[reason for _, reason in items if reason],
        anomalies=counted,
        forbidden=forbidden,
        invariants=[row.asDict() for row in judged],
        delivery=delivered,
        allowed=permitted,
        notes=[*evidence.waits_that_ran_out(run.events), *evidence.seeks_of_readers(run.seeks)],
        excused=sorted((row["anomaly"], row["allowed_why"], row["count"]) for row in found if row["allowed"]),
    )
    _write_verdict(folder, verdict_of(findings))


def _delivered(partitions: Sequence[Any]) -> dict[str, int]:
    names = [field.name for field in JUDGED["delivery"] if field.type == pa.int64()]
    return {name: sum(row[name] for row in partitions) for name in names}


def _validate(
    spark: SparkSession,
    folder: RunFolder,
    items: Sequence[evidence.Item],
    tables: Sequence[tuple[str, Mapping[str, int], Any]],
) -> Outcome:
    listed = rows(spark, evidence.EVIDENCE, ({"item": item, "missing": reason} for item, reason in items))
    missing = sum(reason is not None for _, reason in items)
    wide = []
    for name, counted, expectations in tables:
        row = {MISSING: missing, **counted}
        schema = pa.schema([(column, pa.int64()) for column in row])
        wide.append((name, rows(spark, schema, [row]), expectations))
    return validate(listed, len(items), wide, folder.verdict / "data_docs")


def _unknown(spark: SparkSession, folder: RunFolder, reason: str) -> None:
    """No table can be judged: all of them are empty, and the one item of evidence says why."""
    for name, schema in JUDGED.items():
        write_table(rows(spark, schema, []), folder.judged(name), schema)
    outcome = _validate(spark, folder, [("run folder readable", reason)], [])
    nothing = dict.fromkeys(anomalies.SEVERITY, 0)
    findings = Findings(outcome, [reason], nothing, nothing, [], _delivered([]), {}, [])
    _write_verdict(folder, verdict_of(findings))


def _write_verdict(folder: RunFolder, verdict: Mapping[str, Any]) -> None:
    write_atomically(folder.verdict_file, json.dumps(verdict, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
