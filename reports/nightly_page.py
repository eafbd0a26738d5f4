"""The page of a night: what to look at, tonight's matrix, what changed since when, and every night so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from reports.cells import DASH, Cell, Table, cells, change
from reports.nightly_plots import nights_figure, own_of
from reports.site import Block, Listing, Page, Plot, Section, Words
from reports.site import render as render_page

Found = Mapping[str, Any]
Links = Mapping[str, str]

STATE_WORDS = {"fail": "alert", "unknown": "look when there is time", "pass": "no alert"}
MEANS = {
    "fail": "A promise was broken, or reruns confirmed that something is slower.",
    "unknown": "No alert, but part of the night could not be judged.",
    "pass": "Every run was judged, none failed by what is neither waived nor a known bug, and no series is slower.",
}
MARKS = {
    "pass": "pass",
    **dict.fromkeys(("fail", "confirmed", "new", "known"), "fail"),
    **dict.fromkeys(("missing", "unknown", "suspect", "inconclusive", "host", "moved", "silent"), "unknown"),
    **dict.fromkeys(("no basis", "no figure", "waived", "known bug"), "quiet"),
}
MOVED = ("confirmed", "suspect", "inconclusive", "refuted", "host", "waived", "better", "moved")


def render(result: Found, links: Links) -> str:
    """The page as HTML; ``links`` maps run ids to the addresses of their pages, as far as there are any."""
    sections = [
        ("alerts", "Alerts", _alerts(result, links)),
        ("tonight", "Tonight", _tonight(result, links)),
        ("changes", "What changed", _changes(result, links)),
        ("canary", "The canary", _canary(result)),
        ("nights", "Every night so far", _figures(result)),
        ("series", "Every series", _series(result)),
        ("waivers", "Waivers", _waivers(result)),
        ("before", "Nights before", _nights(result, links)),
        ("runs", "Runs", _runs(result, links)),
        ("limits", "What this cannot say", _limits(result)),
    ]
    shorts = {"changes": "Changes", "canary": "Canary", "nights": "Nights", "series": "Series", "limits": "Limits"}
    return render_page(
        Page(
            title=f"Night {result['campaign']}",
            kind="one night",
            sentence=result["sentence"],
            state=result["state"],
            state_word=STATE_WORDS[result["state"]],
            meaning=MEANS[result["state"]],
            facts=_facts(result),
            sections=[Section(name, title, list(blocks), shorts.get(name, "")) for name, title, blocks in sections],
        )
    )


def _facts(result: Found) -> list[tuple[str, str]]:
    asked = result["settings"]
    canary = asked["canary"]
    watched = [told for told in result["series"] if told["role"] == "night"]
    compared = sum(told["state"] not in ("no basis", "no figure", "silent") for told in watched)
    return [
        ("Night", result["campaign"]),
        ("Planned", _when(result["created_at"])),
        ("Kafka", ", ".join(asked["versions"])),
        ("Scenarios", ", ".join(asked["scenarios"])),
        ("Repetitions", str(asked["repetitions"])),
        ("Canary", f"{canary['scenario']} on {canary['kafka']}"),
        ("Series", f"{compared} of {len(watched)} have a basis"),
        ("Host", ", ".join(result["hosts"]) or "no run"),
    ]


def _when(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M}"


# --- alerts -------------------------------------------------------------------------------------------


def _alerts(result: Found, links: Links) -> Iterator[Block]:
    rows = [_alert(alert, "raised", links) for alert in result["alerts"]]
    rows += [_alert(alert, f"suppressed: {alert['why']}", links) for alert in result["suppressed"]]
    if not result["alerts"]:
        yield Words("Nobody was alerted.", "lead")
    if rows:
        yield Listing("alerts", Table("Alerts", ("about", "status", "what", "alert", "a run"), rows))
    if result["notes"]:
        yield Words(result["notes"], "note")


def _alert(alert: Found, how: str, links: Links) -> tuple[Cell, ...]:
    return cells(
        alert["kind"], Cell(alert["status"], MARKS[alert["status"]]), alert["text"], how, _run(alert["runs"], links)
    )


def _run(runs: Sequence[str], links: Links) -> Cell:
    """The first of some runs that has a page, as a link to it."""
    run = next((run for run in runs if run in links), "")
    return Cell("its page", link=links[run]) if run else Cell(DASH if not runs else "page removed")


# --- tonight ------------------------------------------------------------------------------------------


def _tonight(result: Found, links: Links) -> Iterator[Block]:
    found = {(told["scenario"], told["kafka"]): told for told in result["cells"]}
    versions = list(dict.fromkeys(told["kafka"] for told in result["cells"]))
    rows = [
        (Cell(scenario), *(_verdicts(found.get((scenario, kafka)), links) for kafka in versions))
        for scenario in dict.fromkeys(told["scenario"] for told in result["cells"])
    ]
    notes = ["Canary and reruns are counted with their scenario and version. A link leads to one run of its cell."]
    yield Listing("matrix", Table("Verdicts of tonight's runs", ("scenario", *versions), rows, notes=notes))
    if result["failures"]:
        head = ("scenario", "Kafka", "status", "runs", "what was found", "in words", "first seen", "a run")
        rows = [_failure(told, links) for told in result["failures"]]
        yield Listing("failures", Table("Correctness failures", head, rows))


def _verdicts(cell: Found | None, links: Links) -> Cell:
    if cell is None:
        return Cell("not asked for", "quiet")
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(cell["verdicts"].items()))
    run = next((run for run in cell["runs"] if run in links), "")
    return Cell(told, MARKS[cell["verdict"]], links.get(run, ""))


def _failure(told: Found, links: Links) -> tuple[Cell, ...]:
    waiver = told["waiver"]
    status = f"waived by {waiver['who']} until {waiver['until']}" if waiver else told["status"]
    return cells(
        told["scenario"],
        told["kafka"],
        Cell(status, MARKS[told["status"]]),
        f"{len(told['runs'])} of {told['of']}",
        ", ".join(told["found"]),
        told["sentence"],
        told["first_night"],
        _run(told["runs"], links),
    )


# --- what changed ---------------------------------------------------------------------------------------


def _changes(result: Found, links: Links) -> Iterator[Block]:
    moved = [told for told in result["series"] if told["state"] in MOVED and told["role"] == "night"]
    silent = [told for told in result["series"] if told["state"] == "silent"]
    if silent:
        yield Words([f"{told['name']} is silent: {told['why']}." for told in silent])
    if not moved:
        yield Words(_nothing_changed(result), "lead")
        return
    moved.sort(key=lambda told: (MOVED.index(told["state"]), -told["margins"]))
    head = ("series", "state", "since", "level before and after", "change", "change in reruns", "a rerun")
    rows = [_moved(told, links) for told in moved]
    notes = [
        "Levels are geometric means of the nights; intervals are at 95 %, of the screen's t test and of the "
        "reruns against a pinned release. The change that the screen saw is chosen for being large; that of the "
        "reruns is not."
    ]
    yield Listing("changes", Table("Series that changed beyond their margin", head, rows, notes=notes))
    yield Words([f"{told['name']}: {told['why']}." for told in moved])


def _nothing_changed(result: Found) -> str:
    states = Counter(told["state"] for told in result["series"] if told["role"] == "night")
    if not states["steady"] and states["silent"]:
        return "Nothing was compared: no series has a figure tonight."
    if not states["steady"]:
        needed = max((told["needed"] for told in result["series"]), default=9)
        return f"Nothing was compared: no series has the {needed} nights on one host that it needs."
    return f"None of the {states['steady']} series that have a basis changed by more than its margin."


def _moved(told: Found, links: Links) -> tuple[Cell, ...]:
    moved, again = told["change"], told["confirmation"]
    runs = again["runs"] if again else []
    return cells(
        told["name"],
        Cell(told["state"], MARKS.get(told["state"], "")),
        moved["since"],
        f"{moved['before']:,.4g} → {moved['after']:,.4g} {told['unit']}".rstrip(),
        _with_interval(moved),
        f"{_with_interval(again)}, {again['pairs']} pairs" if again else DASH,
        _run(runs, links),
    )


def _with_interval(told: Found) -> str:
    if told["percent"] is None:
        return DASH
    if told["low_percent"] is None:
        return change(told["percent"])
    return f"{change(told['percent'])} ({change(told['low_percent'])} to {change(told['high_percent'])})"


# --- nights ---------------------------------------------------------------------------------------------


def _canary(result: Found) -> Iterator[Block]:
    yield Words(result["canary"]["sentence"], "lead")
    yield Words("The same scenario on the same release every night: what moves it is the host, or this harness.")
    own = [told for told in result["series"] if told["role"] == "canary" and told["points"]]
    if own:
        yield _plot("canary", "The canary", own)


def _figures(result: Found) -> Iterator[Block]:
    """A figure for each metric, with a strip for each scenario and phase."""
    by_metric = own_of(result["series"])
    if not by_metric:
        yield Words("No series has a figure yet.", "absent")
    for metric, own in by_metric.items():
        yield _plot(f"nights-{metric}", own[0]["words"], own)


def _plot(name: str, title: str, own: Sequence[Found]) -> Plot:
    rows = [
        cells(told["name"], point["night"], _when(point["at"]), *_figures_of(point), point["runs"], _mark_of(point))
        for told in own
        for point in told["points"]
    ]
    head = ("series", "night", "began", f"median ({own[0]['unit'] or 'ratio'})", "lowest", "highest", "runs", "remark")
    return Plot(
        name,
        nights_figure(own),
        f"{title}: a strip for each scenario and phase, a line for each version, a point for each night",
        f"{title}. A point is the median of a night's good runs, the band reaches from the lowest to the highest of "
        "them; nothing is known between nights. Scales do not begin at 0. A dotted line is where a level changed by "
        "more than the margin.",
        Table(title, head, rows, frozenset({3, 4, 5, 6})),
    )


def _figures_of(point: Found) -> list[str]:
    return [f"{point[name]:.5g}" for name in ("value", "low", "high")]


def _mark_of(point: Found) -> str:
    return "at least: the observation ended first" if point["censored"] else ""


def _series(result: Found) -> Iterator[Block]:
    head = ("series", "state", "nights", "would be noticed", "margin", "why")
    rows = [
        cells(
            told["name"] + (" (canary)" if told["role"] == "canary" else ""),
            Cell(told["state"], MARKS.get(told["state"], "")),
            len(told["points"]),
            DASH if told["visible_percent"] is None else f"from {change(told['visible_percent'])}",
            f"{told['margin_percent']:g} %",
            "see above, what changed" if told["state"] in MOVED and told["role"] == "night" else told["why"],
        )
        for told in result["series"]
    ]
    notes = [
        "Would be noticed: the change of a single night that the screen sees half the time. A smaller one may be "
        "there; it shows after more nights."
    ]
    table = Table("Every watched series tonight", head, rows, frozenset({2, 3, 4}), notes)
    yield Listing("series", table, filtered=True)


def _waivers(result: Found) -> Iterator[Block]:
    entries = result["waivers"]
    if not entries:
        yield Words("Nothing is waived.")
        return
    head = ("scenario", "Kafka", "what", "until", "who", "why", "tonight")
    rows = [
        cells(
            told["scenario"],
            told["kafka"] or "every version",
            ", ".join(told["found"]) or _bounded(told),
            told["until"],
            told["who"],
            told["why"],
            Cell("expired", "unknown") if told["expired"] else "used" if told["used"] else Cell("not needed", "quiet"),
        )
        for told in entries
    ]
    yield Listing("waivers", Table("Waivers", head, rows))


def _bounded(entry: Found) -> str:
    return f"{' '.join(filter(None, (entry['metric'], entry['phase'])))}, up to {entry['up_to']:g} %"


def _nights(result: Found, links: Links) -> Iterator[Block]:
    rows = [
        cells(
            Cell(told["night"], link=links.get(told["night"], "")),
            _when(told["at"]),
            *(told.get(verdict, 0) for verdict in ("pass", "fail", "unknown")),
        )
        for told in result["nights"]
    ]
    table = Table(
        "Nights so far, the newest first", ("night", "began", "pass", "fail", "unknown"), rows, frozenset({2, 3, 4})
    )
    yield Listing("before", table)


def _runs(result: Found, links: Links) -> Iterator[Block]:
    rows = [
        cells(
            Cell(run["run_id"] or run["item"], link=links.get(run["run_id"] or "", "")),
            run["role"],
            run["scenario"],
            run["kafka"],
            Cell(run["verdict"], MARKS[run["verdict"]]),
            run["sentence"],
        )
        for run in result["runs"]
    ]
    head = ("run", "for", "scenario", "Kafka", "verdict", "in words")
    yield Listing("runs", Table("Tonight's runs, in their order", head, rows), filtered=True)


def _limits(result: Found) -> Iterator[Block]:
    asked = result["settings"]
    needed = max((told["needed"] for told in result["series"]), default=9)
    yield Words(
        [
            f"A series is compared once it has {needed} nights on one host; until then only correctness is judged.",
            "A night counts as one point, however many runs it has. Intervals are at 95 %, and hold for noise that is "
            "not correlated from night to night.",
            f"No more than {asked['confirm']['suspects']} suspects are rerun a night, and no more than "
            f"{asked['alerts']} alerts are raised about performance. What is left over is on this page.",
            "A change that is as large as its margin is confirmed about half the time.",
            "Figures are of this host: they compare with themselves, and with no other machine's.",
        ]
    )
