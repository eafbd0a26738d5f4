"""Judge run folders as a Spark application, which ``application.py`` starts.

Spark distributes a run's partitions over its cores; the rest is plain functions (``judge.run``).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import PySparkException

from evidence.facts import PartitionFacts
from evidence.run import Run, open_folder
from evidence.tables import write_table
from expectations import checkpoint
from expectations.suites import validate
from history.anomalies import SEVERITY
from history.errors import EvidenceError
from history.events import EventLog
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

log = logging.getLogger("plimsoll.judge")

SIDE_BY_SIDE = 2  # runs judged at once
TOLD_EVERY_S = 5.0
TASKS_PER_CORE = 32  # so that cores end at about the same time, and progress shows


def main(folders: Sequence[str]) -> None:
    """Judge run folders in one application, two at a time because each often waits."""
    with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
        preloaded = pool.submit(checkpoint.load)  # takes seconds, and it is needed last
        context = SparkContext.getOrCreate()
        context.setLogLevel("ERROR")
        runs = [RunFolder(path_of(folder)) for folder in folders]
        judged = [pool.submit(judge_folder, run, partial(spread_over, context)) for run in runs]
        for done, each in enumerate(as_completed(judged), 1):
            each.result()
            print(f"judged {done} of {len(folders)}", flush=True)  # noqa: T201  # what a person waits for
        preloaded.result()
    context.stop()


def spread_over(context: SparkContext, folder: RunFolder, afterwards_s: float) -> Spread:
    """Judge partitions on Spark's cores, the largest first, and report progress.

    Tasks share partitions, because a task costs as much as judging a small one.
    """

    def spread(judge: Callable[[PartitionFacts], Any], partitions: Sequence[PartitionFacts]) -> list[Any]:
        if not partitions:
            return []
        done, judge_or_error = context.accumulator(0), _careful(judge)

        def answers(share: Sequence[tuple[int, PartitionFacts]]) -> Iterator[tuple[int, Any]]:
            for place, facts in share:
                yield place, judge_or_error(facts)
                done.add(facts.size)

        largest_first = sorted(enumerate(partitions), key=lambda numbered: -numbered[1].size)
        tasks = min(len(partitions), TASKS_PER_CORE * context.defaultParallelism)
        shares = [largest_first[task::tasks] for task in range(tasks)]
        with _told(folder, lambda: done.value, sum(facts.size for facts in partitions), afterwards_s):
            found = context.parallelize(shares, tasks).flatMap(answers).collect()
        for _, answer in found:
            if isinstance(answer, EvidenceError):
                raise answer
        return [answer for _, answer in sorted(found, key=itemgetter(0))]

    return spread


@contextmanager
def _told(folder: RunFolder, done: Callable[[], int], total: int, afterwards_s: float) -> Iterator[None]:
    """Report every few seconds the judged bytes and the remaining time."""
    ended, began_s = Event(), time.monotonic()

    def tell() -> None:
        while not ended.wait(TOLD_EVERY_S):
            taken_s, read = time.monotonic() - began_s, done()
            left_s = round(taken_s * (total - read) / read + afterwards_s) if read else None
            _say(folder, f"judged {read / 1e6:,.0f} of {total / 1e6:,.0f} MB", left_s)

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def _say(folder: RunFolder, what: str, left_s: int | None) -> None:
    """Write progress to the screen and, if the folder can grow, to the run's stages."""
    if isinstance(folder.stages, Path):
        EventLog(folder.stages).add("stage_progress", step="judge", what=what, left_s=left_s)
    left = "" if left_s is None else f", about {left_s} s to go"
    print(f"{folder.run_id}: {what}{left}", flush=True)  # noqa: T201  # what a person waits for


def _careful(judge: Callable[[PartitionFacts], Any]) -> Callable[[PartitionFacts], Any]:
    """Return unreadable evidence as an answer; Spark would wrap an exception."""

    def judge_or_error(facts: PartitionFacts) -> Any:
        try:
            return judge(facts)
        except EvidenceError as error:
            return error
        except (pa.ArrowException, OSError) as error:
            what = " ".join(str(error).split())[:300]
            return EvidenceError(f"The recorded tables could not be read to the end of {facts.where}: {what}")

    return judge_or_error


def judge_folder(folder: RunFolder, spreading: Callable[[RunFolder, float], Spread]) -> None:
    """Write a run folder's ``verdict/``; unreadable evidence makes it unknown, with the reason."""
    folder.verdict.mkdir(exist_ok=True)
    try:
        folder.require_intact()
        run = open_folder(folder)
        _conclude(run, judge_run(run, spreading(folder, 0.0)))
    except EvidenceError as error:
        _unknown(folder, str(error))
    except PySparkException as error:
        _unknown(folder, f"The recorded tables could not be read to the end: {str(error).splitlines()[0][:300]}")
    except Exception as error:  # a crash proves nothing, and other runs wait
        log.exception("judging %s", folder.path)
        _unknown(folder, f"The judge itself failed: {type(error).__name__}: {error}")


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
