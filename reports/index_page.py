"""The page over everything: nights, comparisons, plans and runs, newest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reports.cells import Cell, Table, cells
from reports.site import Block, Listing, Page, Plot, Section, Words
from reports.site import render as render_page

Row = Mapping[str, Any]

_KINDS = {
    "nightly": ("nights", "Nights", "No night has run yet: make nightly."),
    "compare": ("comparisons", "Comparisons", "No versions have been compared yet: make compare BASE=3.0.2 HEAD=3.1.2"),
    "known_bugs": ("known-bugs", "Known bugs", "No known bug has been looked for yet: make known-bugs."),
    "claims": ("claims", "Claims", "No version has been asked yet: make claims KAFKA=…"),
    "capacity": ("plans", "Capacity plans", "No capacity has been planned yet: make capacity."),
    "fuzz": ("fuzz", "Fuzzing", "No randomised schedules were tried yet: make fuzz."),
    "soak": ("soak", "Soaks", "No soak was run yet: make soak."),
}
_COLOURS = {"pass": "#149a78", "fail": "#d6497f", "unknown": "#b58900"}
_SYMBOLS = {"pass": "circle", "fail": "x", "unknown": "diamond"}


def render(rows: Iterable[Row], campaigns: Sequence[Row], links: Mapping[str, str]) -> str:
    """``rows`` are the archive's; ``campaigns`` have kind, campaign_id, created_at, sentence, state and address."""
    runs = _runs(rows)
    sections = [
        Section(name, title, [_campaigns(name, [c for c in campaigns if c["kind"] == kind], nothing)])
        for kind, (name, title, nothing) in _KINDS.items()
    ]
    sections.append(Section("runs", "Runs", [*_runs_by_day(runs, links)]))
    page = Page(
        title="Everything",
        kind="all runs, nights, comparisons and plans",
        sentence=_sentence(runs, campaigns),
        sections=sections,
        root="",
    )
    return render_page(page)


def _runs(rows: Iterable[Row]) -> list[Row]:
    """One row a run, newest first."""
    return sorted({row["run_id"]: row for row in rows}.values(), key=lambda row: str(row["started_at"]), reverse=True)


def _sentence(runs: Sequence[Row], campaigns: Sequence[Row]) -> str:
    if not runs:
        return "No run is in the archive yet: make demo records the first."
    verdicts = Counter(row["verdict"] for row in runs)
    told = ", ".join(f"{verdicts[word]:,} {word}" for word in _COLOURS if verdicts[word])
    kinds = Counter(campaign["kind"] for campaign in campaigns)
    many = [_counted(kinds[kind], title.lower()) for kind, (_, title, _) in _KINDS.items() if kinds[kind]]
    return f"{_counted(len(runs), 'runs')}: {told}" + (f"; {', '.join(many)}." if many else ".")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number != 1 else f"1 {what.removesuffix('s')}"


def _campaigns(name: str, found: Sequence[Row], nothing: str) -> Block:
    if not found:
        return Words(nothing, "absent")
    rows = [
        cells(
            Cell(each["campaign_id"], link=each["address"]),
            str(each["created_at"])[:16].replace("T", " "),
            Cell(each["state"] or "–", each["state"]),
            each["sentence"],
        )
        for each in found
    ]
    return Listing(f"all-{name}", Table("Newest first.", ("name", "planned", "state", "what it says"), rows))


def _runs_by_day(runs: Sequence[Row], links: Mapping[str, str]) -> Iterable[Block]:
    if not runs:
        yield Words("No run is in the archive yet.", "absent")
        return
    rows = [
        cells(
            Cell(row["run_id"], link=links.get(row["run_id"], "")),
            row["scenario"],
            row["kafka_version"],
            row["runtime"],
            Cell(row["verdict"], row["verdict"]),
            row["sentence"],
        )
        for row in runs
    ]
    columns = ("run", "scenario", "Kafka", "runtime", "verdict", "in words")
    table = Table(
        "Every archived run, newest first. A run without a link lives on in the archive alone.", columns, rows
    )
    yield Plot(
        "verdicts",
        _figure(runs),
        "The verdict of every run by its start and scenario",
        "One mark is one run. The archive keeps what was measured after a run's folder is gone.",
        Table("One row is one run.", ("started", "scenario", "verdict"), [_point(row) for row in runs]),
    )
    yield Listing("all-runs", table, filtered=True)


def _point(row: Row) -> tuple[Cell, ...]:
    return cells(_start(row), row["scenario"], Cell(row["verdict"], row["verdict"]))


def _start(row: Row) -> str:
    return str(row["started_at"])[:19].replace("T", " ")


def _figure(runs: Sequence[Row]) -> dict[str, Any]:
    scenarios = sorted({row["scenario"] for row in runs}, reverse=True)
    traces = []
    for word, colour in _COLOURS.items():
        own = [row for row in runs if row["verdict"] == word]
        marker = {"color": colour, "symbol": _SYMBOLS[word], "size": 9, "opacity": 0.8}
        points = {"x": [_start(row) for row in own], "y": [row["scenario"] for row in own]}
        traces.append({"type": "scatter", "mode": "markers", "name": word, "marker": marker, **points})
    return {
        "data": [trace for trace in traces if trace["x"]],
        "layout": {
            "height": 150 + 26 * len(scenarios),
            "margin": {"l": 8, "r": 16, "t": 34, "b": 58},
            "showlegend": True,
            "legend": {"orientation": "h", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"},
            "xaxis": {"type": "date", "title": {"text": "started (UTC)"}},
            "yaxis": {"automargin": True, "categoryorder": "array", "categoryarray": scenarios},
        },
    }
