"""Write the pages of known bugs from docs/known-bugs.json and the kept timelines of runs.

Every judged try is a row of docs/known-bugs.json. A bug's page shows the offsets of a campaign's first run that found
the bug and its first clean run, if these folders exist; for a bug found here also the report
(campaigns/known_bugs/reports/) and every run.
"""

from __future__ import annotations

import json
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from campaigns.campaign import CampaignFolder
from campaigns.known_bugs.bugs import BUGS, Bug
from campaigns.statistics.intervals import clopper_pearson
from clusters.scenario.scenario import load_scenario
from clusters.scenario.steps.catalog import STEPS
from history.events import Event, read_events
from history.folder import RunFolder
from history.manifest import read_manifest
from reports.timeline import in_words
from tests.rows import ROOT, put, read

RESULTS = ROOT / "docs" / "known-bugs.json"
TIMELINES = ROOT / "docs" / "known-bugs"
REPORTS = ROOT / "campaigns" / "known_bugs" / "reports"
DECIDED = ("found", "clean")
Json = dict[str, Any]


def add(folders: Sequence[str]) -> None:
    """Take in campaigns of ``make known-bugs``, and their runs if they are still there."""
    for folder in map(Path, folders):
        result = json.loads(CampaignFolder(folder).result.read_text())
        put(RESULTS, "run_id", tries_of(result))
        runs = folder.resolve().parents[2] / "runs"
        for bug in BUGS:
            _keep_timeline(bug, result, runs)


def pages() -> dict[str, str]:
    """Return the overview and a page per bug."""
    rows = read(RESULTS)
    kept = {bug.name: _read(TIMELINES / f"{bug.name}.json", {}) for bug in BUGS}
    of_bugs = {f"known-bugs/{bug.name}.md": render_timeline(bug, kept[bug.name], rows) for bug in BUGS}
    return {"known-bugs.md": render(rows), **of_bugs}


def tries_of(result: Mapping[str, Any]) -> list[Json]:
    """Return a row per judged try."""
    about = ("bug", "issue", "version", "expected")
    return [
        {
            "run_id": run["run_id"],
            "date": result["created_at"][:10],
            **{name: arm[name] for name in about},
            "outcome": run["outcome"],
            "found_by": run["found_by"],
            "also": run["also"],
        }
        for arm in result["arms"]
        for run in arm["runs"]
    ]


def _report(bug: Bug, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines on a bug found here, with all its runs."""
    file = REPORTS / f"{bug.name}.md"
    if not file.exists():
        return []
    own = [row for row in rows if row["issue"] == bug.issue and "withdrawn" not in row]
    lines = ["", file.read_text().strip(), "", "## Every run", "", "| Kafka | outcome | runs |", "|---|---|---|"]
    for version, outcome in sorted({(row["version"], row["outcome"]) for row in own}):
        runs = [f"`{row['run_id']}`" for row in own if (row["version"], row["outcome"]) == (version, outcome)]
        lines.append(f"| {version} | {_OUTCOMES[outcome]}: {len(runs)} | {'<br>'.join(runs)} |")
    return lines


_OUTCOMES = {"found": "found", "clean": "clean", "window missed": "precondition not met", "unknown": "unknown"}


def _read(file: Path, nothing: Any) -> Any:
    return json.loads(file.read_text()) if file.exists() else nothing


# --- the overview page -----------------------------------------------------------------------------------


def render(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with a row per bug and version."""
    arms = sum(1 if bug.good is None else 2 for bug in BUGS)
    lines = [
        "# Known bugs, found again",
        "",
        "Bugs that Kafka had, reproduced on fresh clusters by recipes written for them. A recipe is an ordinary",
        "[scenario](scenarios.md). An [invariant](checks.md) that is checked in every run finds the bug, or a change",
        "of behaviour; there are no special checks. A recipe's success rate is not the bug's frequency elsewhere.",
        "",
        f"`make known-bugs` repeats this: ten tries each are {10 * arms} runs, three hours on two cores.",
        "`BUGS=kafka-13091 KAFKA=3.0.1 TRIES=3` asks for others; `MODE=zookeeper` is the mode of these versions.",
        "",
        "- **Precondition not met**: the race that the bug needs did not come about. The try counts for neither side.",
        "- **Also violated**: invariants that do not count for the bug. 2.8.2, for instance, is without KAFKA-13141",
        "  and has KAFKA-14704, which the same recipe shows and the judge names.",
        "- **Rate**: found, among the tries that count; the exact interval at 95 %.",
        "",
        f"Made {_days(rows)}; every try is a row of `known-bugs.json`, without the judge's version. `make docs`",
        "writes this page.",
        "",
        "| bug | Kafka | expected | found | clean | precondition not met | unknown | found by | also violated | rate |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for bug in BUGS:
        own = [row for row in rows if row["bug"] == bug.name and "withdrawn" not in row]
        lines += [_line(bug, version, own) for version in dict.fromkeys(row["version"] for row in own)]
    for (issue, why), tries in Counter((row["issue"], row["withdrawn"]) for row in rows if "withdrawn" in row).items():
        lines += ["", f"{issue}, {tries} withdrawn: {why}. Withdrawn tries stay in `known-bugs.json`."]
    lines += ["", "## What goes wrong, replica by replica", "", "| bug | scenario | what goes wrong |", "|---|---|---|"]
    for bug in BUGS:
        page = TIMELINES / f"{bug.name}.md"
        name = f"[{bug.issue}](known-bugs/{bug.name}.md)" if page.exists() else bug.issue
        lines.append(f"| {name} | `{bug.scenario}` | {bug.title} |")
    return "\n".join(lines) + "\n"


def _days(rows: Sequence[Mapping[str, Any]]) -> str:
    days = sorted({row["date"] for row in rows})
    return f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"


def _line(bug: Bug, version: str, rows: Sequence[Mapping[str, Any]]) -> str:
    own = [row for row in rows if row["version"] == version]
    counts = Counter(row["outcome"] for row in own)
    decided = sum(counts[name] for name in DECIDED)
    low, high = clopper_pearson(counts["found"], decided)
    cells = (
        bug.issue,
        version,
        own[0]["expected"] or "not known",
        f"{counts['found']} of {decided}",
        f"{counts['clean']} of {decided}",
        counts["window missed"],
        counts["unknown"],
        *(_counts(own, what) for what in ("found_by", "also")),
        f"{100 * low:.0f}–{high:.0%}" if decided else "–",
    )
    return f"| {' | '.join(map(str, cells))} |"


def _counts(rows: Sequence[Mapping[str, Any]], what: str) -> str:
    counts = Counter(name for row in rows for name in row[what])
    return ", ".join(f"{name} in {count}" for name, count in counts.items()) or "–"


# --- a bug's own page ----------------------------------------------------------------------------------


def _keep_timeline(bug: Bug, result: Mapping[str, Any], runs: Path) -> None:
    file = TIMELINES / f"{bug.name}.json"
    kept: Json = _read(file, {})
    fresh: Json = {}
    for arm in (arm for arm in result["arms"] if arm["bug"] == bug.name):
        for run in arm["runs"]:
            if run["outcome"] in ("found", "clean") and run["outcome"] not in fresh:
                folder = runs / run["run_id"]
                if RunFolder(folder).verdict_file.is_file():
                    fresh[run["outcome"]] = {**timeline_of(folder), "version": arm["version"]}
    if kept := kept | fresh:
        TIMELINES.mkdir(exist_ok=True)
        file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def timeline_of(run: Path) -> Json:
    """Return the timeline of partition 0 of a judged run's first topic."""
    folder = RunFolder(run)
    verdict: Json = json.loads(folder.verdict_file.read_text())
    manifest = read_manifest(folder.manifest)
    topic = next(iter(manifest.topics))
    return {
        "run_id": run.name,
        "kafka": manifest.kafka_version,
        "mode": manifest.mode,
        "verdict": verdict["verdict"],
        "sentence": verdict["sentence"],
        "partition": f"{topic}-0",
        "moments": _moments(folder, (topic, 0)),
        "broken": _broken(folder),
        "anomalies": _anomalies(folder),
        "sends": _sends(folder),
        "readers": _readers(folder),
    }


_TOLD = {"step", "injected", "healed", "condition_met", "wait_timed_out", "precondition"}
_LOOKS = ("wait", "require")  # steps that add nothing to the next event
_OLD_NS = 500_000_000  # the broker of an older sample does not answer


def _moments(folder: RunFolder, partition: tuple[str, int]) -> list[Json]:
    """Return actions and observations, with each replica's state before them."""
    events = list(read_events(folder.events))
    start_ns = next(event.t_ns for event in events if event.kind == "phase_started")
    samples = _samples(folder, partition)
    return [
        {
            "s": round((event.t_ns - start_ns) / 1e9, 1),
            "what": _words(event),
            "replicas": {broker: _stood(own, event.t_ns) for broker, own in samples.items()},
        }
        for event in events
        if event.kind in _TOLD and event.phase and not (event.kind == "step" and event.step in _LOOKS)
    ]


def _words(event: Event) -> str:
    told = event.detail
    of = f"{event.step} of {event.target}"
    words = {
        "step": _step(event),
        "injected": f"{of} took effect" if told.get("effect_verified") else f"{of} did not take effect",
        "healed": f"{of} is over" if told.get("recovery_verified") else f"{of} was not seen to end",
        "condition_met": f"{told.get('condition')}: met after {told.get('waited_ms')} ms",
        "wait_timed_out": f"{told.get('condition')}: not met in time",
        "precondition": _precondition(told),
    }
    return words[event.kind]


def _precondition(told: Mapping[str, Any]) -> str:
    seen = str(told.get("why"))
    return f"precondition {seen}" if told.get("met") else f"precondition {told.get('condition')} {seen}"


def _step(event: Event) -> str:
    """Describe a step by its non-default settings; a ``write``'s end by its acknowledged records."""
    if event.step == "written":
        return f"written: {event.detail['acked']} of {event.detail['sent']} acknowledged ({event.target})"
    fields = STEPS[event.step].model_fields if event.step in STEPS else {}
    usual = {field.alias or name: field.default for name, field in fields.items()}
    told = {name: value for name, value in event.detail.items() if name not in usual or value != usual[name]}
    return f"{event.step}: {in_words(replace(event, detail=told))}"


def _samples(folder: RunFolder, partition: tuple[str, int]) -> dict[int, list[Json]]:
    names = ["broker_id", "topic", "partition", "received_ns", "leader_epoch", "high_watermark", "log_end_offset"]
    table = pq.read_table(folder.table("replicas"), columns=names).sort_by("received_ns")
    found: dict[int, list[Json]] = {}
    for row in table.to_pylist():
        if (row["topic"], row["partition"]) == partition and row["log_end_offset"] is not None:
            found.setdefault(row["broker_id"], []).append(row)
    return dict(sorted(found.items()))


def _stood(samples: Sequence[Json], t_ns: int) -> str:
    at = bisect(samples, t_ns, key=lambda row: int(row["received_ns"]))
    if not at or t_ns - samples[at - 1]["received_ns"] > _OLD_NS:
        return "silent"
    row = samples[at - 1]
    return f"{row['high_watermark']}/{row['log_end_offset']} e{row['leader_epoch']}"


def _broken(folder: RunFolder) -> list[Json]:
    rows = pq.read_table(folder.judged("invariants")).to_pylist()
    names = ("invariant", "title", "checked", "violations", "reason")
    return [{name: row[name] for name in names} for row in rows if row["violations"]]


def _anomalies(folder: RunFolder) -> list[Json]:
    first: dict[tuple[str, bool | None], str] = {}
    for row in pq.read_table(folder.judged("anomalies")).to_pylist():
        first.setdefault((row["anomaly"], row["allowed"]), row["explanation"])
    counted: Counter[tuple[str, bool | None]] = Counter()
    for row in pq.read_table(folder.judged("anomaly_counts")).to_pylist():
        counted[row["anomaly"], row["allowed"]] += row["cases"]
    return [
        {"anomaly": anomaly, "permitted": permitted, "count": count, "first": first[anomaly, permitted]}
        for (anomaly, permitted), count in counted.items()
    ]


def _sends(folder: RunFolder) -> list[Json]:
    sends = pq.read_table(folder.table("sends"), columns=["producer_id", "seq", "acks", "outcome", "error"]).to_pylist()
    polls = pq.read_table(folder.table("polls"), columns=["producer_id", "seq", "pass"]).to_pylist()
    read = {(row["producer_id"], row["seq"]) for row in polls if row["pass"] == "final"}
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in sends:
        client = (row["producer_id"], row["acks"])
        counts[*client, "sent"] += 1
        counts[*client, row["outcome"]] += 1
        counts[*client, "gone"] += row["outcome"] == "ok" and (row["producer_id"], row["seq"]) not in read
    names = ("sent", "ok", "info", "fail", "gone")
    errors = {client: {row["error"] for row in sends if row["producer_id"] == client} - {None} for client, *_ in counts}
    return [
        {"client": client, "acks": acks, **{name: counts[client, acks, name] for name in names}}
        | ({"errors": sorted(errors[client])} if errors[client] else {})
        for client, acks in sorted({key[:2] for key in counts})
    ]


def _readers(folder: RunFolder) -> list[Json]:
    """Return what each ``read`` step got, and its longest wait."""
    polls = pq.read_table(folder.table("polls"), columns=["consumer_id", "offset", "received_ns"]).to_pylist()
    found = []
    for told in (json.loads(file.read_text()) for file in sorted(folder.clients.glob("read-*.json"))):
        own = [poll for poll in polls if poll["consumer_id"] == told["client_id"]]
        times = [told["started_ns"], *(poll["received_ns"] for poll in own), told["ended_ns"]]
        wait_ns, at = max((later - earlier, at) for at, (earlier, later) in enumerate(pairwise(times)))
        offset = own[at]["offset"] if at < len(own) else told["position"]
        about = {name: told[name] for name in ("client_id", "replica", "answers", "rows")}
        found.append({**about, "awaited": offset, "waited_s": round(wait_ns / 1e9, 1)})
    return found


def render_timeline(bug: Bug, kept: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return a bug's page: report, the run that found it, and a clean run."""
    why = load_scenario(bug.scenario, bug.bad_changes).why
    lines = [
        f"# {bug.issue}: {bug.title}",
        "",
        f"Scenario `{bug.scenario}`: {why}",
        *_report(bug, rows),
        "",
        "A recipe written for a [known bug](../known-bugs.md); all figures are from the tables of the runs named here.",
        "Brokers A, B, C are 1, 2, 3; `write-5/0` is the first record of the fifth `write`. `20/520 e1` is a replica",
        "just before, as its own broker reports it: high watermark 20, log end offset 520, leader epoch 1. An empty",
        "cell: as above; silent: no answer within half a second. Lines begin with the second. Lost records were",
        "acknowledged, and not returned by the final drain.",
    ]
    for outcome, words in (("found", "With the bug"), ("clean", "Without it")):
        if outcome in kept:
            lines += ["", f"## {words}: Kafka {kept[outcome]['version']}", ""]
            lines += _told(kept[outcome], f"{bug.name}.json")
    return "\n".join(lines) + "\n"


def _told(told: Mapping[str, Any], file: str) -> list[str]:
    why = "." if told["verdict"] == "fail" else f": {told['sentence']}"
    withdrawn = f" It was withdrawn: {told['withdrawn']}." if "withdrawn" in told else ""
    return [
        f"Run `{told['run_id']}`, {told['mode']}. Verdict {told['verdict']}{why}{withdrawn}",
        "",
        f"### Replica by replica: {told['partition']}",
        "",
        *_replicas(told["moments"]),
        "",
        "### What became of the records",
        "",
        *_fates(told["sends"]),
        *_served(told.get("readers", [])),
        "",
        "### What the judge found",
        "",
        *(_findings(told, file) or ["Nothing."]),
    ]


def _served(readers: Sequence[Json]) -> list[str]:
    if not readers:
        return []
    return [
        *("", "### What readers got", ""),
        "| reader | served by | answers | records | longest wait at offset | for seconds |",
        "|---|---|---:|---:|---:|---:|",
        *(f"| {' | '.join(map(str, each.values()))} |" for each in readers),
    ]


_FATES = {"sent": "sent", "ok": "acknowledged", "info": "unknown", "fail": "refused", "gone": "gone"}


def _fates(sends: Sequence[Json]) -> list[str]:
    """Unknown and rejected sends have columns only if any occurred."""
    shown = {
        name: words for name, words in _FATES.items() if name not in ("info", "fail") or any(r[name] for r in sends)
    }
    errors = any("errors" in row for row in sends)
    return [
        f"| client | acks | {' | '.join([*shown.values(), *['errors'] * errors])} |",
        "|---|---|" + "---:|" * len(shown) + "---|" * errors,
        *(f"| {' | '.join([*_fate(row, shown), *[', '.join(row.get('errors', []))] * errors])} |" for row in sends),
    ]


def _fate(row: Json, shown: Mapping[str, str]) -> list[str]:
    return [str(row[name]) for name in ("client", "acks", *shown)]


def _replicas(moments: Sequence[Json]) -> list[str]:
    brokers = list(moments[0]["replicas"])
    lines = [
        f"| done and seen | {' | '.join(f'broker {number}' for number in brokers)} |",
        "|---" * len(brokers) + "|---|",
    ]
    above: dict[str, str] = {}
    for state, same in groupby(moments, key=lambda moment: moment["replicas"]):
        what = "<br>".join(f"{moment['s']:.1f} {_cell(moment['what'])}" for moment in same)
        cells = ["" if above.get(broker) == stood else stood for broker, stood in state.items()]
        lines.append(f"| {' | '.join([what, *cells])} |")
        above = state
    return lines


def _findings(told: Mapping[str, Any], file: str) -> list[str]:
    """Return the first violation of each invariant and case of each anomaly; count permitted ones."""
    lines = [
        f"- **{row['invariant']}** ({row['title']}): {row['violations']:,} of {row['checked']:,} checks; "
        f"{_cell(row['reason'])}."
        for row in told["broken"]
    ]
    shown = [row for row in told["anomalies"] if not row["permitted"] or row["anomaly"] == "behaviour_change"]
    lines += [f"- {row['count']:,} x `{row['anomaly']}`; the first: {_cell(row['first'])}" for row in shown]
    rest = [f"{row['count']:,} x `{row['anomaly']}`" for row in told["anomalies"] if row not in shown]
    return lines + [f"- Permitted here (first cases: `{file}`): {', '.join(rest)}"] * bool(rest)


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").rstrip(".")
