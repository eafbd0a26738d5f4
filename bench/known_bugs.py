"""Known bugs, counted: ``python -m bench.known_bugs CAMPAIGN …`` takes results of ``make known-bugs`` into the pages.

Every judged try is a row of docs/known-bugs.json. For each bug the first run of a campaign that found it, and the first
that was clean, become a page of their own (docs/known-bugs/): what stood on each replica at each moment, from the
tables of those runs.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from campaigns.campaign import CampaignFolder
from campaigns.known_bugs.bugs import BUGS, Bug
from clusters.scenario import load_scenario
from history.events import read_events
from history.folder import RunFolder
from history.manifest import read_manifest
from spark.intervals import clopper_pearson

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "known-bugs.json"
PAGE = ROOT / "docs" / "known-bugs.md"
STORIES = ROOT / "docs" / "known-bugs"
DECIDED = ("found", "clean", "something else")
Json = dict[str, Any]


def main(folders: Sequence[str]) -> None:
    """Take in the tries of some campaigns, and write all pages anew."""
    rows: dict[str, Json] = {row["run_id"]: row for row in _read(RESULTS, [])}
    for folder in map(Path, folders):
        result = json.loads(CampaignFolder(folder).result.read_text())
        rows |= {row["run_id"]: row for row in tries_of(result)}
        runs = folder.resolve().parents[2] / "runs"
        for bug in BUGS:
            _keep_stories(bug, result, runs)
    RESULTS.write_text(json.dumps(list(rows.values()), indent=1) + "\n")
    PAGE.write_text(render(list(rows.values())))


def tries_of(result: Mapping[str, Any]) -> list[Json]:
    """A row for each judged try of a campaign."""
    about = ("bug", "issue", "version", "expected")
    return [
        {
            "run_id": run["run_id"],
            "date": result["created_at"][:10],
            **{name: arm[name] for name in about},
            "outcome": run["outcome"],
            "found_by": run["found_by"],
        }
        for arm in result["arms"]
        for run in arm["runs"]
    ]


def _read(file: Path, nothing: Any) -> Any:
    return json.loads(file.read_text()) if file.exists() else nothing


# --- the page of all -----------------------------------------------------------------------------------


def render(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bug by version, in the order of the list and then of the versions."""
    lines = [
        "# Known bugs, found again",
        "",
        "Bugs that Kafka had, reproduced by recipes that were written for them, on fresh clusters. The recipes are",
        "ordinary [scenarios](scenarios.md); what finds a bug is an [invariant](checks.md) by which every run is",
        "judged, or a change of behaviour, never a check of its own. How often a recipe finds its bug says nothing of",
        "how often the bug strikes elsewhere.",
        "",
        "`make known-bugs` makes such tries (`BUGS=kafka-13091 KAFKA=3.0.1 TRIES=3` for others). A try that missed its",
        "window counts for neither side: the race that the bug needs did not come about. The rate is of the tries that",
        "count, with its exact interval at 95 %.",
        "",
        "Written by `python -m bench.known_bugs`; every try is a row of `known-bugs.json`.",
        "",
        "| bug | Kafka | must be | found | clean | window missed | no verdict | found by | rate |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for bug in BUGS:
        own = [row for row in rows if row["bug"] == bug.name]
        lines += [_line(bug, version, own) for version in dict.fromkeys(row["version"] for row in own)]
    lines += ["", "## What goes wrong", ""]
    for bug in BUGS:
        page = STORIES / f"{bug.name}.md"
        told = f"; [replica by replica](known-bugs/{bug.name}.md)" if page.exists() else ""
        lines.append(f"- **{bug.issue}**: {bug.title}. Scenario `{bug.scenario}`{told}.")
    return "\n".join(lines) + "\n"


def _line(bug: Bug, version: str, rows: Sequence[Mapping[str, Any]]) -> str:
    own = [row for row in rows if row["version"] == version]
    counts = Counter(row["outcome"] for row in own)
    decided = sum(counts[name] for name in DECIDED)
    by = Counter(name for row in own for name in row["found_by"])
    low, high = clopper_pearson(counts["found"], decided)
    cells = (
        bug.issue,
        version,
        own[0]["expected"] or "not known",
        f"{counts['found']} of {decided}",
        f"{counts['clean']} of {decided}",
        counts["window missed"],
        counts["unknown"],
        ", ".join(f"{name} in {count}" for name, count in by.items()) or "–",
        f"{low:.0%} to {high:.0%}" if decided else "–",
    )
    return f"| {' | '.join(map(str, cells))} |"


# --- a bug's own page ----------------------------------------------------------------------------------


def _keep_stories(bug: Bug, result: Mapping[str, Any], runs: Path) -> None:
    """The first found and the first clean run of a bug whose folders are there, as data and as a page."""
    file = STORIES / f"{bug.name}.json"
    kept: Json = _read(file, {})
    for arm in (arm for arm in result["arms"] if arm["bug"] == bug.name):
        for run in arm["runs"]:
            if run["outcome"] in ("found", "clean") and run["outcome"] not in kept:
                folder = runs / run["run_id"]
                if RunFolder(folder).verdict_file.is_file():
                    kept[run["outcome"]] = {**story_of(folder), "version": arm["version"]}
    if kept:
        STORIES.mkdir(exist_ok=True)
        file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
        file.with_suffix(".md").write_text(render_story(bug, kept))


def story_of(run: Path) -> Json:
    """What a judged run's tables tell: steps, replicas at each capture, what the judge found, the fate of the sends."""
    folder = RunFolder(run)
    verdict: Json = json.loads(folder.verdict_file.read_text())
    manifest = read_manifest(folder.manifest)
    return {
        "run_id": run.name,
        "kafka": manifest.kafka_version,
        "mode": manifest.mode,
        "verdict": verdict["verdict"],
        "sentence": verdict["sentence"],
        "events": _events(folder),
        "replicas": _replicas(folder),
        "broken": _broken(folder),
        "anomalies": _anomalies(folder),
        "sends": _sends(folder),
    }


_TOLD = {"step", "injected", "healed", "wait_met", "wait_ran_out", "window"}


def _events(folder: RunFolder) -> list[Json]:
    """What was done and seen, in seconds since the first phase began."""
    events = list(read_events(folder.events))
    start_ns = next(event.t_ns for event in events if event.kind == "phase_started")
    return [
        {"s": round((event.t_ns - start_ns) / 1e9, 1), "phase": event.phase, "what": _words(event)}
        for event in events
        if event.kind in _TOLD and event.phase
    ]


def _words(event: Any) -> str:
    told = event.detail
    words = {
        "step": f"{event.step}: {', '.join(f'{name} {value}' for name, value in told.items())}",
        "injected": f"{event.step} of {event.target} took effect" if told.get("bit") else f"{event.step} did not bite",
        "healed": f"{event.step} of {event.target} is over",
        "wait_met": f"{told.get('condition')}: true after {told.get('waited_ms')} ms",
        "wait_ran_out": f"{told.get('condition')}: not true within {told.get('limit_s'):g} s"
        if told.get("limit_s")
        else f"{told.get('condition')}: not true in time",
        "window": f"looked: {told.get('condition')} {told.get('why')}",
    }
    return words[event.kind]


def _replicas(folder: RunFolder) -> list[Json]:
    """HW and LEO of each replica at each capture, by partition."""
    files = sorted(folder.table("offsets").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return [
        {
            "capture": row["capture"],
            "partition": f"{row['topic']}-{row['partition']}",
            "broker": row["broker_id"],
            "epoch": row["leader_epoch"],
            "hw": row["high_watermark"],
            "leo": row["log_end_offset"],
            "error": row["error"],
        }
        for row in rows
    ]


def _broken(folder: RunFolder) -> list[Json]:
    rows = pq.read_table(folder.judged("invariants")).to_pylist()
    names = ("invariant", "title", "checked", "violations", "reason")
    return [{name: row[name] for name in names} for row in rows if row["violations"]]


def _anomalies(folder: RunFolder) -> list[Json]:
    rows = pq.read_table(folder.judged("anomalies")).to_pylist()
    found: dict[tuple[str, bool], Json] = {}
    for row in rows:
        told = found.setdefault(
            (row["anomaly"], row["allowed"]),
            {"anomaly": row["anomaly"], "permitted": row["allowed"], "count": 0, "first": row["story"]},
        )
        told["count"] += 1
    return list(found.values())


def _sends(folder: RunFolder) -> list[Json]:
    """By client and acks: how many were sent, and how many of those acknowledged the last reader was given."""
    sends = pq.read_table(folder.table("sends"), columns=["producer_id", "seq", "acks", "outcome"]).to_pylist()
    polls = pq.read_table(folder.table("polls"), columns=["producer_id", "seq", "pass"]).to_pylist()
    read = {(row["producer_id"], row["seq"]) for row in polls if row["pass"] == "final"}
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in sends:
        client = (row["producer_id"], row["acks"])
        counts[*client, "sent"] += 1
        counts[*client, row["outcome"]] += 1
        counts[*client, "gone"] += row["outcome"] == "ok" and (row["producer_id"], row["seq"]) not in read
    names = ("sent", "ok", "info", "fail", "gone")
    return [
        {"client": client, "acks": acks, **{name: counts[client, acks, name] for name in names}}
        for client, acks in sorted({key[:2] for key in counts})
    ]


def render_story(bug: Bug, kept: Mapping[str, Any]) -> str:
    """The page of one bug: the run that found it and, beside it, one that did not."""
    why = load_scenario(bug.scenario, bug.bad_changes).why
    lines = [
        f"# {bug.issue}: {bug.title}",
        "",
        f"Scenario `{bug.scenario}`: {why}",
        "",
        "A known bug, reproduced by a recipe that was written for it; [all of them](../known-bugs.md). All figures are",
        "from the tables of the run folders named here.",
    ]
    for outcome, words in (("found", "With the bug"), ("clean", "Without it")):
        if outcome in kept:
            lines += ["", f"## {words}: Kafka {kept[outcome]['version']}", "", *_told(kept[outcome])]
    return "\n".join(lines) + "\n"


def _told(told: Mapping[str, Any]) -> list[str]:
    lines = [f"Run `{told['run_id']}`, {told['mode']}. Verdict {told['verdict']}: {told['sentence']}", ""]
    lines += ["### What was done and seen", "", "| second | phase | |", "|---:|---|---|"]
    lines += [f"| {event['s']:.1f} | {event['phase']} | {_cell(event['what'])} |" for event in told["events"]]
    lines += ["", "### Replica by replica", ""]
    for partition in dict.fromkeys(row["partition"] for row in told["replicas"]):
        lines += [*_offsets([row for row in told["replicas"] if row["partition"] == partition], partition), ""]
    lines += [
        "### What became of the records",
        "",
        "| client | acks | sent | acknowledged | unknown | refused | gone |",
    ]
    lines += ["|---|---|---:|---:|---:|---:|---:|"]
    names = ("client", "acks", "sent", "ok", "info", "fail", "gone")
    lines += [f"| {' | '.join(str(row[name]) for name in names)} |" for row in told["sends"]]
    lines += [
        "",
        "Gone: acknowledged, and not among what the last reader was given.",
        "",
        "### What the judge found",
        "",
    ]
    lines += [
        f"- **{row['invariant']}** ({row['title']}): {row['violations']:,} of {row['checked']:,} checks. "
        f"{_cell(row['reason'])}."
        for row in told["broken"]
    ]
    lines += [
        f"- {row['count']:,} x `{row['anomaly']}`{', permitted here' if row['permitted'] else ''}; the first: "
        f"{_cell(row['first'])}"
        for row in told["anomalies"]
    ]
    return lines if told["broken"] or told["anomalies"] else [*lines, "Nothing."]


def _offsets(rows: Sequence[Mapping[str, Any]], partition: str) -> Iterable[str]:
    brokers = sorted({row["broker"] for row in rows})
    yield f"`{partition}`: high watermark / log end offset, and the leader epoch that the broker knew."
    yield ""
    yield f"| moment | {' | '.join(f'broker {number}' for number in brokers)} |"
    yield "|---" * (len(brokers) + 1) + "|"
    for capture in dict.fromkeys(row["capture"] for row in rows):
        own = {row["broker"]: row for row in rows if row["capture"] == capture}
        yield f"| {capture} | {' | '.join(_offset(own.get(number)) for number in brokers)} |"


def _offset(row: Mapping[str, Any] | None) -> str:
    if row is None or row["error"]:
        return f"({row['error'].replace('_', ' ')})" if row else "–"
    return f"{row['hw']} / {row['leo']}, epoch {row['epoch']}"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").rstrip(".")


if __name__ == "__main__":
    main(sys.argv[1:])
