"""The page of known bugs: bug by version, what found each, and every try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reports.cells import Cell, Table, cells
from reports.site import Block, Listing, Page, Section, Words
from reports.site import render as render_page

Found = Mapping[str, Any]
Links = Mapping[str, str]

STATE_WORDS = {"pass": "as it must be", "fail": "not as it must be", "unknown": "not decided"}
MEANS = {
    "pass": "Each bug was found where Kafka has it, and nowhere else.",
    "fail": "Some bug was not found where Kafka has it, or was found where it must not be.",
    "unknown": "A try was not recorded, or a version had no try that counts; nothing came out as it must not.",
}
MARKS = {"found": "fail", "clean": "pass", "window missed": "quiet", "unknown": "unknown"}
LIMITS = [
    "These are known bugs, reproduced by recipes that were written for them. How often a recipe finds its bug says "
    "nothing of how often the bug strikes elsewhere.",
    "What finds a bug is no check of its own: it is an invariant by which every run is judged, or a change of "
    "behaviour.",
    "A try that missed its window counts for neither side: the race that the bug needs did not come about.",
    "Also broken are invariants that do not count for the bug: a version may have another one that the recipe shows.",
    "A clean version is one that these tries found nothing on. The interval says what so few tries leave open.",
]


def render(result: Found, links: Links) -> str:
    """The page as HTML; ``links`` maps run ids to the addresses of their pages, as far as there are any."""
    sections = [
        ("versions", "Bug by version", _versions(result, links)),
        ("tries", "Every try", _tries(result, links)),
        ("limits", "What this cannot say", iter([Words(LIMITS)])),
    ]
    return render_page(
        Page(
            title=f"Known bugs {result['campaign_id']}",
            kind="known bugs",
            sentence=result["sentence"],
            state=result["state"],
            state_word=STATE_WORDS[result["state"]],
            meaning=MEANS[result["state"]],
            facts=_facts(result),
            sections=[Section(name, title, list(blocks)) for name, title, blocks in sections],
        )
    )


def _facts(result: Found) -> list[tuple[str, str]]:
    runs = sum(arm["tries"] for arm in result["arms"])
    return [
        ("Bugs", ", ".join(dict.fromkeys(arm["issue"] for arm in result["arms"]))),
        ("Tries", f"{result['settings']['tries']} for each bug and version, {runs} judged in all"),
        ("Planned", result["created_at"][:16].replace("T", " ")),
        ("Host", ", ".join(result["hosts"]) or "no run"),
    ]


def _versions(result: Found, links: Links) -> Iterator[Block]:
    head = ("bug", "Kafka", "must be", "found", "rate at 95 %", "clean", "window missed", "unknown")
    rows = [_arm(arm, links) for arm in result["arms"]]
    columns = (*head, "found by", "also broken", "a try")
    yield Listing("versions", Table("Tries by bug and version", columns, rows, frozenset({3, 4, 5, 6, 7})))
    titles = {arm["issue"]: arm["title"] for arm in result["arms"]}
    yield Words([f"{issue}: {title}." for issue, title in titles.items()])
    if notes := [*result["settings"]["left_out"], *(f"{item} was not recorded." for item in result["missing"])]:
        yield Words(notes, "note")


def _arm(arm: Found, links: Links) -> tuple[Cell, ...]:
    low, high = arm["interval"]
    right, said = {True: ("pass", "yes"), False: ("fail", "NO"), None: ("quiet", "not decided")}[arm["as_expected"]]
    return cells(
        arm["issue"],
        arm["version"],
        Cell(f"{arm['expected']}: {said}" if arm["expected"] else "not known", right),
        f"{arm['found']} of {arm['decided']}",
        f"{low:.0%} to {high:.0%}",
        f"{arm['clean']} of {arm['decided']}",
        arm["window_missed"],
        arm["unknown"],
        _counts(arm["found_by"]),
        _counts(arm["also"]),
        _a_run(arm, links),
    )


def _counts(names: Found) -> str:
    return ", ".join(f"{name} in {count}" for name, count in names.items())


def _a_run(arm: Found, links: Links) -> Cell:
    """One with what was found, if there is one."""
    runs = sorted(arm["runs"], key=lambda run: run["outcome"] != "found")
    run = next((run["run_id"] for run in runs if run["run_id"] in links), "")
    return Cell("its page", link=links[run]) if run else Cell("–")


def _tries(result: Found, links: Links) -> Iterator[Block]:
    rows = [
        cells(
            Cell(run["item"], link=links.get(run["run_id"], "")),
            arm["version"],
            Cell(run["outcome"], MARKS[run["outcome"]]),
            ", ".join(run["found_by"]),
            run["sentence"],
        )
        for arm in result["arms"]
        for run in arm["runs"]
    ]
    table = Table("Every judged try", ("try", "Kafka", "outcome", "found by", "the judge's sentence"), rows)
    yield Listing("tries", table, filtered=True)
