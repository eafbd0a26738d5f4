"""The page of one version's answers to the claims: a row each, and the evidence behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reports.cells import DASH, Cell, Table, cells
from reports.site import Block, Listing, Page, Section, Words
from reports.site import render as render_page

Told = Mapping[str, Any]
RUN_PAGE = "report/index.html"  # in a run folder
_MARKS = {"shown": "pass", "refuted": "fail", "not observable": "unknown"}


def render(result: Told, links: Mapping[str, str]) -> str:
    """The page of a result; ``links`` maps run ids to the addresses of their pages."""
    page = Page(
        title=f"Claims on Kafka {result['kafka']}",
        kind="claims about replication, answered by one version",
        sentence=result["sentence"],
        state=result["state"],
        facts=[
            ("Kafka", result["kafka"]),
            ("Mode", ", ".join(result["modes"])),
            ("Asked", result["created_at"][:16].replace("T", " ")),
        ],
        links=[(f"run: {name}", links[run_id]) for name, run_id in result["runs"].items() if run_id in links],
        sections=[
            Section("answers", "Claim by claim", [_table(result)], "Claims"),
            *_walkthroughs(result),
            Section("evidence", "What each answer rests on", [*_evidence(result, links)], "Evidence"),
        ],
        footer="An answer is what these runs showed; one that is refuted has its counterexample here.",
    )
    return render_page(page)


def _table(result: Told) -> Block:
    rows = [
        cells(
            Cell(name, link=f"#table-{name.lower()}" if told["evidence"] else ""),
            result["claims"][name]["text"],
            Cell(told["verdict"], _MARKS[told["verdict"]]),
            told["sentence"],
            result["claims"][name]["changes"] or DASH,
        )
        for name, told in result["answers"].items()
    ]
    columns = ("name", "claim", "answer", "in this run", "where the answer changes")
    return Listing(
        "answers",
        Table("One row is one claim; its name leads to the evidence.", columns, rows),
        filtered=True,
        whole=True,
    )


def _evidence(result: Told, links: Mapping[str, str]) -> Iterator[Block]:
    yield Words("Sources are files and tables of the run folder; times are seconds since the run began.")
    for name, told in result["answers"].items():
        if not told["evidence"]:
            continue
        rows = [
            cells(_source(row["source"], links.get(told["run_id"], "")), _seconds(row["at_s"]), row["text"])
            for row in told["evidence"]
        ]
        run = Cell(told["run_id"], link=links.get(told["run_id"], ""))
        rows.append(cells(run, DASH, f"the run of experiment {told['experiment']}"))
        caption = f"{name}, {told['verdict']}: {result['claims'][name]['text']}"
        yield Listing(name.lower(), Table(caption, ("source", "at", "what it says"), rows))


def _source(source: str, page: str) -> Cell:
    """A file or table of a run folder; the folder lies above the run's page, where there is one."""
    file = source.partition(":")[0]  # without the line
    return Cell(source, link=f"{page.removesuffix(RUN_PAGE)}{file}" if page else "")


def _walkthroughs(result: Told) -> Iterator[Section]:
    for number, told in enumerate(result["walkthroughs"], 1):
        name = f"walkthrough-{number}"
        table = Table(told["title"], tuple(told["columns"]), [cells(*row) for row in told["rows"]])
        yield Section(name, told["title"], [Words(told["words"]), Listing(name, table)], told["short"])


def _seconds(at_s: float | None) -> str:
    return DASH if at_s is None else f"{at_s:.3f} s"
