"""What machines take from a night: a summary, JUnit XML; and which run folders may go."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from campaigns.campaign import CampaignFolder
from campaigns.nightly.night import ROLES, when
from campaigns.nightly.settings import Settings, check
from campaigns.places import Places
from history.folder import write_atomically

Json = dict[str, Any]


def conclude(
    folder: CampaignFolder, result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], places: Places, now: datetime
) -> None:
    """Write what machines take, and remove the run folders that may go."""
    write(folder, result)
    prune(places.runs, folder.path.parent, rows, check(folder.read_plan().settings), now)


def write(folder: CampaignFolder, result: Mapping[str, Any]) -> list[Path]:
    """Write ``summary.json`` and ``junit.xml`` beside the result; returns both."""
    files = {
        folder.path / "summary.json": json.dumps(summary(result), indent=1, ensure_ascii=False) + "\n",
        folder.path / "junit.xml": junit(result),
    }
    for path, text in files.items():
        write_atomically(path, text)
    return list(files)


def summary(result: Mapping[str, Any]) -> Json:
    """The night in a few lines, as the webhook gets it; ``text`` is what chat programs show."""
    alerts = result["alerts"]
    return {
        "text": "\n".join([result["sentence"], *(alert["text"] for alert in alerts)]),
        "campaign": result["campaign"],
        "created_at": result["created_at"],
        "state": result["state"],
        "sentence": result["sentence"],
        "runs": dict(Counter(run["verdict"] for run in result["runs"])),
        "series": dict(Counter(told["state"] for told in result["series"])),
        "canary": result["canary"]["state"],
        "alerts": alerts,
        "suppressed": result["suppressed"],
    }


# --- JUnit -----------------------------------------------------------------------------------------


def junit(result: Mapping[str, Any]) -> str:
    """JUnit XML: a suite of correctness (scenario x version) and one of performance (a case for each watched series).

    Failed are correctness failures and confirmed slowdowns; skipped, what is waived, a known bug of Kafka, or cannot be
    judged; an error is a run that is missing or has no verdict.
    """
    root = ET.Element("testsuites", name=f"plimsoll nightly {result['campaign']}")
    settled = {(t["scenario"], t["kafka"]): t for t in result["failures"] if t["status"] in ("waived", "known bug")}
    correctness = [_correctness(cell, settled) for cell in result["cells"]]
    performance = [_performance(told) for told in result["series"] if told["role"] == "night"]
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
            timestamp=f"{when(result['created_at']):%Y-%m-%dT%H:%M:%S}",
        )
        suite.extend(cases)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _correctness(cell: Json, settled: Mapping[tuple[str, str], Json]) -> ET.Element:
    case = _case(f"correctness.{cell['scenario']}", cell["kafka"])
    told = " ".join(cell["sentences"])
    known = settled.get((cell["scenario"], cell["kafka"]))
    if known:
        waiver = known["waiver"]
        why = f"waived by {waiver['who']} until {waiver['until']}: {waiver['why']}" if waiver else known["status"]
        _outcome(case, "skipped", why, told)
    elif cell["verdict"] == "fail":
        _outcome(case, "failure", told, "\n".join(cell["runs"]))
    elif cell["verdict"] != "pass":
        _outcome(case, "error", told, "\n".join(cell["runs"]))
    return case


def _performance(told: Json) -> ET.Element:
    phase = f" {told['phase']}" if told["phase"] else ""
    case = _case(f"performance.{told['scenario']}.{told['kafka_version']}", told["metric"] + phase)
    if told["state"] == "confirmed":
        _outcome(case, "failure", told["why"], "\n".join(told["confirmation"]["runs"]))
    elif told["state"] not in ("steady", "better", "refuted"):
        _outcome(case, "skipped", f"{told['state']}: {told['why']}", "")
    return case


def _case(classname: str, name: str) -> ET.Element:
    return ET.Element("testcase", classname=classname, name=name, time="0")


def _outcome(case: ET.Element, kind: str, message: str, text: str) -> None:
    ET.SubElement(case, kind, message=_printable(message)).text = _printable(text) or None


def _printable(text: str) -> str:
    """Without the control characters that XML 1.0 has no way to write."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


# --- retention --------------------------------------------------------------------------------------


def linked(result: Mapping[str, Any]) -> set[str]:
    """The runs that a night's failures and alerts lead to; their folders stay."""
    found = [*result["failures"], *result["alerts"], *result["suppressed"]]
    return {run for told in found for run in told["runs"]}


def expired(
    runs: Iterable[Mapping[str, Any]], settings: Settings, now: datetime, kept: Collection[str] = ()
) -> list[str]:
    """The run ids of nights whose folders may go, the oldest first; the archive keeps their rows.

    ``runs`` are rows of the archive. A run that failed stays, and so do those of ``kept`` (see ``linked``) and runs
    that no night made.
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


def prune(runs: Path, nights: Path, rows: Iterable[Mapping[str, Any]], settings: Settings, now: datetime) -> list[str]:
    """Remove the run folders that may go; returns their run ids.

    ``nights`` is the folder of all nights: what any of their results leads to stays.
    """
    results = (json.loads(path.read_text()) for path in nights.glob("*/result.json"))
    kept = {run for result in results for run in linked(result)}
    removed = [run for run in expired(rows, settings, now, kept) if (runs / run).is_dir()]
    for run in removed:
        shutil.rmtree(runs / run)
    return removed
