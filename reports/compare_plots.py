"""Figures of a comparison as plain Plotly JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from history.results.compare import Arm, Effect, PairOfRuns, PhaseLatency
from reports.figures import (
    BLUE,
    GREEN,
    ORANGE,
    QUIET,
    RED,
    YELLOW,
    Figure,
    Trace,
    layout,
    level,
    note,
    scatter,
    upright,
    wrapped,
)

BASE, HEAD = BLUE, ORANGE
WASH = "rgba(128, 140, 152, 0.28)"
LOOKS = {
    "regression": (RED, "x"),
    "improvement": (GREEN, "star"),
    "equivalent": (BLUE, "circle"),
    "inconclusive": (YELLOW, "diamond"),
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
    names = [wrapped(label, SHORT) for label in labels]
    pitch = ROW + NAME_LINE * max((name.count("<br>") for name in names), default=0)
    margins = [end for effect in effects for end in (*_margin(effect), None)]
    places = [end for row in rows for end in (row, row, None)]
    look: Figure = {"line": {"color": WASH, "width": 16}, "connectgaps": False, "hoverinfo": "skip"}
    traces = [scatter("margin", margins, places, "lines", **look)]
    for verdict, (colour, symbol) in LOOKS.items():
        own = [row for row in rows if effects[row].verdict == verdict and effects[row].mean is not None]
        if own:
            traces.append(_estimates(verdict, [effects[row] for row in own], own, colour, symbol))
    axis = {"range": [len(effects) - 0.5, -0.8], "showticklabels": False, "showgrid": False, "zeroline": False}
    return {
        "data": traces,
        "layout": layout(
            120 + pitch * len(effects),
            top=8,
            bottom=84,
            left=16,
            legend=-52 / (pitch * len(effects) + 28),
            xaxis={"title": {"text": "change from base to head"}, "range": _range(effects), "ticksuffix": " %"},
            yaxis=axis,
            shapes=[upright(0)],
            annotations=[note(name, 0, row, above=9, yref="y") for row, name in enumerate(names)],
        ),
    }


def _estimates(verdict: str, effects: Sequence[Effect], rows: Sequence[int], colour: str, symbol: str) -> Trace:
    above = [0.0 if effect.high is None else effect.high - (effect.mean or 0.0) for effect in effects]
    below = [0.0 if effect.low is None else (effect.mean or 0.0) - effect.low for effect in effects]
    error = {"array": above, "arrayminus": below, "symmetric": False, "color": colour, "thickness": 2, "width": 5}
    marker, hover = {"color": colour, "symbol": symbol, "size": 10}, "%{x:+.1f} %<extra></extra>"
    means = [effect.mean for effect in effects]
    return scatter(verdict, means, rows, error_x=error, marker=marker, hovertemplate=hover)


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


def pairs_figure(effect: Effect, label: str) -> Figure:
    """Draw each pair's change, by order, with mean, interval, and margin."""
    shown = [pair for pair in effect.pairs if pair.change is not None]
    traces = []
    for side, name, colour, symbol in ((0, "base ran first", BASE, "circle"), (1, "head ran first", HEAD, "diamond")):
        own = [pair for pair in shown if pair.ran_first == side]
        look = {"color": colour, "symbol": symbol, "size": 10}
        hover = "pair %{x}: %{y:+.1f} %<extra></extra>"
        if own:
            numbers, changes = [int(pair.pair) for pair in own], [pair.change for pair in own]
            traces.append(scatter(name, numbers, changes, marker=look, hovertemplate=hover))
    shapes = [_wash(*_margin(effect), WASH), level(0)]
    if effect.low is not None and effect.high is not None:
        colour = LOOKS.get(effect.verdict or "", (QUIET, ""))[0]
        shapes += [_wash(effect.low, effect.high, colour, opacity=0.22), level(effect.mean, color=colour, width=2)]
    return {
        "data": traces,
        "layout": layout(
            330,
            top=50,
            bottom=84,
            legend=-0.24,
            xaxis={"title": {"text": "pair"}, "dtick": 1 if len(shown) <= 20 else 5, "range": _pair_range(shown)},
            yaxis={"ticksuffix": " %", "zeroline": False, "range": _height(effect, shown)},
            shapes=shapes,
            annotations=[note(f"<b>{wrapped(label, LINE)}</b>", 0, 1, size=13, above=6)],
        ),
    }


def _wash(low: float, high: float, colour: str, **look: float) -> Figure:
    return {**level(low, width=0), "type": "rect", "y1": high, "fillcolor": colour, "layer": "below", **look}


def _pair_range(shown: Sequence[PairOfRuns]) -> list[float]:
    numbers = [int(pair.pair) for pair in shown]
    return [min(numbers) - 0.6, max(numbers) + 0.6]


def _height(effect: Effect, shown: Sequence[PairOfRuns]) -> list[float]:
    seen = [0.0, *_margin(effect), *(pair.change for pair in shown if pair.change is not None)]
    low, high = min(seen), max(seen)
    height = high - low
    if effect.low is not None and effect.high is not None:
        low, high = min(low, max(effect.low, low - height)), max(high, min(effect.high, high + height))
    return [low - 0.08 * height, high + 0.08 * height]


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
                spread = [of_phase.get(phase) for phase in phases]
                traces.append({**_spread(f"{arm} {percentile}", places, spread, colour), **look})
    ends = [value for row in rows for value in (*row.base, *row.head)]
    least, most = min(ends, default=1.0), max(ends, default=1.0)
    log_scale = {"type": "log", "dtick": "D2" if most < FEW_TICKS * least else 1}
    scale = {"type": "linear"} if most < NO_LOG * least else log_scale
    names = [wrapped(phase or "whole run", LABEL) for phase in phases]
    return {
        "data": traces,
        "layout": layout(
            420,
            top=10,
            bottom=120,
            legend=-0.2,
            xaxis={"tickvals": list(range(len(phases))), "ticktext": names, "range": [-0.5, len(phases) - 0.5]},
            yaxis={"title": {"text": "latency (ms)"}, **scale},
        ),
    }


def _spread(name: str, places: Sequence[float], runs: Sequence[Sequence[float] | None], colour: str) -> Trace:
    middle = [median(values) if values else None for values in runs]
    up = [max(values) - median(values) if values else None for values in runs]
    down = [median(values) - min(values) if values else None for values in runs]
    error = {"array": up, "arrayminus": down, "symmetric": False, "color": colour, "thickness": 1.2, "width": 3}
    hover = "%{y:.3g} ms<extra></extra>"
    return scatter(name, places, middle, "lines+markers", connectgaps=False, error_y=error, hovertemplate=hover)
