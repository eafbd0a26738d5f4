"""Figures of a capacity plan as plain Plotly JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from history.results.capacity import At, CatchUp, CatchUpPoint, Interval, Knee, PartitionCost, Partitions, Reserve
from reports.plots import PALETTE, QUIET, Figure

HEALTHY, DEGRADED = PALETTE[0], PALETTE[1]
LOAD_TITLE = "write load, MB/s"


def latency_figure(knees: Mapping[str, Knee], target_ms: float) -> Figure:
    """Draw p99 by load: means with their band, runs, and the knees at the target."""
    return {"data": _latency_traces(knees, target_ms), "layout": _latency_layout(target_ms)}


def _latency_traces(knees: Mapping[str, Knee], target_ms: float) -> list[dict[str, Any]]:
    traces: list[dict[str, Any]] = []
    for (name, knee), colour in zip(knees.items(), (HEALTHY, DEGRADED), strict=False):
        traces += _band(knee.curve, [point.load for point in knee.curve], name, colour, dots=True)
        points = [point for point in knee.points if point.p99_ms is not None]
        traces.append(
            {
                **_trace(f"runs, {name}", [point.load for point in points], [point.p99_ms for point in points]),
                "mode": "markers",
                "marker": {"color": colour, "size": 7, "symbol": "circle-open"},
            }
        )
        if knee.load.estimate is not None:
            marker = {"color": colour, "size": 12, "symbol": "x-thin", "line": {"width": 3, "color": colour}}
            at = _trace(f"knee, {name}", [knee.load.estimate], [target_ms])
            traces.append({**at, "mode": "markers", "marker": marker})
    return traces


def _latency_layout(target_ms: float) -> dict[str, Any]:
    target = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": target_ms, "y1": target_ms}
    line = {"color": QUIET, "width": 1.5, "dash": "dash"}
    return {**_logarithmic(_layout(LOAD_TITLE, "p99, ms")), "shapes": [{**target, "line": line}]}


def catch_up_figure(measured: CatchUp) -> Figure:
    """Draw each run's catch-up time by load, and the model's curve for each downtime."""
    layout = _logarithmic(_layout(LOAD_TITLE, "time to catch up, s"))
    return {"data": _catch_up_traces(measured), "layout": layout}


def _catch_up_traces(measured: CatchUp) -> list[dict[str, Any]]:
    downs = sorted({point.asked_down_s for point in measured.points})
    colours = {down_s: PALETTE[index % len(PALETTE)] for index, down_s in enumerate(downs)}
    traces: list[dict[str, Any]] = []
    for curve in measured.curves:
        loads = [row.write_mb_per_s for row in curve.rows]
        traces += _band(curve.rows, loads, f"down {curve.down_s:g} s", colours[curve.down_s])
    for name, symbol, kind in _KINDS:
        points = [point for point in measured.points if _kind(point) == kind]
        if points:
            marker = {"color": [colours[point.asked_down_s] for point in points], "size": 9, "symbol": symbol}
            xs, ys = [point.write_mb_per_s for point in points], [point.took_s for point in points]
            outlined = {**marker, "line": {"width": 1, "color": QUIET}}
            traces.append({**_trace(name, xs, ys), "mode": "markers", "marker": outlined})
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
    layout, loads = _logarithmic(_layout(LOAD_TITLE, "longest downtime, s")), [row.write_mb_per_s for row in rows]
    return {"data": _band(_above_zero(rows), loads, "longest downtime", HEALTHY), "layout": layout}


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
    layout = _layout("replicas on each broker", "multiple of the fewest")
    return {"data": _partition_traces(found), "layout": layout}


def _partition_traces(found: Partitions) -> list[dict[str, Any]]:
    return [
        {
            **_trace(
                name, [cost.partitions for cost in found.curve], [multiple(found, of, row) for row in found.curve]
            ),
            "mode": "lines+markers",
            "line": {"color": colour, "width": 2},
        }
        for (name, _, of), colour in zip(MEASURES, PALETTE, strict=False)
    ]


def multiple(found: Partitions, of: Callable[[PartitionCost], float | None], row: PartitionCost) -> float | None:
    """Return a cost over that of the fewest partitions."""
    value, fewest = of(row), of(found.curve[0])
    return value / fewest if value is not None and fewest else None


def ledger_figure(lines: Sequence[Reserve]) -> Figure:
    """Draw what each reserve leaves of the healthy knee."""
    return {"data": _ledger_traces(lines), "layout": _ledger_layout(lines)}


def _ledger_traces(lines: Sequence[Reserve]) -> list[dict[str, Any]]:
    bars = {
        "type": "bar",
        "name": "left after it",
        "orientation": "h",
        "x": [rounded(line.left) for line in lines],
        "y": [line.item for line in lines],
    }
    return [{**bars, "marker": {"color": HEALTHY}, "hovertemplate": "%{x:.3g} MB/s<extra>%{y}</extra>"}]


def _ledger_layout(lines: Sequence[Reserve]) -> dict[str, Any]:
    layout = _layout("left, MB/s", "")
    axis = {"autorange": "reversed", "automargin": True}
    return {**layout, "height": 90 + 34 * len(lines), "yaxis": axis, "showlegend": False, "hovermode": "closest"}


def _layout(x_title: str, y_title: str) -> dict[str, Any]:
    return {
        "height": 420,
        "margin": {"l": 64, "r": 16, "t": 16, "b": 52},
        "hovermode": "closest",
        "hoverlabel": {"namelength": -1},
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.2, "yanchor": "top"},
        "xaxis": {"title": {"text": x_title, "standoff": 6}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": y_title}, "rangemode": "tozero", "automargin": True},
    }


def _logarithmic(layout: dict[str, Any]) -> dict[str, Any]:
    ticks = [step * 10**power for power in range(-2, 6) for step in (1, 2, 5)]
    axis = {"title": layout["yaxis"]["title"], "automargin": True, "type": "log", "tickvals": ticks}
    return {**layout, "yaxis": axis}


def _trace(name: str, xs: Iterable[float | None], ys: Iterable[float | None]) -> dict[str, Any]:
    return {"type": "scatter", "name": name, "x": [rounded(x) for x in xs], "y": [rounded(y) for y in ys]}


def _band(
    rows: Sequence[Interval], xs: Sequence[float], name: str, colour: str, *, dots: bool = False
) -> list[dict[str, Any]]:
    finite = [(x, row.estimate) for x, row in zip(xs, rows, strict=True) if row.estimate is not None]
    whole = [
        (x, row.low, row.high)
        for x, row in zip(xs, rows, strict=True)
        if row.estimate is not None and row.low is not None and row.high is not None
    ]
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    edge = {"mode": "lines", "line": {"width": 0}, "showlegend": False, "legendgroup": name, "hoverinfo": "skip"}
    fill = {"fill": "tonexty", "fillcolor": f"rgba({red}, {green}, {blue}, 0.15)"}
    return [
        {**_trace(f"{name}, low", [x for x, _, _ in whole], [low for _, low, _ in whole]), **edge},
        {**_trace(f"{name}, high", [x for x, _, _ in whole], [high for _, _, high in whole]), **edge, **fill},
        {
            **_trace(name, [x for x, _ in finite], [estimate for _, estimate in finite]),
            "mode": "lines+markers" if dots else "lines",
            "line": {"color": colour, "width": 2},
            "legendgroup": name,
        },
    ]


def rounded(value: float | None) -> float | None:
    """Round to four digits, as a page shows it."""
    return None if value is None else float(f"{value:.4g}")
