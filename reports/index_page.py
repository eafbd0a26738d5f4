"""The index page: campaigns and single runs, newest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from history.results.base import Summary
from history.words import counted
from reports.cells import DASH, Cell, Column, table
from reports.figures import VERDICTS, layout, scatter
from reports.page import Block, Listing, Page, Plot, Section, Words
from reports.page import render as render_page

Row = Mapping[str, Any]


class Concluded(NamedTuple):
    """A campaign's result and page."""

    address: str
    result: Summary


class Campaigns(NamedTuple):
    """The concluded campaigns of a kind, newest first; ``example`` is a command."""

    name: str
    many: str
    example: str
    concluded: Sequence[Concluded]
    one: str = ""

    @property
    def counted(self) -> str:
        return counted(len(self.concluded), self.one or self.many.removesuffix("s"), self.many).lower()


_CAMPAIGN: list[Column[Concluded]] = [
    Column("name", lambda campaign: Cell(campaign.result.campaign_id, link=campaign.address)),
    Column("planned", lambda campaign: campaign.result.planned, "name"),
    Column("state", lambda campaign: Cell(campaign.result.state or DASH, campaign.result.state)),
    Column("result", lambda campaign: campaign.result.sentence, "text"),
]


def render(rows: Iterable[Row], kinds: Sequence[Campaigns], links: Mapping[str, str]) -> str:
    """Render the page as HTML; ``rows`` are the archive's."""
    runs = _runs(rows)
    sections = [
        Section(kind.name, kind.many, [Listing(f"all-{kind.name}", table("Newest first.", _CAMPAIGN, kind.concluded))])
        for kind in kinds
        if kind.concluded
    ]
    sections.append(Section("runs", "Runs", [*_runs_by_day(runs, links)]))
    absent = [f"No {kind.many.lower()} yet: `./plimsoll {kind.example}`." for kind in kinds if not kind.concluded]
    if absent:
        sections.append(Section("absent", "Not run yet", [Words(absent)]))
    page = Page(
        title="All runs",
        kind="all runs and campaigns",
        sentence=_sentence(runs, kinds),
        sections=sections,
        root="",
    )
    return render_page(page)


def _runs(rows: Iterable[Row]) -> list[Row]:
    return sorted({row["run_id"]: row for row in rows}.values(), key=lambda row: str(row["started_at"]), reverse=True)


def _sentence(runs: Sequence[Row], kinds: Sequence[Campaigns]) -> str:
    if not runs:
        return "The archive has no runs yet: `make demo` records the first."
    verdicts = Counter(row["verdict"] for row in runs)
    counts = ", ".join(f"{verdicts[word]:,} {word}" for word in VERDICTS if verdicts[word])
    many = [kind.counted for kind in kinds if kind.concluded]
    return f"{counted(len(runs), 'run')}: {counts}" + (f"; {', '.join(many)}." if many else ".")


def _runs_by_day(runs: Sequence[Row], links: Mapping[str, str]) -> Iterable[Block]:
    if not runs:
        yield Words("The archive has no runs yet.", "absent")
        return
    columns: list[Column[Row]] = [
        Column("run", lambda row: Cell(row["run_id"], link=links.get(row["run_id"], ""))),
        Column("scenario", lambda row: row["scenario"]),
        Column("Kafka", lambda row: row["kafka_version"], "name"),
        Column("runtime", lambda row: row["runtime"]),
        Column("verdict", _verdict),
        Column("result", lambda row: row["sentence"], "text"),
    ]
    yield Plot(
        "verdicts",
        _figure(runs),
        "The verdict of every run by its start and scenario",
        "One mark is one run. The archive keeps the measurements after a run's folder is deleted.",
        table("One row is one run.", _POINT, runs),
    )
    caption = "Every archived run, newest first. Runs without a link are in the archive only."
    yield Listing("all-runs", table(caption, columns, runs), filtered=True)


def _verdict(row: Row) -> Cell:
    return Cell(row["verdict"], row["verdict"])


def _start(row: Row) -> str:
    return str(row["started_at"])[:19].replace("T", " ")


_POINT: list[Column[Row]] = [
    Column("started", _start, "name"),
    Column("scenario", lambda row: row["scenario"]),
    Column("verdict", _verdict),
]


def _figure(runs: Sequence[Row]) -> dict[str, Any]:
    scenarios = sorted({row["scenario"] for row in runs}, reverse=True)
    traces = []
    for word, (colour, symbol) in VERDICTS.items():
        own = [row for row in runs if row["verdict"] == word]
        marker = {"color": colour, "symbol": symbol, "size": 9, "opacity": 0.8}
        traces.append(scatter(word, map(_start, own), [row["scenario"] for row in own], marker=marker))
    return {
        "data": [trace for trace in traces if trace["x"]],
        "layout": layout(
            150 + 26 * len(scenarios),
            top=34,
            bottom=58,
            left=8,
            legend=1 + 26 / (58 + 26 * len(scenarios)),  # above the figure
            xaxis={"type": "date", "title": {"text": "started (UTC)"}},
            yaxis={"automargin": True, "categoryorder": "array", "categoryarray": scenarios},
        ),
    }
