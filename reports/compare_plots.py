"""Figures of a comparison as plain Plotly JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from history.results.compare import Arm, Effect, PairOfRuns, PhaseLatency

Figure = dict[str, Any]

BASE, HEAD, QUIET = "#2a86d1", "#d97a16", "rgba(128, 140, 152, 0.75)"
WASH = "rgba(128, 140, 152, 0.28)"
LOOKS = {
    "regression": ("#d6497f", "x"),
    "improvement": ("#149a78", "star"),
    "equivalent": ("#2a86d1", "circle"),
    "inconclusive": ("#b58900", "diamond"),
}
ROW = 46  # pixels
NAME_LINE = 15  # pixels per further line of a name
SMALLEST_RANGE = 12.0  # percent to each side
FEW_TICKS = 300  # ratio of an axis' ends; below it, powers of ten are too few ticks
NO_LOG = 5  # below this ratio, a log scale has almost no ticks
LABEL = 18  # characters of a phase's name per line
LINE = 40  # characters on a phone
SHORT = LINE + 8


def forest(effects: Sequence[Effect], labels: Sequence[str]) -> Figure:
    """Draw a row per effect: margin, interval, estimate, name."""
    rows = range(len(effects))
    names = ["<br>".join(textwrap.wrap(label, SHORT)) for label in labels]
    pitch = ROW + NAME_LINE * max((name.count("<br>") for name in names), default=0)
    margins: dict[str, list[float | None]] = {"x": [], "y": []}
    for row, effect in zip(rows, effects, strict=True):
        low, high = _margin(effect)
        margins["x"] += [low, high, None]
        margins["y"] += [row, row, None]
    band = {"type": "scatter", "mode": "lines", "name": "margin", "line": {"color": WASH, "width": 16}, **margins}
    traces = [{**band, "connectgaps": False, "hoverinfo": "skip"}]
    for verdict, (colour, symbol) in LOOKS.items():
        own = [row for row in rows if effects[row].verdict == verdict and effects[row].mean is not None]
        if own:
            traces.append(_estimates(verdict, [effects[row] for row in own], own, colour, symbol))
    above = {"xref": "paper", "x": 0, "xanchor": "left", "yanchor": "bottom", "yshift": 9, "font": {"size": 12}}
    shown = [{**above, "y": row, "text": name, "align": "left", "showarrow": False} for row, name in enumerate(names)]
    return {
        "data": traces,
        "layout": {
            "height": 120 + pitch * len(effects),
            "margin": {"l": 16, "r": 16, "t": 8, "b": 84},
            "showlegend": True,
            "legend": {"orientation": "h", "x": 0, "y": -52 / (pitch * len(effects) + 28), "yanchor": "top"},
            "hovermode": "closest",
            "xaxis": {"title": {"text": "change from base to head"}, "range": _range(effects), "ticksuffix": " %"},
            "yaxis": {
                "range": [len(effects) - 0.5, -0.8],
                "showticklabels": False,
                "showgrid": False,
                "zeroline": False,
            },
            "shapes": [_line({"xref": "x", "yref": "paper", "x0": 0, "x1": 0, "y0": 0, "y1": 1})],
            "annotations": shown,
        },
    }


def _estimates(verdict: str, effects: Sequence[Effect], rows: Sequence[int], colour: str, symbol: str) -> Figure:
    above = [0.0 if effect.high is None else effect.high - (effect.mean or 0.0) for effect in effects]
    below = [0.0 if effect.low is None else (effect.mean or 0.0) - effect.low for effect in effects]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": verdict,
        "x": [effect.mean for effect in effects],
        "y": list(rows),
        "error_x": {
            "array": above,
            "arrayminus": below,
            "symmetric": False,
            "color": colour,
            "thickness": 2,
            "width": 5,
        },
        "marker": {"color": colour, "symbol": symbol, "size": 10},
        "hovertemplate": "%{x:+.1f} %<extra></extra>",
    }


def _margin(effect: Effect) -> tuple[float, float]:
    return 100 / (1 + effect.margin) - 100, 100 * effect.margin


def _range(effects: Sequence[Effect]) -> list[float]:
    """Very wide intervals would flatten the others."""
    ends = sorted(abs(end) for effect in effects for end in (effect.low, effect.high) if end is not None)
    estimates = [abs(effect.mean) for effect in effects if effect.mean is not None]
    usual = 2 * ends[int(0.8 * (len(ends) - 1))] if ends else 0.0
    of_intervals = min(max(ends, default=0.0), usual, 100.0)
    reach = 1.15 * max(SMALLEST_RANGE, of_intervals, *estimates, *(100 * effect.margin for effect in effects))
    return [max(-reach, -105.0), reach]


def _line(where: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "line", **where, "line": {"color": QUIET, "width": 1.5}}


def pairs_figure(effect: Effect, label: str) -> Figure:
    """Draw each pair's change, by order, with mean, interval, and margin."""
    shown = [pair for pair in effect.pairs if pair.change is not None]
    traces = []
    for side, name, colour, symbol in ((0, "base ran first", BASE, "circle"), (1, "head ran first", HEAD, "diamond")):
        own = [pair for pair in shown if pair.ran_first == side]
        points = {"x": [int(pair.pair) for pair in own], "y": [pair.change for pair in own]}
        look = {
            "marker": {"color": colour, "symbol": symbol, "size": 10},
            "hovertemplate": "pair %{x}: %{y:+.1f} %<extra></extra>",
        }
        if own:
            traces.append({"type": "scatter", "mode": "markers", "name": name, **points, **look})
    low, high = _margin(effect)
    across = {"xref": "paper", "yref": "y", "x0": 0, "x1": 1}
    shapes = [
        {"type": "rect", **across, "y0": low, "y1": high, "fillcolor": WASH, "line": {"width": 0}, "layer": "below"},
        _line({**across, "y0": 0, "y1": 0}),
    ]
    if effect.low is not None and effect.high is not None:
        wash = LOOKS.get(effect.verdict or "", (QUIET, ""))[0]
        interval = {**across, "y0": effect.low, "y1": effect.high, "line": {"width": 0}, "layer": "below"}
        shapes.append({"type": "rect", **interval, "fillcolor": wash, "opacity": 0.22})
        shapes.append(
            {"type": "line", **across, "y0": effect.mean, "y1": effect.mean, "line": {"color": wash, "width": 2}}
        )
    return {
        "data": traces,
        "layout": {
            "height": 330,
            "margin": {"l": 64, "r": 16, "t": 50, "b": 84},
            "showlegend": True,
            "legend": {"orientation": "h", "x": 0, "y": -0.24, "yanchor": "top"},
            "hovermode": "closest",
            "xaxis": {"title": {"text": "pair"}, "dtick": 1 if len(shown) <= 20 else 5, "range": _pair_range(shown)},
            "yaxis": {"ticksuffix": " %", "zeroline": False, "range": _height(effect, shown)},
            "shapes": shapes,
            "annotations": [_heading(label)],
        },
    }


def _pair_range(shown: Sequence[PairOfRuns]) -> list[float]:
    numbers = [int(pair.pair) for pair in shown]
    return [min(numbers) - 0.6, max(numbers) + 0.6]


def _height(effect: Effect, shown: Sequence[PairOfRuns]) -> list[float]:
    seen = [0.0, *_margin(effect), *(pair.change for pair in shown if pair.change is not None)]
    low, high = min(seen), max(seen)
    room = high - low
    if effect.low is not None and effect.high is not None:
        low, high = min(low, max(effect.low, low - room)), max(high, min(effect.high, high + room))
    return [low - 0.08 * room, high + 0.08 * room]


def _heading(text: str) -> dict[str, Any]:
    where = {"xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "yshift": 6}
    return {
        **where,
        "text": f"<b>{'<br>'.join(textwrap.wrap(text, LINE))}</b>",
        "align": "left",
        "showarrow": False,
        "font": {"size": 13},
    }


def latency(rows: Sequence[PhaseLatency], percentiles: Mapping[str, str]) -> Figure:
    """Draw percentiles per phase and side: median, lowest and highest run."""
    phases = list(dict.fromkeys(row.phase for row in rows))
    traces = []
    arms: Sequence[tuple[Arm, str, str, float]] = (("base", BASE, "circle", -0.06), ("head", HEAD, "diamond", 0.06))
    for arm, colour, symbol, shift in arms:
        for dash, (metric, percentile) in zip(("dot", "solid", "dash"), percentiles.items(), strict=True):
            of_phase = {row.phase: row.of(arm) for row in rows if row.metric == metric and row.of(arm)}
            if of_phase:
                look = {"line": {"color": colour, "dash": dash, "width": 1.6}}
                look["marker"] = {"color": colour, "symbol": symbol, "size": 8}
                places = [at + shift for at in range(len(phases))]
                drawn = _spread([of_phase.get(phase) for phase in phases], colour)
                traces.append({"name": f"{arm} {percentile}", "x": places, **drawn, **look})
    ends = [value for row in rows for value in (*row.base, *row.head)]
    least, most = min(ends, default=1.0), max(ends, default=1.0)
    log_scale = {"type": "log", "dtick": "D2" if most < FEW_TICKS * least else 1}
    scale = {"type": "linear"} if most < NO_LOG * least else log_scale
    wrapped = ["<br>".join(textwrap.wrap(phase or "whole run", LABEL)) for phase in phases]
    return {
        "data": traces,
        "layout": {
            "height": 420,
            "margin": {"l": 64, "r": 16, "t": 10, "b": 120},
            "showlegend": True,
            "legend": {"orientation": "h", "x": 0, "y": -0.2, "yanchor": "top"},
            "hovermode": "closest",
            "xaxis": {"tickvals": list(range(len(phases))), "ticktext": wrapped, "range": [-0.5, len(phases) - 0.5]},
            "yaxis": {"title": {"text": "latency (ms)"}, **scale},
        },
    }


def _spread(phases: Sequence[Sequence[float] | None], colour: str) -> Figure:
    middle = [median(values) if values else None for values in phases]
    up = [max(values) - median(values) if values else None for values in phases]
    down = [median(values) - min(values) if values else None for values in phases]
    error = {"array": up, "arrayminus": down, "symmetric": False, "color": colour, "thickness": 1.2, "width": 3}
    hover = {"hovertemplate": "%{y:.3g} ms<extra></extra>"}
    return {"type": "scatter", "mode": "lines+markers", "connectgaps": False, "y": middle, "error_y": error, **hover}
