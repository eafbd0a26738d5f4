"""The page of a nightly run: alerts, matrix, changes, and all nightly runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from history.results import nightly as results
from history.results.nightly import Cell as MatrixCell
from reports.cells import DASH, Cell, Column, change, linked, page_of, table
from reports.nightly_plots import nightly_runs_figure, own_of
from reports.page import Block, Listing, Plot, Section, Words, of_campaign

Links = Mapping[str, str]

STATE_WORDS = {"fail": "alert", "unknown": "needs review", "pass": "no alert"}
MEANS = {
    "fail": "A guarantee was violated, or reruns confirmed that something is slower.",
    "unknown": "No alert, but part of this nightly run could not be judged.",
    "pass": "Every run was judged, no failure but known bugs and what is waived, and no series is slower than before.",
}
MARKS = {
    "pass": "pass",
    **dict.fromkeys(("fail", "confirmed", "new", "known"), "fail"),
    **dict.fromkeys(("missing", "unknown", "candidate", "inconclusive", "host", "moved", "missing data"), "unknown"),
    **dict.fromkeys(("no basis", "no figure", "waived", "known bug"), "quiet"),
}
WORDS = {
    "candidate": "candidate regression",
    "no basis": "too few nightly runs",
    "host": "host changed",
    "moved": "changed",
}
CHANGED = ("confirmed", "candidate", "inconclusive", "refuted", "host", "waived", "better", "moved")
SAID = ("regression", "improvement", "inconclusive", "equivalent")
JUDGED_ALONE = "A pass is about these runs, their faults and their load; what happens rarely may stay unseen."
NEEDED = 9  # nightly runs, if no series defines it


def render(result: results.NightlyResult, links: Links) -> str:
    """Render the page as HTML."""
    sections = [
        Section("alerts", "Alerts", list(_alerts(result, links))),
        Section("matrix", "This nightly run", list(_matrix(result, links)), "This run"),
        *([Section("subject", "The subject", list(_subject(result)), "Subject")] if result.subject else []),
        *(_measured(result, links) if result.measures else []),
        Section("waivers", "Waivers", [_waivers(result)]),
        Section("before", "Earlier nightly runs", [_nightly_runs(result, links)], "Earlier"),
        Section("runs", "Runs", [_runs(result, links)]),
        Section("limits", "Limits", [_limits(result)]),
    ]
    facts, word = _facts(result), STATE_WORDS[result.state]
    return of_campaign(
        "Nightly run", result, sections, kind="one nightly run", means=MEANS, facts=facts, state_word=word
    )


def _measured(result: results.NightlyResult, links: Links) -> Iterator[Section]:
    yield Section("changes", "What changed", list(_changes(result, links)), "Changes")
    yield Section("control", "The control", list(_control(result)), "Control")
    yield Section("history", "Every nightly run so far", list(_figures(result)), "History")
    yield Section("series", "Every series", [_series(result)], "Series")


def _facts(result: results.NightlyResult) -> list[tuple[str, str]]:
    watched = [each for each in result.series if each.role == "matrix"]
    compared = sum(each.state not in ("no basis", "no figure", "missing data") for each in watched)
    measured = [
        ("Repetitions", str(result.repetitions)),
        ("Control", result.control_of),
        ("Series", f"{compared} of {len(watched)} have enough nightly runs to compare"),
    ]
    return [
        ("Nightly run", result.campaign_id),
        ("Planned", _when(result.created_at)),
        ("Kafka", ", ".join(result.versions)),
        *([("Subject", result.subject)] if result.subject else []),
        ("Scenarios", ", ".join(result.scenarios)),
        *(measured if result.measures else []),
        ("Host", ", ".join(result.hosts) or "no run"),
    ]


def _when(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M}"


def _state(state: str) -> Cell:
    return Cell(WORDS.get(state, state), MARKS.get(state, ""))


def _run(runs: Sequence[str], links: Links) -> Cell:
    found = page_of(runs, links)
    return Cell("page removed") if runs and not found.link else found


# --- alerts -------------------------------------------------------------------------------------------


def _alerts(result: results.NightlyResult, links: Links) -> Iterator[Block]:
    if not result.alerts:
        yield Words("There are no alerts.", "lead")
    columns: list[Column[results.Alert]] = [
        Column("about", lambda alert: alert.kind),
        Column("status", lambda alert: _state(alert.status)),
        Column("what", lambda alert: alert.text, "text"),
        Column("alert", lambda alert: f"suppressed: {alert.why}" if alert.why else "raised"),
        Column("a run", lambda alert: _run(alert.runs, links), "name"),
    ]
    if alerts := [*result.alerts, *result.suppressed]:
        yield Listing("alerts", table("Alerts", columns, alerts))
    if result.notes:
        yield Words(result.notes, "note")


# --- this nightly run ---------------------------------------------------------------------------------


def _matrix(result: results.NightlyResult, links: Links) -> Iterator[Block]:
    cells = {(cell.scenario, cell.kafka): cell for cell in result.cells}

    def of_version(kafka: str) -> Column[str]:
        return Column(kafka, lambda scenario: _verdicts(cells.get((scenario, kafka)), links))

    versions = list(dict.fromkeys(cell.kafka for cell in result.cells))
    columns: list[Column[str]] = [Column("scenario", lambda name: name, "name"), *map(of_version, versions)]
    scenarios = dict.fromkeys(cell.scenario for cell in result.cells)
    notes = ["Control runs and reruns count with their scenario and version. A link leads to one run of its cell."]
    yield Listing("matrix", table("Verdicts of the runs", columns, scenarios, notes))
    if result.failures:
        of_failures: list[Column[results.Failure]] = [
            Column("scenario", lambda failure: failure.scenario, "name"),
            Column("Kafka", lambda failure: failure.kafka),
            Column("status", _status),
            Column("runs", lambda failure: f"{len(failure.runs)} of {failure.of}", "name"),
            Column("what was found", lambda failure: ", ".join(failure.found)),
            Column("result", lambda failure: failure.sentence, "text"),
            Column("first seen", lambda failure: failure.first_nightly_run, "name"),
            Column("a run", lambda failure: _run(failure.runs, links), "name"),
        ]
        yield Listing("failures", table("Correctness failures", of_failures, result.failures))


def _verdicts(cell: MatrixCell | None, links: Links) -> Cell:
    if cell is None:
        return Cell("not planned", "quiet")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(cell.verdicts.items()))
    run = next((run for run in cell.runs if run in links), "")
    return Cell(counts, MARKS[cell.verdict], links.get(run, ""))


def _status(failure: results.Failure) -> Cell:
    waiver = failure.waiver
    return Cell(f"waived by {waiver.who} until {waiver.until}", "quiet") if waiver else _state(failure.status)


# --- the subject ----------------------------------------------------------------------------------------


def _subject(result: results.NightlyResult) -> Iterator[Block]:
    yield Words(f"Judged is {result.subject}.", "lead")
    if result.subject_link:
        yield Words(f"Its commit: {result.subject_link}")
    if not result.beside:
        yield Words("No figure of it can be compared with a release: too few pairs of runs passed.", "absent")
        return
    columns: list[Column[results.Beside]] = [
        Column("scenario", lambda each: each.scenario, "name"),
        Column("metric", lambda each: each.words, "text"),
        Column("phase", lambda each: each.phase or "whole run"),
        Column("against", lambda each: each.release),
        Column("pairs", lambda each: each.pairs, "number"),
        Column("change", _with_interval, "name"),
        Column("verdict", lambda each: Cell(each.verdict, "differs" if each.verdict == "regression" else "")),
    ]
    notes = [
        "Of this nightly run alone: subject and release ran in turn, and the intervals are at 95 % over their pairs. "
        "Differences by design recur in every nightly run; alerts are about changes.",
        f"A verdict takes into account that {len(result.beside)} figures are compared at once: an inconclusive one may "
        "have an interval without zero. More repetitions narrow the intervals.",
    ]
    worst_first = sorted(result.beside, key=lambda each: SAID.index(each.verdict))
    yield Listing("beside", table("The subject and a pinned release", columns, worst_first, notes))


# --- what changed ---------------------------------------------------------------------------------------


def _changes(result: results.NightlyResult, links: Links) -> Iterator[Block]:
    without_data = [each for each in result.series if each.state == "missing data"]
    if without_data:
        yield Words([f"{each.name} has no data: {each.why}." for each in without_data])
    changed = [
        (each, each.change)
        for each in result.series
        if each.state in CHANGED and each.role == "matrix" and each.change is not None
    ]
    if not changed:
        yield Words(_nothing_changed(result), "lead")
        return
    changed.sort(key=lambda row: (CHANGED.index(row[0].state), -row[0].margins))
    columns: list[Column[tuple[results.Series, results.Change]]] = [
        Column("series", lambda row: row[0].name, "text"),
        Column("state", lambda row: _state(row[0].state)),
        Column("since", lambda row: row[1].since, "name"),
        Column("level before and after", lambda row: _levels(*row), "name"),
        Column("change", lambda row: _with_interval(row[1]), "name"),
        Column("change in reruns", lambda row: _in_reruns(row[0].confirmation)),
        Column("a rerun", lambda row: _run(row[0].confirmation.runs if row[0].confirmation else [], links), "name"),
    ]
    notes = [
        "Levels are geometric means over nightly runs; intervals are at 95 %, of the screen's t test and of the reruns "
        "against a pinned release. The screen selects large changes and so overstates them; reruns do not."
    ]
    yield Listing("changes", table("Series that changed beyond their margin", columns, changed, notes))
    yield Words([f"{each.name}: {each.why}." for each, _ in changed])


def _nothing_changed(result: results.NightlyResult) -> str:
    states = Counter(each.state for each in result.series if each.role == "matrix")
    if not states["steady"] and states["missing data"]:
        return "Nothing was compared: no series has data in this nightly run."
    if not states["steady"]:
        return f"Nothing was compared: no series has the {_needed(result)} nightly runs on one host that it needs."
    return f"None of the {states['steady']} series with enough nightly runs changed by more than its margin."


def _needed(result: results.NightlyResult) -> int:
    return max((each.needed for each in result.series), default=NEEDED)


def _levels(series: results.Series, moved: results.Change) -> str:
    return f"{moved.before:,.4g} → {moved.after:,.4g} {series.unit}".rstrip()


def _in_reruns(reruns: results.Confirmation | None) -> str:
    return f"{_with_interval(reruns)}, {reruns.pairs} pairs" if reruns else DASH


def _with_interval(moved: results.Change | results.Confirmation | results.Beside) -> str:
    if moved.percent is None:
        return DASH
    if moved.low_percent is None or moved.high_percent is None:
        return change(moved.percent)
    return f"{change(moved.percent)} ({change(moved.low_percent)} to {change(moved.high_percent)})"


# --- all nightly runs -----------------------------------------------------------------------------------


def _control(result: results.NightlyResult) -> Iterator[Block]:
    yield Words(result.control.sentence, "lead")
    yield Words(
        "The control is the same scenario on the same release in every nightly run. If it changes, the cause is the "
        "host or this test harness, not Kafka."
    )
    own = [each for each in result.series if each.role == "control" and each.points]
    if own:
        yield _plot("control", "The control", own)


def _figures(result: results.NightlyResult) -> Iterator[Block]:
    by_metric = own_of(result.series)
    if not by_metric:
        yield Words("There are no figures yet.", "absent")
    for metric, own in by_metric.items():
        yield _plot(f"history-{metric}", own[0].words, own)


def _plot(name: str, title: str, own: Sequence[results.Series]) -> Plot:
    columns: list[Column[tuple[results.Series, results.Point]]] = [
        Column("series", lambda row: row[0].name, "text"),
        Column("nightly run", lambda row: row[1].nightly_run, "name"),
        Column("began", lambda row: _when(row[1].at), "name"),
        Column(f"median ({own[0].unit or 'ratio'})", lambda row: f"{row[1].value:.5g}", "number"),
        Column("lowest", lambda row: f"{row[1].low:.5g}", "number"),
        Column("highest", lambda row: f"{row[1].high:.5g}", "number"),
        Column("runs", lambda row: row[1].runs, "number"),
        Column("build", lambda row: Cell(row[1].build or DASH, link=row[1].link)),
        Column("remark", lambda row: _remark(row[1]), "text"),
    ]
    return Plot(
        name,
        nightly_runs_figure(own),
        f"{title}: a strip for each scenario and phase, a line for each version, a point for each nightly run",
        f"{title[:1].upper()}{title[1:]}. A point is the median of the usable runs of one nightly run, the band "
        "reaches from the lowest to the highest of them; between points nothing is known. Scales do not begin at 0. A "
        "dotted line marks where a level changed by more than the margin, a dashed one where kernel, Java, a client "
        "library or Plimsoll changed; the table names it.",
        table(title, columns, [(each, point) for each in own for point in each.points]),
    )


def _remark(point: results.Point) -> str:
    censored = ["at least: the observation ended first"] if point.censored else []
    return "; ".join([*censored, *point.changed])


def _series(result: results.NightlyResult) -> Block:
    columns: list[Column[results.Series]] = [
        Column("series", lambda each: each.name + (" (control)" if each.role == "control" else ""), "text"),
        Column("state", lambda each: _state(each.state)),
        Column("nightly runs", lambda each: len(each.points), "number"),
        Column(
            "detectable", _detectable, "number", "The change of one nightly run that the screen detects half the time."
        ),
        Column("margin", lambda each: f"{each.margin_percent:g} %", "number"),
        Column(
            "why",
            lambda each: "see What changed" if each.state in CHANGED and each.role == "matrix" else each.why,
            "text",
        ),
    ]
    notes = [
        "Detectable: the change of a single nightly run that the screen detects half the time. A smaller one may be "
        "there; it shows after more nightly runs."
    ]
    return Listing("series", table("Every watched series", columns, result.series, notes), filtered=True)


def _detectable(series: results.Series) -> str:
    return DASH if series.visible_percent is None else f"from {change(series.visible_percent)}"


def _waivers(result: results.NightlyResult) -> Block:
    if not result.waivers:
        return Words("There is no waiver.")
    columns: list[Column[results.WaiverUse]] = [
        Column("scenario", lambda waiver: waiver.scenario, "name"),
        Column("Kafka", lambda waiver: waiver.kafka or "every version"),
        Column("what", lambda waiver: ", ".join(waiver.found) or _bounded(waiver)),
        Column("until", lambda waiver: str(waiver.until), "name"),
        Column("who", lambda waiver: waiver.who),
        Column("why", lambda waiver: waiver.why, "text"),
        Column("in this run", _use),
    ]
    return Listing("waivers", table("Waivers", columns, result.waivers))


def _bounded(waiver: results.WaiverUse) -> str:
    return f"{' '.join(filter(None, (waiver.metric, waiver.phase)))}, up to {waiver.up_to or 0:g} %"


def _use(waiver: results.WaiverUse) -> Cell:
    return (
        Cell("expired", "unknown") if waiver.expired else Cell("used") if waiver.used else Cell("not needed", "quiet")
    )


def _nightly_runs(result: results.NightlyResult, links: Links) -> Block:
    columns: list[Column[results.NightlyVerdicts]] = [
        Column(
            "nightly run",
            lambda nightly_run: linked(nightly_run.nightly_run, links),
            "name",
        ),
        Column("began", lambda nightly_run: _when(nightly_run.at), "name"),
        Column("pass", lambda nightly_run: nightly_run.verdicts.get("pass", 0), "number"),
        Column("fail", lambda nightly_run: nightly_run.verdicts.get("fail", 0), "number"),
        Column("unknown", lambda nightly_run: nightly_run.verdicts.get("unknown", 0), "number"),
    ]
    return Listing("before", table("Nightly runs so far, the newest first", columns, result.nightly_runs))


def _runs(result: results.NightlyResult, links: Links) -> Block:
    columns: list[Column[results.NightlyItem]] = [
        Column("run", lambda run: linked(run.run_id, links, run.run_id or run.item)),
        Column("for", lambda run: run.role),
        Column("scenario", lambda run: run.scenario, "name"),
        Column("Kafka", lambda run: run.kafka),
        Column("verdict", lambda run: Cell(run.verdict, MARKS[run.verdict])),
        Column("result", lambda run: run.sentence, "text"),
    ]
    return Listing("runs", table("The runs, in their order", columns, result.runs), filtered=True)


def _limits(result: results.NightlyResult) -> Block:
    limits = [
        f"A series is compared once it has {_needed(result)} nightly runs on one host; until then only correctness is "
        "judged.",
        "A nightly run counts as one point, however many runs it has. Intervals are at 95 %, and hold for noise that "
        "is not correlated from one nightly run to the next.",
        f"At most {result.max_candidates} candidate regressions are rerun per nightly run, and at most "
        f"{result.max_alerts} performance alerts are raised. The others are on this page.",
        "A change that is as large as its margin is confirmed about half the time.",
        "Figures are of this host: they compare with themselves, and with no other machine's.",
    ]
    return Words(limits if result.measures else [JUDGED_ALONE])
