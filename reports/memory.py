"""The memory of a run's processes on its page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from statistics import median
from typing import NamedTuple

from reports.cells import DASH, Column, Table, table
from reports.figures import PALETTE, Figure, scatter
from reports.plots import run_layout
from reports.run_data import RunData

MB = 1e6
FEWEST = 12  # a quarter of fewer samples is too noisy


class Used(NamedTuple):
    """A process's resident memory in MB over time."""

    name: str
    t_ns: list[int]
    mb: list[float]

    @property
    def growth(self) -> float | None:
        return growth(self.mb)


def growth(values: Sequence[float]) -> float | None:
    """Return the relative growth from the second quarter's median to the last's; the first is warm-up."""
    if len(values) < FEWEST:
        return None
    quarter = len(values) // 4
    return median(values[-quarter:]) / median(values[quarter : 2 * quarter]) - 1


def used(run: RunData) -> list[Used]:
    """Return the samples of each process, by name."""
    rows = sorted((row for row in run.rows("usage") if row["name"] == "memory_bytes"), key=lambda row: row["t_ns"])
    found: dict[str, Used] = {}
    for row in rows:
        own = found.setdefault(row["source"], Used(row["source"], [], []))
        own.t_ns.append(row["t_ns"])
        own.mb.append(row["value"] / MB)
    return [found[name] for name in sorted(found)]


def memory_figure(run: RunData) -> Figure:
    """Draw a line per process."""
    data = [
        scatter(
            own.name,
            map(run.seconds, own.t_ns),
            own.mb,
            "lines+markers",
            line={"color": colour, "width": 1.5},
            marker={"size": 4},
            hovertemplate="%{y:,.0f} MB",
            meta={"process": own.name},
        )
        for own, colour in zip(used(run), cycle(PALETTE))
    ]
    layout = run_layout(run, 320, {}, yaxis={"title": {"text": "MB"}, "rangemode": "tozero", "tickformat": ",~f"})
    return {"data": data, "layout": layout}


def memory_table(run: RunData) -> Table:
    """Tabulate each process's first, last and largest sample, and growth."""
    columns: list[Column[Used]] = [
        Column("process", lambda own: own.name, "name"),
        Column("first", lambda own: f"{own.mb[0]:,.0f} MB", "number"),
        Column("last", lambda own: f"{own.mb[-1]:,.0f} MB", "number"),
        Column("most", lambda own: f"{max(own.mb):,.0f} MB", "number", "Of these samples."),
        Column(
            "grew by",
            lambda own: DASH if own.growth is None else f"{own.growth:+.0%}",
            "number",
            f"The median of the last quarter of the samples over that of the second; {DASH}: fewer than {FEWEST}.",
        ),
    ]
    return table("Resident memory of each process, without the page cache.", columns, used(run))
