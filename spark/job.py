"""The Spark application that judges run folders: ``spark-submit spark/job.py RUN [RUN …]``; see spark/submit.py."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
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
from history.partition import TopicPartition
from history.tables import JUDGED
from kafka_files.broker_log import BROKER_LOG
from spark import frames
from spark.checks import anomalies, invariants, known_bugs, order, questions, replica_checks, transactions
from spark.checks.allowed import allowed, allowed_to
from spark.checks.findings import Findings
from spark.checks.gates import sometimes
from spark.checks.judge import Answer, Question
from spark.checks.questions import Known
from spark.checks.sources import Sources, max_isr_lag_ns
from spark.evidence.counts import Counts
from spark.evidence.reader import Tables
from spark.folder import recorded
from spark.folder.kafka_log import register
from spark.folder.tables import read_table, rows, write_table
from spark.measures import metrics, recovery, timeline
from spark.verdict import evidence
from spark.verdict.summary import Conclusion, verdict_of

log = logging.getLogger("plimsoll.judge")

SPANS = pa.schema([("phase", pa.string()), ("from_ns", pa.int64()), ("to_ns", pa.int64())])
# Of the cases that are kept as examples: with what their explanation needs.
EXAMPLES = pa.schema([*JUDGED["anomalies"], ("acks", pa.string()), ("at_ns", pa.int64())])
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
    counts = frames.count(run)
    items = evidence.evidence(run, counts)
    sources = Sources(run)
    answers, findings = judge_records(spark, sources, counts)
    examples, counted = questions.rows_of(findings, anomalies.SEVERITY)
    spans = rows(spark, SPANS, (span._asdict() for span in recovery.phases(run.events)))
    load_spans = rows(spark, SPANS, (span._asdict() for span in recovery.load_spans(run.events)))
    changes = sources.changes
    loads = [producer.producer_id for producer in run.manifest.producers if producer.rate_per_s]
    stalls = frames.longest_stalls(run.sends.filter(F.col("producer_id").isin(loads)), run.samples, spans)
    tables: dict[str, Callable[[], DataFrame]] = {
        "anomalies": lambda: _explained(spark, sources, examples),
        "anomaly_counts": lambda: rows(spark, JUDGED["anomaly_counts"], counted),
        "invariants": lambda: _invariants(spark, sources, findings, items),
        "delivery": lambda: rows(spark, JUDGED["delivery"], questions.delivery(answers)),
        "recovery": lambda: frames.recovery(spark, run.manifest, run.events, changes, stalls),
        "latency": lambda: frames.latency(run.sends, load_spans),
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


def judge_records(spark: SparkSession, sources: Sources, counts: Counts) -> tuple[list[Answer], Findings]:
    """What became of every record, partition by partition."""
    run = sources.run
    asked = questions.questions(sources, _partitions(run), _known(sources, counts))
    answers, findings = questions.ask(asked, partial(_spread, spark))
    if not run.manifest.foreign:  # nobody saw the replicas of an imported history
        for row in [*_sampled(sources), *replica_checks.anomalies(sources)]:
            told = {**row, "evidence": json.loads(row["evidence"])}
            findings.add_case(told, row["allowed_why"])
    return answers, findings


def _spread(spark: SparkSession, judge: Callable[[Question], Any], asked: Sequence[Question]) -> list[Any]:
    """Ask partitions, as many at once as Spark has cores; the answers are in the order of the questions."""
    if not asked:
        return []
    context = spark.sparkContext
    return context.parallelize(asked, min(len(asked), 4 * context.defaultParallelism)).map(judge).collect()


def _partitions(run: recorded.Recorded) -> list[TopicPartition]:
    """Every partition that the manifest or a client names."""
    named = {TopicPartition(name, number) for name, topic in run.manifest.topics.items() for number in topic.assignment}
    return sorted(named.union(Tables(run.folder).partitions("sends", "polls")))


def _known(sources: Sources, counts: Counts) -> Known:
    run = sources.run
    members: dict[TopicPartition, list[int]] = {}
    for row in recorded.final_isr(run.isr).collect():
        members.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row["broker_id"])
    unclean = {each["producer_id"] for each in evidence.ledgers(run, counts) if not each["clean"]}
    return Known(
        whole={TopicPartition.of(row) for row in evidence.whole_partitions(run.manifest, counts)},
        whole_logs={(TopicPartition.of(row), row["broker_id"]) for row in evidence.whole_logs(run.manifest, counts)},
        final_isr=members,
        short={} if run.manifest.foreign else replica_checks.short_isrs(sources),
        unclean_producers=frozenset(unclean),
    )


def _sampled(sources: Sources) -> Iterator[dict[str, Any]]:
    """The cases that rest on the probe's samples."""
    run = sources.run
    leaders = recorded.leaders(run.isr)
    cases = order.precommitted_read(run.polls, run.samples, leaders)
    if transactions.transactional(run.manifest):
        limit_ns, faults = transactions.limit_ns(run.manifest), transactions.faults(run.events)
        cases = cases.union(transactions.hanging_transaction(run.samples, leaders, run.sends, limit_ns, faults))
    permitted = {p.producer_id: allowed_to(run.manifest, p, run.events) for p in run.manifest.producers}
    for row in cases.collect():
        yield {**row.asDict(), "allowed_why": permitted.get(row["producer_id"], {}).get(row["anomaly"])}


def _explained(spark: SparkSession, sources: Sources, examples: Sequence[Mapping[str, Any]]) -> DataFrame:
    """The anomalies table: what became of each record that is gone, in a sentence."""
    told = rows(spark, EXAMPLES, examples)
    if sources.manifest.foreign or not examples:
        return told
    run = sources.run
    seen = frames.Witnesses(run.samples, recorded.leaders(run.isr), run.epochs, rows(spark, BROKER_LOG, sources.lines))
    return frames.with_explanation(told, seen, _origin_ns(run))


def _origin_ns(run: recorded.Recorded) -> int:
    """From where explanations count their seconds, as the page does: the start of the first phase."""
    return next((span.from_ns for span in recovery.phases(run.events)), run.manifest.started_ns)


def _invariants(spark: SparkSession, sources: Sources, findings: Findings, items: list[evidence.Item]) -> DataFrame:
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
    listed = [name for name in invariants.INVARIANTS if name in checks]
    table = invariants.summary(listed[0], checks[listed[0]])
    for name in listed[1:]:
        table = table.union(invariants.summary(name, checks[name]))
    lacking = next((reason for item, reason in items if item == "segments of every replica"), None)
    found = [row.asDict() for row in table.collect()]
    found += replica_checks.invariants(spark, sources, findings, lacking)
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
    found = read_judged(spark, folder, "anomaly_counts").collect()
    counted = {name: sum(row["cases"] for row in found if row["anomaly"] == name) for name in anomalies.SEVERITY}
    forbidden = {
        name: sum(row["cases"] for row in found if row["anomaly"] == name and not row["allowed"])
        for name in anomalies.SEVERITY
    }
    judged = [row.asDict() for row in read_judged(spark, folder, "invariants").collect()]
    judged.sort(key=lambda row: int(row["invariant"][1:]))
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
    seeks = [row.asDict() for row in run.seeks.collect()]
    findings = Conclusion(
        outcome=outcome,
        missing=[reason for _, reason in items if reason],
        anomalies=counted,
        forbidden=forbidden,
        invariants=judged,
        delivery=delivered,
        allowed=permitted,
        notes=[*evidence.waits_that_ran_out(run.events), *evidence.seeks_of_readers(seeks)],
        excused=sorted((row["anomaly"], row["allowed_why"], row["cases"]) for row in found if row["allowed"]),
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
    findings = Conclusion(outcome, [reason], nothing, nothing, [], _delivered([]), {}, [])
    _write_verdict(folder, verdict_of(findings))


def _write_verdict(folder: RunFolder, verdict: Mapping[str, Any]) -> None:
    write_atomically(folder.verdict_file, json.dumps(verdict, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
