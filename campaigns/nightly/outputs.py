"""A nightly run's summary, stored decisions, and deletion of old run folders."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from campaigns.campaign import CampaignFolder
from campaigns.nightly.nightly_run import CONCLUSIVE, ROLES, when
from campaigns.nightly.settings import Settings, check
from campaigns.places import Places
from campaigns.statistics.changes import Key
from history.errors import EvidenceError
from history.folder import write_atomically
from history.results.nightly import Decision, NightlyResult

DECISIONS = "decisions.json"


def conclude(
    folder: CampaignFolder, result: NightlyResult, rows: Sequence[Mapping[str, Any]], places: Places, now: datetime
) -> None:
    """Write ``summary.json`` and the decisions, and delete expired run folders."""
    keep_decisions(folder, result)
    write_atomically(folder.path / "summary.json", json.dumps(summary(result), indent=1, ensure_ascii=False) + "\n")
    prune(places.runs, folder.path.parent, rows, check(folder.read_plan().settings), now)


def keep_decisions(folder: CampaignFolder, result: NightlyResult) -> None:
    """Store the reruns' decisions; stored ones never change."""
    kept = {_series_of(each): each for each in _decisions(folder.path)}
    for series in result.series:
        decided = series.confirmation
        if decided and decided.is_current and decided.verdict in CONCLUSIVE:
            about = {name: getattr(series, name) for name in Key._fields}
            new = Decision(nightly_run=result.campaign_id, **about, confirmation=decided)
            kept.setdefault(_series_of(new), new)
    if kept:
        text = json.dumps([each.model_dump(mode="json") for each in kept.values()], indent=1, ensure_ascii=False)
        write_atomically(folder.path / DECISIONS, f"{text}\n")


def memory(nightly_runs: Path) -> dict[str, list[Decision]]:
    """Return all nightly runs' stored decisions."""
    files = sorted(nightly_runs.glob(f"*/{DECISIONS}"))
    return {"decisions": [decision for file in files for decision in _decisions(file.parent)]}


def _decisions(nightly_run: Path) -> list[Decision]:
    """Raise EvidenceError if the file has another format."""
    file = nightly_run / DECISIONS
    try:
        return [Decision.model_validate(each) for each in json.loads(file.read_bytes())]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise EvidenceError(
            f"{file} holds no decisions ({error}); restore it, or remove it to decide again."
        ) from error


def _series_of(decision: Decision) -> Key:
    return Key(*(getattr(decision, name) for name in Key._fields))


def summary(result: NightlyResult) -> dict[str, Any]:
    """Return the webhook's summary; chat programs show ``text``."""
    return {
        "text": "\n".join([result.sentence, *(alert.text for alert in result.alerts)]),
        "campaign": result.campaign_id,
        "created_at": result.created_at,
        "subject": result.subject,
        "state": result.state,
        "sentence": result.sentence,
        "runs": dict(Counter(run.verdict for run in result.runs)),
        "series": dict(Counter(each.state for each in result.series)),
        "control": result.control.state,
        "alerts": [alert.model_dump(mode="json") for alert in result.alerts],
        "suppressed": [alert.model_dump(mode="json") for alert in result.suppressed],
    }


def linked(result: NightlyResult) -> set[str]:
    """Return runs that failures and alerts link to; their folders are kept."""
    of_failures = {run for failure in result.failures for run in failure.runs}
    return of_failures | {run for alert in (*result.alerts, *result.suppressed) for run in alert.runs}


def expired(
    runs: Iterable[Mapping[str, Any]], settings: Settings, now: datetime, kept: Collection[str] = ()
) -> list[str]:
    """Return ids of deletable runs; failed ones, ``kept`` ones and other campaigns' stay."""
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
    """Delete expired run folders, unless a result links to them; return their ids."""
    kept: set[str] = set()
    for path in nightly_runs.glob("*/result.json"):
        with suppress(EvidenceError):  # an earlier format
            kept |= linked(NightlyResult.read(path))
    may_go = expired(rows, settings, now, kept)
    # others may write the archive: delete only direct subfolders
    removed = [run for run in may_go if (runs / run).is_dir() and (runs / run).resolve().parent == runs.resolve()]
    for run in removed:
        shutil.rmtree(runs / run)
    return removed
