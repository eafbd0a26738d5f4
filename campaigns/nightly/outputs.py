"""What machines take from a nightly run: a summary, JUnit XML; and which run folders may be deleted."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from campaigns.campaign import CampaignFolder
from campaigns.nightly.nightly_run import ROLES, when
from campaigns.nightly.settings import Settings, check
from campaigns.places import Places
from history.errors import EvidenceError
from history.folder import write_atomically
from history.results.nightly import Cell, Failure, NightlyResult, Series


def conclude(
    folder: CampaignFolder, result: NightlyResult, rows: Sequence[Mapping[str, Any]], places: Places, now: datetime
) -> None:
    """Write what machines take, and remove the run folders that may go."""
    write(folder, result)
    prune(places.runs, folder.path.parent, rows, check(folder.read_plan().settings), now)


def write(folder: CampaignFolder, result: NightlyResult) -> list[Path]:
    """Write ``summary.json`` and ``junit.xml`` beside the result; returns both."""
    files = {
        folder.path / "summary.json": json.dumps(summary(result), indent=1, ensure_ascii=False) + "\n",
        folder.path / "junit.xml": junit(result),
    }
    for path, text in files.items():
        write_atomically(path, text)
    return list(files)


def summary(result: NightlyResult) -> dict[str, Any]:
    """The nightly run in a few lines, as the webhook gets it; ``text`` is what chat programs show."""
    return {
        "text": "\n".join([result.sentence, *(alert.text for alert in result.alerts)]),
        "campaign": result.campaign_id,
        "created_at": result.created_at,
        "state": result.state,
        "sentence": result.sentence,
        "runs": dict(Counter(run.verdict for run in result.runs)),
        "series": dict(Counter(each.state for each in result.series)),
        "control": result.control.state,
        "alerts": [alert.model_dump(mode="json") for alert in result.alerts],
        "suppressed": [alert.model_dump(mode="json") for alert in result.suppressed],
    }


# --- JUnit -----------------------------------------------------------------------------------------


def junit(result: NightlyResult) -> str:
    """JUnit XML: a suite of correctness (scenario x version) and one of performance (a case for each watched series).

    Failed are correctness failures and confirmed slowdowns; skipped, what is waived, a known bug of Kafka, or cannot be
    judged; an error is a run that is missing or has no verdict.
    """
    root = ET.Element("testsuites", name=f"plimsoll nightly {result.campaign_id}")
    quiet = {(each.scenario, each.kafka): each for each in result.failures if each.status in ("waived", "known bug")}
    correctness = [_correctness(cell, quiet.get((cell.scenario, cell.kafka))) for cell in result.cells]
    performance = [_performance(series) for series in result.series if series.role == "matrix"]
    for name, cases in (("correctness", correctness), ("performance", performance)):
        outcomes = Counter(child.tag for case in cases for child in case)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=name,
            tests=str(len(cases)),
            failures=str(outcomes["failure"]),
            errors=str(outcomes["error"]),
            skipped=str(outcomes["skipped"]),
            time="0",
            timestamp=f"{when(result.created_at):%Y-%m-%dT%H:%M:%S}",
        )
        suite.extend(cases)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _correctness(cell: Cell, known: Failure | None) -> ET.Element:
    """``known`` is the cell's failure if it is waived or a known bug."""
    case = _case(f"correctness.{cell.scenario}", cell.kafka)
    text = " ".join(cell.sentences)
    if known:
        waiver = known.waiver
        why = f"waived by {waiver.who} until {waiver.until}: {waiver.why}" if waiver else known.status
        _outcome(case, "skipped", why, text)
    elif cell.verdict == "fail":
        _outcome(case, "failure", text, "\n".join(cell.runs))
    elif cell.verdict != "pass":
        _outcome(case, "error", text, "\n".join(cell.runs))
    return case


def _performance(series: Series) -> ET.Element:
    phase = f" {series.phase}" if series.phase else ""
    case = _case(f"performance.{series.scenario}.{series.kafka_version}", series.metric + phase)
    if series.state == "confirmed":
        _outcome(case, "failure", series.why, "\n".join(series.confirmation.runs if series.confirmation else []))
    elif series.state not in ("steady", "better", "refuted"):
        _outcome(case, "skipped", f"{series.state}: {series.why}", "")
    return case


def _case(classname: str, name: str) -> ET.Element:
    return ET.Element("testcase", classname=classname, name=name, time="0")


def _outcome(case: ET.Element, kind: str, message: str, text: str) -> None:
    ET.SubElement(case, kind, message=_printable(message)).text = _printable(text) or None


def _printable(text: str) -> str:
    """Without the control characters that XML 1.0 has no way to write."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


# --- retention --------------------------------------------------------------------------------------


def linked(result: NightlyResult) -> set[str]:
    """The runs that the failures and alerts lead to; their folders stay."""
    of_failures = {run for failure in result.failures for run in failure.runs}
    return of_failures | {run for alert in (*result.alerts, *result.suppressed) for run in alert.runs}


def expired(
    runs: Iterable[Mapping[str, Any]], settings: Settings, now: datetime, kept: Collection[str] = ()
) -> list[str]:
    """The run ids of nightly runs whose folders may go, the oldest first; the archive keeps their rows.

    ``runs`` are rows of the archive. A run that failed stays, and so do those of ``kept`` (see ``linked``) and runs
    that no nightly run made.
    """
    started = {
        row["run_id"]: when(row["started_at"])
        for row in runs
        if row["labels"].get("role") in ROLES and row["verdict"] != "fail" and row["run_id"] not in kept
    }
    newest = sorted(started, key=lambda run: started[run], reverse=True)
    oldest_kept = now - timedelta(days=settings.retention.days)
    may_go = [run for place, run in enumerate(newest) if place >= settings.retention.runs or started[run] < oldest_kept]
    return may_go[::-1]


def prune(
    runs: Path, nightly_runs: Path, rows: Iterable[Mapping[str, Any]], settings: Settings, now: datetime
) -> list[str]:
    """Remove the run folders that may go; returns their run ids.

    ``nightly_runs`` is the folder of all nightly runs: what any of their results leads to stays.
    """
    kept: set[str] = set()
    for path in nightly_runs.glob("*/result.json"):
        with suppress(EvidenceError):  # of an earlier format
            kept |= linked(NightlyResult.read(path))
    removed = [run for run in expired(rows, settings, now, kept) if (runs / run).is_dir()]
    for run in removed:
        shutil.rmtree(runs / run)
    return removed
