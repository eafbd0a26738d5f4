"""The Spark application that judges run folders: ``spark-submit spark/job.py RUN [RUN …]``; see spark/submit.py.

Spark spreads the partitions of a run over its cores; everything else is plain functions (``spark.run_judge``).
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from expectations.suites import Outcome, record_expectations, replica_expectations, validate
from history.errors import EvidenceError
from history.folder import RunFolder, write_atomically
from history.remote import path_of, written_here
from history.tables import JUDGED
from spark.checks import anomalies
from spark.checks.allowed import allowed
from spark.evidence.gather import Question
from spark.folder.run import Run, open_folder
from spark.folder.tables import write_table
from spark.run_judge import Judged, Spread, judge_run, total
from spark.verdict import evidence
from spark.verdict.summary import Conclusion, verdict_of

log = logging.getLogger("plimsoll.judge")

SIDE_BY_SIDE = 2  # runs that are judged at the same time


def main(folders: Sequence[str]) -> None:
    """Judge run folders in one application, each into its own verdict/; two at a time, as much of one is waiting."""
    spark = SparkSession.builder.appName("plimsoll judge").getOrCreate()
    context = spark.sparkContext
    context.setLogLevel("ERROR")
    with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
        judged = [pool.submit(judge_folder, RunFolder(path_of(folder)), spread_over(context)) for folder in folders]
        for done, each in enumerate(as_completed(judged), 1):
            each.result()
            print(f"judged {done} of {len(folders)}", flush=True)  # noqa: T201  # what a person waits for
    spark.stop()


def spread_over(context: SparkContext) -> Spread:
    """Ask partitions on Spark's cores."""

    def spread(judge: Callable[[Question], Any], asked: Sequence[Question]) -> list[Any]:
        if not asked:
            return []
        careful = _careful(judge)
        answers = context.parallelize(asked, len(asked)).map(careful).collect()
        for answer in answers:
            if isinstance(answer, EvidenceError):
                raise answer
        return answers

    return spread


def _careful(judge: Callable[[Question], Any]) -> Callable[[Question], Any]:
    """Evidence that cannot be read is an answer: an exception would come back as Spark's, with its trace."""

    def ask(question: Question) -> Any:
        try:
            return judge(question)
        except EvidenceError as error:
            return error
        except (pa.ArrowException, OSError) as error:
            what = " ".join(str(error).split())[:300]
            return EvidenceError(f"The recorded tables could not be read to the end of {question.where}: {what}")

    return ask


def judge_folder(folder: RunFolder, spread: Spread) -> None:
    """Write ``verdict/`` of one run folder. Evidence that cannot be read makes it unknown, with the reason named."""
    folder.verdict.mkdir(exist_ok=True)
    try:
        _check_seal(folder)
        run = open_folder(folder)
        _conclude(run, judge_run(run, spread))
    except EvidenceError as error:
        _unknown(folder, str(error))
    except PySparkException as error:
        _unknown(folder, f"The recorded tables could not be read to the end: {str(error).splitlines()[0][:300]}")
    except Exception as error:  # a checker that crashed has proved nothing, and the next run waits
        log.exception("judging %s", folder.path)
        _unknown(folder, f"The judge itself failed: {type(error).__name__}: {error}")


def _check_seal(folder: RunFolder) -> None:
    if broken := folder.check_seal():
        more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
        raise EvidenceError(f"The run folder is not what was sealed: {'; '.join(broken[:3])}{more}.")


def _conclude(run: Run, judged: Judged) -> None:
    """Write the judged tables, run the suites on them, and write verdict.json."""
    folder = run.folder
    for name, table in judged.tables.items():
        write_table(table, folder.judged(name), JUDGED[name])
    found = judged.tables["anomaly_counts"].to_pylist()
    counted = {name: sum(row["cases"] for row in found if row["anomaly"] == name) for name in anomalies.SEVERITY}
    forbidden = {
        name: sum(row["cases"] for row in found if row["anomaly"] == name and not row["allowed"])
        for name in anomalies.SEVERITY
    }
    invariants = judged.tables["invariants"].to_pylist()
    delivered = total(judged.tables["delivery"].to_pylist())
    items = [
        ("seal intact", None),
        *judged.items,
        evidence.undecided(invariants),
        evidence.undrained(delivered),
        evidence.control_seen(run.manifest.control, counted),
    ]
    violated = {row["invariant"]: row["violations"] for row in invariants}
    permitted = allowed(run.manifest, run.events)
    of_replicas = {row["invariant"]: (row["title"], row["severity"]) for row in invariants}
    outcome = _validate(
        folder,
        items,
        [
            ("records", forbidden, record_expectations(run.manifest, anomalies.SEVERITY, permitted)),
            ("replicas", violated, replica_expectations(run.manifest, of_replicas)),
        ],
    )
    findings = Conclusion(
        outcome=outcome,
        missing=[reason for _, reason in items if reason],
        anomalies=counted,
        forbidden=forbidden,
        invariants=invariants,
        delivery=delivered,
        allowed=permitted,
        notes=[*evidence.waits_that_ran_out(run.events), *evidence.seeks_of_readers(judged.seeks)],
        excused=sorted((row["anomaly"], row["allowed_why"], row["cases"]) for row in found if row["allowed"]),
    )
    _write_verdict(folder, verdict_of(findings))


def _validate(
    folder: RunFolder, items: Sequence[evidence.Item], tables: Sequence[tuple[str, Mapping[str, int], Any]]
) -> Outcome:
    with written_here(folder.verdict / "data_docs") as data_docs:
        return validate(items, tables, data_docs)


def _unknown(folder: RunFolder, reason: str) -> None:
    """No table can be judged: all of them are empty, and the one item of evidence says why."""
    for name, schema in JUDGED.items():
        write_table(schema.empty_table(), folder.judged(name), schema)
    outcome = _validate(folder, [("run folder readable", reason)], [])
    nothing = dict.fromkeys(anomalies.SEVERITY, 0)
    findings = Conclusion(outcome, [reason], nothing, nothing, [], total([]), {}, [])
    _write_verdict(folder, verdict_of(findings))


def _write_verdict(folder: RunFolder, verdict: Mapping[str, Any]) -> None:
    write_atomically(folder.verdict_file, json.dumps(verdict, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
