"""The page of a bisection: the first bad build, and each build's observations."""

from __future__ import annotations

from collections.abc import Mapping

from history.results.bisect import BisectResult, Judged
from reports.cells import DASH, Cell, Column, linked, page_of, table
from reports.figures import GREEN, RED, YELLOW, layout
from reports.page import Listing, Plot, Section, Words, of_campaign

MEANS = {
    "pass": "The first bad build is found.",
    "unknown": "Which build is the first bad one is not known.",
}
MARKS = {"good": "pass", "bad": "fail", "open": "unknown", "undecided": "unknown", "not run": "quiet"}
COLOURS = {"good": GREEN, "bad": RED, "open": YELLOW}
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
    runs: list[Column[tuple[Judged, str]]] = [
        Column("run", lambda row: linked(row[1], links)),
        Column("build", lambda row: row[0].name, "name"),
    ]
    every = table("Every run", runs, [(each, run) for each in result.judged for run in each.runs])
    return of_campaign(
        "Bisection",
        result,
        [
            Section("builds", "Builds", [*_figure(result), _builds(result, links)]),
            Section("rules", "How the answer comes about", [Words(RULES)]),
            Section("runs", "Runs", [Listing("runs", every, filtered=True)]),
        ],
        kind="bisection",
        means=MEANS,
        facts=[
            ("Searched for", result.difference or DASH),
            ("Builds", f"{result.builds}, of which {sum(bool(each.runs) for each in result.judged)} were run"),
            ("Scenario", str(result.settings["scenario"])),
            ("An answer on the way is wrong", f"in at most {100 * result.wrong_at_most:.1f} % of such searches"),
            ("Planned", result.planned),
            ("Host", ", ".join(result.hosts) or "no run"),
        ],
        state_word="found" if result.state == "pass" else "open",
    )


def _builds(result: BisectResult, links: Mapping[str, str]) -> Listing:
    columns: list[Column[Judged]] = [
        *_PLACE,
        Column("version", lambda each: each.version or DASH, "name"),
        Column("answer", lambda each: Cell(each.answer, MARKS[each.answer]), "name"),
        _EVIDENCE,
        Column("result of its runs", lambda each: each.sentence, "text"),
        Column("runs", lambda each: len(each.runs), "number"),
        Column("a run", lambda each: page_of(each.runs, links)),
    ]
    return Listing("builds", table("The builds that were judged, from good to bad", columns, result.judged), whole=True)


_PLACE: list[Column[Judged]] = [
    Column("place", lambda each: each.number + 1, "number"),
    Column("build", lambda each: each.name, "name"),
]
_EVIDENCE: Column[Judged] = Column(
    "evidence", lambda each: DASH if each.evidence is None else f"{each.evidence:+.1f}", "number"
)


def _figure(result: BisectResult) -> list[Plot]:
    """Green is good, red is bad."""
    judged = [each for each in result.judged if each.evidence is not None]
    if not judged:
        return []
    figure = {
        "data": [
            {
                "type": "bar",
                "x": [each.number + 1 for each in judged],
                "y": [round(each.evidence or 0.0, 2) for each in judged],
                "text": [each.name[:12] for each in judged],
                "marker": {"color": [COLOURS.get(each.answer, COLOURS["open"]) for each in judged]},
                "hovertemplate": "%{text}: %{y}<extra></extra>",
            }
        ],
        "layout": layout(
            260,
            top=12,
            bottom=50,
            xaxis={"title": {"text": "place, from good to bad"}, "range": [0.4, result.builds + 0.6]},
            yaxis={"title": {"text": "evidence"}},
        ),
    }
    caption = "Above 0 the runs look like those of a bad build, below 0 like those of a good one."
    evidence = table("Evidence", [*_PLACE, _EVIDENCE], judged)
    return [Plot("evidence", figure, "Evidence of each build that was run", caption, evidence)]
