"""Plan and evaluate a nightly run (docs/nightly.md). Only reruns confirm a slowdown: screening gives false alarms."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from statistics import median
from typing import Any, Unpack

from campaigns.campaign import Campaign, Item, When
from campaigns.compare.findings import BY_DESIGN
from campaigns.nightly import KIND, words
from campaigns.nightly.nightly_run import NightlyRun, Row, Watched, rounded_percent
from campaigns.nightly.settings import Settings, better, check
from campaigns.nightly.subject import BUILD, CLUSTER, LINK, SUBJECT, Staged, name_in, stage, staged_in
from campaigns.statistics.changes import MIN_NIGHTLY_RUNS
from clusters.attached.named import cluster_in
from clusters.scenario.scenario import load_scenario
from history.exit_codes import Verdict
from history.kafka_versions import affected
from history.metrics import metric_of
from history.results import nightly as results
from judge.checks.known_bugs import BY_ISSUE, explained

SHOWN_NIGHTLY_RUNS = 90
NO_RUN = "There is no run: the harness broke, or the nightly run was interrupted."


# --- the plan --------------------------------------------------------------------------------------


def plan(settings: Mapping[str, Any], **when: Unpack[When]) -> Campaign:
    """Plan correctness, the control, benchmarks in random order, the control again; raise BadInput."""
    checked = check(settings)
    drawn = random.Random(when["seed"])
    staged = stage(checked.subject) if checked.subject else None
    matrix = _matrix(checked, drawn, staged, role="matrix")
    correctness = _matrix(checked, drawn, staged, role="correctness")
    first, last = (
        _item(checked, checked.control.scenario, checked.control.kafka, f"control-{n}", role="control") for n in (1, 2)
    )
    items = [*correctness, *([first, *matrix, last] if matrix else [])]
    return Campaign(kind=KIND.name, settings=checked.model_dump(mode="json"), items=items, **when)


def _matrix(settings: Settings, drawn: random.Random, staged: Staged | None, *, role: str) -> list[Item]:
    """With a subject, versions alternate in order, so that drift of the host favours none."""
    of_role = settings.correctness if role == "correctness" else settings
    versions = [*([staged.kafka] if staged else []), *settings.versions]
    items: list[Item] = []
    for repetition in range(1, of_role.repetitions + 1):
        order = drawn.sample(of_role.scenarios, len(of_role.scenarios))
        turn = versions if repetition % 2 else versions[::-1]
        cells = [(scenario, kafka) for scenario in order for kafka in turn]
        if staged is None:
            drawn.shuffle(cells)
        items += [_item(settings, *cell, str(repetition), staged, role=role, pair=str(repetition)) for cell in cells]
    return items


def follow_up(campaign: Campaign, rows: Iterable[Row], decisions: Iterable[results.Decision] = ()) -> list[Item]:
    """Plan reruns of candidates with a pinned release; its own rows alone decide, so it can be resumed.

    A cluster of others without another one runs again alone.
    """
    return _follow_up(NightlyRun(campaign, rows, decisions))


def _follow_up(nightly_run: NightlyRun) -> list[Item]:
    settings = nightly_run.settings
    drawn = random.Random(nightly_run.campaign.seed)
    items = []
    staged = staged_in(nightly_run.campaign.items)
    for scenario, kafka in list(nightly_run.candidates)[: settings.confirm.candidates]:
        releases = [name for name in settings.baseline.releases if name != kafka]
        alike = (name for name in releases if (name in settings.clusters) == (kafka in settings.clusters))
        release = next(alike, None)
        if release is None and kafka not in settings.clusters:
            continue
        order = drawn.choice([("candidate", "baseline"), ("baseline", "candidate")]) if release else ("candidate",)
        for pair in range(1, settings.confirm.pairs + 1):
            for place, role in enumerate(order, 1):
                labels = {"pair": str(pair), "order": str(place), "candidate": f"{scenario} on {_shown(kafka, staged)}"}
                version = kafka if role == "candidate" else str(release)
                ending = f"{role}-{pair}-of-{_shown(kafka, staged)}"
                items.append(_item(settings, scenario, version, ending, staged, role=role, **labels))
            order = order[::-1]  # ABBA: drift of the host favours neither
    return items


def _shown(kafka: str, staged: Staged | None) -> str:
    return staged.labels[SUBJECT] if staged and kafka == staged.kafka else kafka


def _item(
    settings: Settings, scenario: str, kafka: str, ending: str, staged: Staged | None = None, **labels: str
) -> Item:
    changes = settings.changes
    if labels["role"] == "correctness":
        changes, ending = settings.correctness.changes, f"correctness-{ending}"
    load_scenario(scenario, changes)
    if staged and kafka == staged.kafka:
        labels |= staged.labels
    name = re.sub(r"[^a-z0-9._]+", "-", f"{scenario}-{_shown(kafka, staged)}-{ending}".lower()).strip("-._")
    at_once = labels["role"] == "correctness"
    if cluster := cluster_in(settings.clusters.get(kafka, "")):
        labels, kafka, at_once = labels | {CLUSTER: kafka}, "", False  # a fault of one would meet the others
    return Item(
        name=name, scenario=scenario, kafka=kafka, cluster=cluster, changes=changes, labels=labels, at_once=at_once
    )


# --- the result ------------------------------------------------------------------------------------


def result(
    campaign: Campaign, rows: Iterable[Row], decisions: Iterable[results.Decision] = ()
) -> results.NightlyResult:
    """Compute the result, with the page's sentences."""
    nightly_run = NightlyRun(campaign, rows, decisions)
    settings = nightly_run.settings
    runs = _runs(nightly_run)
    failures = _failures(nightly_run, runs)
    series = [_series(nightly_run, watched) for watched in nightly_run.watched]
    alerts, suppressed = _alerts(nightly_run, failures, series)
    staged = staged_in(campaign.items)
    concluded = results.NightlyResult(
        **campaign.named,
        state="unknown",
        sentence="",
        settings=campaign.settings,
        versions=[*([settings.subject.name] if settings.subject else []), *settings.versions],
        scenarios=settings.every_scenario,
        repetitions=settings.repetitions,
        control_of=f"{settings.control.scenario} on {settings.control.kafka}",
        max_candidates=settings.confirm.candidates,
        max_alerts=settings.alerts,
        hosts=sorted({row["host"] for row in nightly_run.current}),
        runs=runs,
        cells=_cells(runs),
        failures=failures,
        series=series,
        control=_control(nightly_run, series),
        alerts=alerts,
        suppressed=suppressed,
        waivers=_waivers(nightly_run, failures),
        notes=_notes(nightly_run),
        nightly_runs=_nightly_runs(nightly_run),
        subject=staged.labels[BUILD] if staged else "",
        subject_link=staged.labels[LINK] if staged else "",
        beside=nightly_run.beside,
    )
    return concluded.model_copy(update={"sentence": words.sentence(concluded), "state": words.state(concluded)})


# --- runs and correctness ---------------------------------------------------------------------------


def _runs(nightly_run: NightlyRun) -> list[results.NightlyItem]:
    recorded = {row["labels"]["item"]: row for row in nightly_run.current}
    return [_run(item, recorded.get(item.name)) for item in [*nightly_run.campaign.items, *_follow_up(nightly_run)]]


def _run(item: Item, row: Row | None) -> results.NightlyItem:
    missing: dict[str, Any] = {"run_id": None, "verdict": "missing", "sentence": NO_RUN}
    unseen: dict[str, Any] = {"anomalies": {}, "broken": [], "known_bugs": {}}
    kafka = name_in(item.labels, item.kafka)
    seen = row or {"scenario": item.scenario, "kafka_version": kafka, **missing, **unseen}
    counts = {name: count for name, count in seen["anomalies"].items() if count and name != BY_DESIGN}
    return results.NightlyItem(
        item=item.name,
        role=item.labels["role"],
        scenario=seen["scenario"],
        kafka=seen["kafka_version"],
        run_id=seen["run_id"],
        verdict=seen["verdict"],
        sentence=seen["sentence"],
        shown={**counts, **dict.fromkeys(seen["broken"], 1)},
        known_bugs=sorted(set((seen["known_bugs"] or {}).values())),
    )


def _by_cell(runs: Iterable[results.NightlyItem]) -> list[tuple[tuple[str, str], list[results.NightlyItem]]]:
    cells: dict[tuple[str, str], list[results.NightlyItem]] = defaultdict(list)
    for run in runs:
        cells[run.scenario, run.kafka].append(run)
    return sorted(cells.items())


def _cells(runs: list[results.NightlyItem]) -> list[results.Cell]:
    order: tuple[results.CellVerdict, ...] = ("fail", "missing", "unknown", "pass")
    worst_first = sorted(runs, key=lambda run: order.index(run.verdict))
    return [
        results.Cell(
            scenario=scenario,
            kafka=kafka,
            verdict=own[0].verdict,
            verdicts=dict(Counter(run.verdict for run in own)),
            runs=[run.run_id for run in own if run.run_id],
            sentences=sorted({run.sentence for run in own if run.verdict != "pass"}),
        )
        for (scenario, kafka), own in _by_cell(worst_first)
    ]


def _failures(nightly_run: NightlyRun, runs: list[results.NightlyItem]) -> list[results.Failure]:
    cells = _by_cell(run for run in runs if run.run_id)
    failed = [(cell, own) for cell, own in cells if any(run.verdict == "fail" for run in own)]
    return [_failure(nightly_run, *cell, own) for cell, own in failed]


def _failure(nightly_run: NightlyRun, scenario: str, kafka: str, runs: list[results.NightlyItem]) -> results.Failure:
    failed = [run for run in runs if run.verdict == "fail"]
    found = sorted({name for run in failed for name in run.shown})
    waiver = next((entry for entry in nightly_run.live if entry.covers_failure(scenario, kafka, found)), None)
    explained_as = {name for run in failed for name in explained(run.shown, run.known_bugs)}
    first = _first_seen(nightly_run, scenario, kafka, set(found))
    sentence = failed[0].sentence
    return results.Failure(
        scenario=scenario,
        kafka=kafka,
        found=found,
        runs=[run.run_id for run in failed if run.run_id],
        of=len(runs),
        sentence=sentence,
        text=f"{scenario} on {kafka} failed in {len(failed)} of {len(runs)} runs: {sentence}",
        status=_status(explained_as, first, _excused(nightly_run.settings, kafka), waived=waiver is not None),
        first_nightly_run=first or nightly_run.name,
        waiver=waiver,
    )


def _excused(settings: Settings, kafka: str) -> set[str]:
    """Return bugs that need no alert: the subject's only if the release has them."""
    if settings.subject is None or kafka != settings.subject.name:
        return set(BY_ISSUE)
    return {issue for issue in BY_ISSUE if affected(issue, settings.baseline.releases[0])}


def _status(
    explained_as: Collection[str], first: str | None, excused: Collection[str], *, waived: bool
) -> results.FailureStatus:
    if waived:
        return "waived"
    if explained_as and set(explained_as).issubset(excused):  # an unexplained violation is new
        return "known bug"
    return "known" if first else "new"


def _first_seen(nightly_run: NightlyRun, scenario: str, kafka: str, found: set[str]) -> str | None:
    for row in sorted(nightly_run.rows, key=lambda row: str(row["started_at"])):
        same = (row["scenario"], row["kafka_version"], row["verdict"]) == (scenario, kafka, "fail")
        shown = {name for name, count in row["anomalies"].items() if count} | set(row["broken"])
        if same and row["labels"]["campaign"] != nightly_run.name and found <= shown:
            return str(row["labels"]["campaign"])
    return None


# --- performance --------------------------------------------------------------------------------------


def _series(nightly_run: NightlyRun, watched: Watched) -> results.Series:
    key, metric = watched.key, metric_of(watched.key.metric)
    state, why, reruns = _settle(nightly_run, watched)
    return results.Series(
        role=watched.role,
        **key._asdict(),
        name=f"{metric.words}, {key.scenario} on {key.kafka_version}{words.in_phase(key.phase)}",
        words=metric.words,
        unit=metric.unit,
        better=better(key.metric),
        margin_percent=round(100 * nightly_run.margin(key), 3),
        state=state,
        why=why,
        needed=MIN_NIGHTLY_RUNS + 1,
        visible_percent=rounded_percent(watched.visible),
        change=_change(nightly_run, watched),
        confirmation=reruns,
        margins=round(nightly_run.margins(watched), 3),
        points=[_point(nightly_run, point) for point in watched.points[-SHOWN_NIGHTLY_RUNS:]],
        runs=sorted({row["run_id"] for row in nightly_run.current if _is_of(row, watched)}),
    )


def _is_of(row: Row, watched: Watched) -> bool:
    names = ("scenario", "scenario_digest", "kafka_version")
    return row["labels"]["role"] == watched.role and all(row[name] == getattr(watched.key, name) for name in names)


def _settle(nightly_run: NightlyRun, watched: Watched) -> tuple[results.SeriesState, str, results.Confirmation | None]:
    if watched.state != "candidate":
        return watched.state, watched.why, None
    reruns = nightly_run.decided(watched.key, nightly_run.name) or nightly_run.settled(watched)
    if reruns is None:
        return "candidate", f"{watched.why}; it was not rerun, so nothing is known yet", None
    at = "in this nightly run" if reruns.nightly_run == nightly_run.name else f"on {reruns.nightly_run}"
    size = "" if reruns.percent is None else f" {_interval(reruns)};"
    against = reruns.release or "its nightly runs before the change"
    return reruns.verdict, f"{watched.why}; reruns {at} against {against}:{size} {reruns.why}", reruns


def _interval(reruns: results.Confirmation) -> str:
    return f"{reruns.percent:+.1f} % ({reruns.low_percent:+.1f} to {reruns.high_percent:+.1f} %)"


def _change(nightly_run: NightlyRun, watched: Watched) -> results.Change | None:
    change = watched.change
    if change is None:
        return None
    return results.Change(
        since=watched.after[0],
        since_at=nightly_run.began[watched.after[0]].isoformat(),
        nightly_runs_before=len(watched.before),
        nightly_runs_after=len(watched.after),
        before=_rounded(change.before),
        after=_rounded(change.after),
        percent=rounded_percent(change.log),
        low_percent=rounded_percent(change.low),
        high_percent=rounded_percent(change.high),
        p=change.p,
    )


def _point(nightly_run: NightlyRun, point: results.Point) -> results.Point:
    """All series of a nightly run share its start time."""
    rounded = {name: _rounded(getattr(point, name)) for name in ("value", "low", "high")}
    return point.model_copy(update={**rounded, "at": nightly_run.began[point.nightly_run].isoformat()})


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _control(nightly_run: NightlyRun, series: list[results.Series]) -> results.Control:
    """Decide whether the host changed: steady, moved, no basis, or missing."""
    control = nightly_run.settings.control
    name = f"The control ({control.scenario} on {control.kafka})"
    own = [each for each in series if each.role == "control"]
    states = Counter(each.state for each in own)
    moved = [each.name for each in own if each.state == "moved"]
    if not own:
        missing = results.Control(
            state="missing", sentence=f"{name} did not run, so a change of the host cannot be detected."
        )
        unplanned = results.Control(state="no basis", sentence=f"{words.NO_BENCHMARKS.capitalize()}.")
        return missing if nightly_run.settings.scenarios else unplanned
    if moved:
        return results.Control(state="moved", sentence=f"{name} changed, so the host changed: {'; '.join(moved)}.")
    if with_it := words.hosts(series):
        sentence = f"{name} changed together with {words.named(with_it)}, so the host is the likely cause."
        return results.Control(state="moved", sentence=sentence)
    if states["steady"]:
        return results.Control(
            state="steady", sentence=f"{name} did not change in {states['steady']} of {len(own)} series."
        )
    if states["missing data"]:
        why = next(each.why for each in own if each.state == "missing data")
        return results.Control(state="missing", sentence=f"{name} has no figure in this nightly run: {why}.")
    return results.Control(state="no basis", sentence=f"{name} has too few nightly runs to compare: {own[0].why}.")


# --- alerts -------------------------------------------------------------------------------------------


def _alerts(
    nightly_run: NightlyRun, failures: list[results.Failure], series: list[results.Series]
) -> tuple[list[results.Alert], list[results.Alert]]:
    """Correctness failures alert unless waived or explained; slowdowns once per scenario and version, within budget."""
    raised = [
        results.Alert(kind="correctness", status=failure.status, text=failure.text, runs=failure.runs)
        for failure in failures
        if failure.status in ("new", "known")
    ]
    slow: dict[tuple[str, str], list[results.Series]] = defaultdict(list)
    for each in series:
        if each.state == "confirmed":
            slow[each.scenario, each.kafka_version].append(each)
    slowdowns = sorted(map(_slowdown, slow.values()), key=lambda alert: (alert.status != "new", -(alert.margins or 0)))
    budget = nightly_run.settings.alerts
    why = f"the limit of {budget} performance alerts for a nightly run is reached"
    return raised + slowdowns[:budget], [each.model_copy(update={"why": why}) for each in slowdowns[budget:]]


def _slowdown(series: list[results.Series]) -> results.Alert:
    series = sorted(series, key=lambda each: -each.margins)
    reruns = [each.confirmation for each in series if each.confirmation]
    worst, more = series[0], len(series) - 1
    beside = f", and {more} more of its series" if more else ""
    since = worst.change.since if worst.change else ""
    return results.Alert(
        kind="performance",
        status="new" if any(each.is_current for each in reruns) else "known",
        text=f"{worst.name}: {_interval(reruns[0])} since {since}{_build_of(worst, since)}{beside}",
        runs=sorted({run for each in reruns for run in each.runs}),
        margins=worst.margins,
    )


def _build_of(series: results.Series, nightly_run: str) -> str:
    build = next((point.build for point in series.points if point.nightly_run == nightly_run), "")
    return f", {build}" if build else ""


def _waivers(nightly_run: NightlyRun, failures: list[results.Failure]) -> list[results.WaiverUse]:
    covered = [watched.waiver for watched in nightly_run.watched if watched.waiver]
    failed = [failure.waiver for failure in failures]
    return [
        results.WaiverUse(
            **entry.model_dump(),
            expired=entry not in nightly_run.live,
            used=entry in covered or entry in failed,
        )
        for entry in nightly_run.settings.waivers
    ]


# --- earlier nightly runs ------------------------------------------------------------------------------


def _others(nightly_run: NightlyRun) -> Iterator[str]:
    """Say what others wrote to each of their clusters, in the median phase."""
    for name in [name for name in nightly_run.settings.versions if name in nightly_run.settings.clusters]:
        rows = [row for row in nightly_run.current if row["kafka_version"] == name and row["metric"] == "others_per_s"]
        values = [row["value"] for row in rows if row["value"] is not None]
        load = f"{median(values):,.0f} records/s to {name} (median of the phases)" if values else f"to {name}, unknown"
        yield f"Others wrote {load}; their load is part of each figure."


def _notes(nightly_run: NightlyRun) -> list[str]:
    return [*_others(nightly_run), *_changes(nightly_run)]


def _changes(nightly_run: NightlyRun) -> list[str]:
    if len(nightly_run.began) == 1:
        return []
    last = list(nightly_run.began)[-2]
    before = [row for row in nightly_run.rows if row["labels"]["campaign"] == last]
    notes = []
    if {row["host"] for row in before}.isdisjoint(row["host"] for row in nightly_run.current) and nightly_run.current:
        notes.append(f"The host is not the one of {last} (its fingerprint changed), so every series begins anew.")
    points = (point for points in (*nightly_run.control.values(), *nightly_run.matrix.values()) for point in points)
    changed = {change: None for point in points if point.nightly_run == nightly_run.name for change in point.changed}
    if changed:
        notes.append(f"Changed since the nightly run before: {', '.join(changed)}. The series go on.")
    was = {(row["scenario"], row["scenario_digest"]) for row in before}
    names = {scenario for scenario, _ in was}
    edited = names & {
        row["scenario"] for row in nightly_run.current if (row["scenario"], row["scenario_digest"]) not in was
    }
    if edited:
        notes.append(f"Changed since {last}, so that its series begin anew: {', '.join(sorted(edited))}.")
    return notes


def _nightly_runs(nightly_run: NightlyRun) -> list[results.NightlyVerdicts]:
    verdicts: dict[str, dict[str, Verdict]] = defaultdict(dict)
    for row in nightly_run.rows:
        verdicts[row["labels"]["campaign"]][row["run_id"]] = row["verdict"]
    return [
        results.NightlyVerdicts(
            nightly_run=name, at=nightly_run.began[name].isoformat(), verdicts=dict(Counter(verdicts[name].values()))
        )
        for name in reversed(nightly_run.began)
    ][:SHOWN_NIGHTLY_RUNS]
