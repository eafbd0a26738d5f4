"""Judge run folders as a Spark application, which ``application.py`` starts.

Spark distributes a run's partitions over its cores; the rest is plain functions (``judge.run``).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from evidence.run import Run, open_folder
from evidence.tables import write_table
from expectations import checkpoint
from expectations.suites import validate
from history.anomalies import SEVERITY
from history.errors import EvidenceError
from history.folder import RunFolder, write_atomically
from history.product import judge_digest
from history.remote import path_of, written_here
from history.tables import JUDGED
from judge.checks.allowed import allowed
from judge.checks.delivery import total
from judge.checks.premises import Premises
from judge.run import READS, Judged, Spread, beyond_profile, judge_run, not_judged, undecided
from judge.verdict.decided import cases, decided, forbidden
from judge.verdict.notes import notes
from judge.verdict.summary import Conclusion, verdict_of
from spark.failures import reason_of
from spark.progress import Watch, by_status
from spark.spread import spread_over

log = logging.getLogger("plimsoll.judge")

SIDE_BY_SIDE = 2  # runs judged at once


def main(folders: Sequence[str], watch: Watch = by_status) -> None:
    """Judge run folders in one application, two at a time because each often waits."""
    with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
        preloaded = pool.submit(checkpoint.load)  # takes seconds, and it is needed last
        session = SparkSession.builder.getOrCreate()
        runs = [RunFolder(path_of(folder)) for folder in folders]
        judged = [pool.submit(judge_folder, run, partial(spread_over, session, watch)) for run in runs]
        for done, each in enumerate(as_completed(judged), 1):
            each.result()
            print(f"judged {done} of {len(folders)}", flush=True)  # noqa: T201  # what a person waits for
        preloaded.result()
    session.stop()


def judge_folder(folder: RunFolder, spreading: Callable[[RunFolder], Spread]) -> None:
    """Write a run folder's ``verdict/``; unreadable evidence makes it unknown, with the reason."""
    folder.verdict.mkdir(exist_ok=True)
    try:
        folder.require_intact()
        run = open_folder(folder)
        _conclude(run, judge_run(run, spreading(folder)))
    except Exception as error:  # a crash proves nothing, and other runs wait
        if not isinstance(error, EvidenceError):
            log.exception("judging %s", folder.path)
        _unknown(folder, reason_of(error))


def _conclude(run: Run, judged: Judged) -> None:
    """Run the suites on the judged tables; write the tables and verdict.json."""
    folder = run.folder
    items = [("seal intact", None), *judged.items, *decided(run.manifest, judged.tables)]
    permitted = allowed(run.manifest, run.events, Premises(run).led_cleanly)
    left_out = beyond_profile(run, judged.tables)
    with written_here(folder.verdict / "data_docs") as data_docs:
        outcome = validate(
            items,
            anomalies=judged.tables["anomalies"],
            anomaly_counts=judged.tables["anomaly_counts"],
            invariants=judged.tables["invariants"],
            tallies=judged.tallies,
            manifest=run.manifest,
            permitted=permitted,
            reads={name: tables for name, tables in READS.items() if name not in left_out},
            data_docs=data_docs,
        )
    tables = {**judged.tables, **undecided(judged.tables, outcome.undecided)}
    for name, table in tables.items():
        write_table(table, folder.judged(name), JUDGED[name])
    write_atomically(folder.latency_log, judged.latency_log)
    found = tables["anomaly_counts"].to_pylist()
    findings = Conclusion(
        outcome=outcome,
        missing=[*(reason for _, reason in items if reason), *outcome.untrusted],
        anomalies=cases(found),
        forbidden=forbidden(found),
        invariants=tables["invariants"].to_pylist(),
        delivery=total(judged.tables["delivery"].to_pylist()),
        allowed=permitted,
        notes=notes(run, judged.seeks, judged.copies),
        excused=sorted((row["anomaly"], row["allowed_why"], row["cases"]) for row in found if row["allowed"]),
        profile=run.profile,
        not_judged=not_judged(run, judged.tables),
    )
    _write_verdict(folder, verdict_of(findings))


def _unknown(folder: RunFolder, reason: str) -> None:
    """Write empty tables and an unknown verdict with its reason."""
    for name, schema in JUDGED.items():
        write_table(schema.empty_table(), folder.judged(name), schema)
    with written_here(folder.verdict / "data_docs") as data_docs:
        outcome = validate(
            [("run folder readable", reason)],
            anomalies=None,
            anomaly_counts=None,
            invariants=None,
            tallies=None,
            manifest=None,
            permitted={},
            reads={},
            data_docs=data_docs,
        )
    nothing = dict.fromkeys(SEVERITY, 0)
    findings = Conclusion(outcome, [reason], nothing, nothing, [], total([]), {}, [])
    _write_verdict(folder, verdict_of(findings))


def _write_verdict(folder: RunFolder, verdict: Mapping[str, Any]) -> None:
    judged = {**verdict, "judge": judge_digest()}
    write_atomically(folder.verdict_file, json.dumps(judged, indent=1, ensure_ascii=False) + "\n")
