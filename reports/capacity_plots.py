"""Figures of a capacity plan as plain Plotly JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from history.results.capacity import At, CatchUp, CatchUpPoint, Interval, Knee, PartitionCost, Partitions, Reserve
from reports.figures import PALETTE, QUIET, Figure, Trace, band, layout, level, scatter

HEALTHY, DEGRADED = PALETTE[0], PALETTE[1]
LOAD_TITLE = "write load, MB/s"


def latency_figure(knees: Mapping[str, Knee], target_ms: float) -> Figure:
    """Draw p99 by load: means with their band, runs, and the knees at the target."""
    traces: list[Trace] = []
    for (name, knee), colour in zip(knees.items(), (HEALTHY, DEGRADED), strict=False):
        traces += _curve(knee.curve, [point.load for point in knee.curve], name, colour, "lines+markers")
        points = [point for point in knee.points if point.p99_ms is not None]
        marker = {"color": colour, "size": 7, "symbol": "circle-open"}
        loads, p99s = [point.load for point in points], [point.p99_ms for point in points]
        traces.append(_trace(f"runs, {name}", loads, p99s, marker=marker))
        if knee.load.estimate is not None:
            cross = {"color": colour, "size": 12, "symbol": "x-thin", "line": {"width": 3, "color": colour}}
            traces.append(_trace(f"knee, {name}", [knee.load.estimate], [target_ms], marker=cross))
    return {"data": traces, "layout": _logarithmic("p99, ms", shapes=[level(target_ms, dash="dash")])}


def catch_up_figure(measured: CatchUp) -> Figure:
    """Draw each run's catch-up time by load, and the model's curve for each downtime."""
    return {"data": _catch_up_traces(measured), "layout": _logarithmic("time to catch up, s")}


def _catch_up_traces(measured: CatchUp) -> list[Trace]:
    downs = sorted({point.asked_down_s for point in measured.points})
    colours = {down_s: PALETTE[index % len(PALETTE)] for index, down_s in enumerate(downs)}
    traces: list[Trace] = []
    for curve in measured.curves:
        loads = [row.write_mb_per_s for row in curve.rows]
        traces += _curve(curve.rows, loads, f"down {curve.down_s:g} s", colours[curve.down_s])
    for name, symbol, kind in _KINDS:
        points = [point for point in measured.points if _kind(point) == kind]
        if points:
            marker = {"color": [colours[point.asked_down_s] for point in points], "size": 9, "symbol": symbol}
            xs, ys = [point.write_mb_per_s for point in points], [point.took_s for point in points]
            traces.append(_trace(name, xs, ys, marker={**marker, "line": {"width": 1, "color": QUIET}}))
    return traces


Kind = Literal["fitted", "held out", "cold", "given up"]
_KINDS: list[tuple[str, str, Kind]] = [  # name, symbol
    ("fitted runs", "circle", "fitted"),
    ("held-out runs", "diamond", "held out"),
    ("cold runs", "square", "cold"),
    ("given up", "triangle-up", "given up"),
]


def _kind(point: CatchUpPoint) -> Kind:
    if point.censored:
        return "given up"
    return "held out" if point.role == "held_out" else "cold" if point.cold else "fitted"


def longest_down_figure(rows: Sequence[At]) -> Figure:
    """Draw the longest downtime by load."""
    data = _curve(_above_zero(rows), [row.write_mb_per_s for row in rows], "longest downtime", HEALTHY)
    return {"data": data, "layout": _logarithmic("longest downtime, s")}


def _above_zero(rows: Sequence[At]) -> list[Interval]:
    """A logarithmic axis cannot show zeros."""
    return [Interval(estimate=row.estimate or None, low=row.low or None, high=row.high or None) for row in rows]


class Measure(NamedTuple):
    """What partitions cost."""

    name: str
    unit: str
    of: Callable[[PartitionCost], float | None]


MEASURES = [
    Measure("CPU", "s per MB", lambda cost: cost.cpu_s_per_mb),
    Measure("p99", "ms", lambda cost: cost.p99_ms),
    Measure("recovery", "s", lambda cost: cost.recovery_s),
]


def partitions_figure(found: Partitions) -> Figure:
    """Draw what partitions cost, as multiples of the fewest."""
    fewest_first = [cost.partitions for cost in found.curve]
    data = [
        _trace(name, fewest_first, [multiple(found, of, row) for row in found.curve], "lines+markers", line=line)
        for (name, _, of), line in zip(MEASURES, ({"color": colour, "width": 2} for colour in PALETTE), strict=False)
    ]
    y_axis = {"title": {"text": "multiple of the fewest"}, "rangemode": "tozero", "automargin": True}
    return {"data": data, "layout": _layout("replicas on each broker", y_axis)}


def multiple(found: Partitions, of: Callable[[PartitionCost], float | None], row: PartitionCost) -> float | None:
    """Return a cost over that of the fewest partitions."""
    value, fewest = of(row), of(found.curve[0])
    return value / fewest if value is not None and fewest else None


def ledger_figure(lines: Sequence[Reserve]) -> Figure:
    """Draw what each reserve leaves of the healthy knee."""
    bars = {
        "type": "bar",
        "name": "left after it",
        "orientation": "h",
        "x": [rounded(line.left) for line in lines],
        "y": [line.item for line in lines],
        "marker": {"color": HEALTHY},
        "hovertemplate": "%{x:.3g} MB/s<extra>%{y}</extra>",
    }
    drawn = _layout("left, MB/s", {"autorange": "reversed", "automargin": True})
    return {"data": [bars], "layout": {**drawn, "height": 90 + 34 * len(lines), "showlegend": False}}


def _layout(x_title: str, y_axis: Figure, **more: Any) -> Figure:
    x_axis = {"title": {"text": x_title, "standoff": 6}, "rangemode": "tozero"}
    hover = {"namelength": -1}
    return layout(420, top=16, bottom=52, legend=-0.2, hoverlabel=hover, xaxis=x_axis, yaxis=y_axis, **more)


def _logarithmic(title: str, **more: Any) -> Figure:
    ticks = [step * 10**power for power in range(-2, 6) for step in (1, 2, 5)]
    axis = {"title": {"text": title}, "automargin": True, "type": "log", "tickvals": ticks}
    return _layout(LOAD_TITLE, axis, **more)


def _trace(
    name: str, xs: Iterable[float | None], ys: Iterable[float | None], mode: str = "markers", **look: Any
) -> Trace:
    return scatter(name, map(rounded, xs), map(rounded, ys), mode, **look)


def _curve(rows: Sequence[Interval], xs: Sequence[float], name: str, colour: str, mode: str = "lines") -> list[Trace]:
    """Draw estimates, and their intervals where they have two ends."""
    known = [(x, row.estimate, row.low, row.high) for x, row in zip(xs, rows, strict=True) if row.estimate is not None]
    whole = [(x, low, high) for x, _, low, high in known if low is not None and high is not None]
    at, lows, highs = ([rounded(values[place]) for values in whole] for place in range(3))
    line = {"color": colour, "width": 2}
    estimates = _trace(name, [x for x, *_ in known], [row[1] for row in known], mode, line=line, legendgroup=name)
    return [*band(name, at, lows, highs, colour, legendgroup=name), estimates]


def rounded(value: float | None) -> float | None:
    """Round to four digits, as a page shows it."""
    return None if value is None else float(f"{value:.4g}")
