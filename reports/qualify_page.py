"""The page of a qualification: go or no-go, and each line's evidence."""

from __future__ import annotations

from collections.abc import Mapping

from history.results.qualify import Line, QualifyResult
from reports.cells import Cell, Column, linked, page_of, table
from reports.page import Listing, Section, Words, of_campaign

MEANS = {
    "pass": "Every line that decides says go.",
    "fail": "A guarantee is violated that the version of today keeps, or a bug is new.",
    "unknown": "A required answer is missing, or you have to decide; there is no no-go.",
}
MARKS = {"go": "pass", "no-go": "fail", "not yet": "unknown", "note": "quiet"}
NO_DESIGN = "Nothing that Plimsoll knows of."
RULES = [
    "No-go: a run of the upgrade or rollback fails; a scenario fails on the new version and passes on that of today; a "
    "known bug is found on the new version alone; a client fails against it; pairs show a violation that is new.",
    "Not yet: a run is missing or has no verdict; a bug that the new version is known to have was not seen; pairs show "
    "that a primary metric is worse, which a person has to weigh.",
    "A note decides nothing: a bug or failure of both sides, or a performance that so few pairs do not show.",
]
RULES_OF_OWN = [
    "No-go: the run of the upgrade fails, or a scenario fails after it and passes before it.",
    "Not yet: a run is missing, has no verdict, or lacks clients or the offsets of every replica as evidence.",
    "A note decides nothing: a failure before and after, and performance, which runs at different times do not show.",
]


def render(result: QualifyResult, links: Mapping[str, str]) -> str:
    """Render the page as HTML."""
    columns: list[Column[Line]] = [
        *_LINE,
        Column("answer", lambda line: Cell(line.answer, MARKS[line.answer]), "name"),
        Column("evidence", lambda line: line.sentence, "text"),
        Column("runs", lambda line: len(line.runs), "number"),
        Column("a run", lambda line: page_of(line.runs, links)),
    ]
    own = bool(result.settings.get("cluster"))
    answers = Listing("answers", table("What was asked", columns, result.answers), whole=True)
    return of_campaign(
        "Qualification",
        result,
        [
            Section("answers", "Answers", [answers]),
            Section("doubts", "What stays open", [Words(result.doubts)]),
            *([] if own else [Section("design", "What changes by design", [Words(result.by_design or [NO_DESIGN])])]),
            Section("rules", "How the answer comes about", [Words(RULES_OF_OWN if own else RULES)]),
            Section("runs", "Runs", [_runs(result, links)]),
        ],
        kind="qualification of an upgrade",
        means=MEANS,
        facts=[
            ("From", _side(result, "base")),
            ("To", _side(result, "head")),
            ("Load", str(result.settings["scenario"])),
            ("Planned", result.planned),
            ("Host", ", ".join(result.hosts) or "no run"),
            ("Digest of the evidence", result.digest[:16]),
        ],
        state_word=result.verdict,
    )


_LINE: list[Column[Line]] = [
    Column("question", lambda line: line.question, "name"),
    Column("what", lambda line: line.what, "text"),
]


def _runs(result: QualifyResult, links: Mapping[str, str]) -> Listing:
    columns: list[Column[tuple[Line, str]]] = [
        Column("run", lambda row: linked(row[1], links)),
        Column("question", lambda row: row[0].question, "name"),
        Column("what", lambda row: row[0].what, "text"),
    ]
    every = [(line, run) for line in result.answers for run in line.runs]
    return Listing("runs", table("Every run", columns, every), filtered=True)


def _side(result: QualifyResult, side: str) -> str:
    version = result.base if side == "base" else result.head
    jars = ", ".join(digest[:12] for digest in result.jars.get(side, []))
    name = version if result.settings.get("cluster") else f"Kafka {version}"
    return f"{name}{f', jars {jars}' if jars else ''}"
