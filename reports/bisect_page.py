"""The page of a bisection: the first bad build, and each build's observations."""

from __future__ import annotations

from collections.abc import Mapping

from history.results.bisect import BisectResult, Judged
from reports.cells import DASH, Cell, Column, page_of, table
from reports.page import Listing, Page, Plot, Section, Words
from reports.page import render as render_page

MEANS = {
    "pass": "The first bad build is found.",
    "unknown": "Which build is the first bad one is not known.",
}
MARKS = {"good": "pass", "bad": "fail", "open": "unknown", "undecided": "unknown", "not run": "quiet"}
COLOURS = {"good": "#149a78", "bad": "#d6497f", "open": "#b58900"}
RULES = [
    "The first and the last build are run first. The search looks for the difference between them.",
    "Evidence is the logarithm of an e-process: above 0 it supports a bad build, below 0 a good one, for any share or "
    "change above the configured minimum. A build is judged once the evidence is above 4.6 or below -4.6 (100 to 1), "
    "which a wrong answer reaches in at most 1 % of cases; until then it is run again.",
    "A build that shows the violation less often than that, or is worse by less, may be called either or stay open.",
    "A build that cannot be made, whose runs break or that stays open after the limit says nothing and is passed over.",
]


def render(result: BisectResult, links: Mapping[str, str]) -> str:
    """Render the page as HTML."""
    columns: list[Column[Judged]] = [
        Column("place", lambda each: each.number + 1, "number"),
        Column("build", lambda each: each.name, "name"),
        Column("version", lambda each: each.version or DASH, "name"),
        Column("answer", lambda each: Cell(each.answer, MARKS[each.answer]), "name"),
        Column("evidence", lambda each: DASH if each.evidence is None else f"{each.evidence:+.1f}", "number"),
        Column("result of its runs", lambda each: each.sentence, "text"),
        Column("runs", lambda each: len(each.runs), "number"),
        Column("a run", lambda each: page_of(each.runs, links)),
    ]
    runs: list[Column[tuple[Judged, str]]] = [
        Column("run", lambda row: Cell(row[1], link=links.get(row[1], ""))),
        Column("build", lambda row: row[0].name, "name"),
    ]
    every = [(each, run) for each in result.judged for run in each.runs]
    judged = table("The builds that were judged, from good to bad", columns, result.judged)
    return render_page(
        Page(
            title=f"Bisection {result.campaign_id}",
            kind="bisection",
            sentence=result.sentence,
            state=result.state,
            state_word="found" if result.state == "pass" else "open",
            meaning=MEANS[result.state],
            facts=[
                ("Searched for", result.difference or DASH),
                ("Builds", f"{result.builds}, of which {sum(bool(each.runs) for each in result.judged)} were run"),
                ("Scenario", str(result.settings["scenario"])),
                ("An answer on the way is wrong", f"in at most {100 * result.wrong_at_most:.1f} % of such searches"),
                ("Planned", result.planned),
                ("Host", ", ".join(result.hosts) or "no run"),
            ],
            sections=[
                Section("builds", "Builds", [*_figure(result), Listing("builds", judged, whole=True)]),
                Section("rules", "How the answer comes about", [Words(RULES)]),
                Section("runs", "Runs", [Listing("runs", table("Every run", runs, every), filtered=True)]),
            ],
        )
    )


def _figure(result: BisectResult) -> list[Plot]:
    """Green is good, red is bad."""
    told = [each for each in result.judged if each.evidence is not None]
    if not told:
        return []
    figure = {
        "data": [
            {
                "type": "bar",
                "x": [each.number + 1 for each in told],
                "y": [round(each.evidence or 0.0, 2) for each in told],
                "text": [each.name[:12] for each in told],
                "marker": {"color": [COLOURS.get(each.answer, COLOURS["open"]) for each in told]},
                "hovertemplate": "%{text}: %{y}<extra></extra>",
            }
        ],
        "layout": {
            "height": 260,
            "margin": {"l": 60, "r": 16, "t": 12, "b": 50},
            "showlegend": False,
            "xaxis": {"title": {"text": "place, from good to bad"}, "range": [0.4, result.builds + 0.6]},
            "yaxis": {"title": {"text": "evidence"}},
        },
    }
    rows: list[Column[Judged]] = [
        Column("place", lambda each: each.number + 1, "number"),
        Column("build", lambda each: each.name, "name"),
        Column("evidence", lambda each: f"{each.evidence:+.1f}", "number"),
    ]
    caption = "Above 0 the runs look like those of a bad build, below 0 like those of a good one."
    return [Plot("evidence", figure, "Evidence of each build that was run", caption, table("Evidence", rows, told))]
