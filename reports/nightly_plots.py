"""The figure of many nightly runs as plain Plotly JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from history.results.nightly import Series
from reports.plots import PALETTE, QUIET

Figure = dict[str, Any]

STRIP, GAP, TOP, BOTTOM = 110, 40, 34, 84  # pixels
MIN_SPAN = 1.6
MAX_LINE = 42  # characters of a strip's title
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "triangle-down")
TELLING = ("confirmed", "candidate", "inconclusive", "host", "better", "moved")


def own_of(series: Sequence[Series]) -> dict[str, list[Series]]:
    """Group the matrix's series that have a point by metric."""
    found: dict[str, list[Series]] = {}
    for each in series:
        if each.role == "matrix" and each.points:
            found.setdefault(each.metric, []).append(each)
    return found


def nightly_runs_figure(series: Sequence[Series]) -> Figure:
    """Draw a strip per scenario and phase, a line and a band per version.

    Each scale spans at least MIN_SPAN, so that small noise looks small.
    """
    strips = list(dict.fromkeys(_strip(each) for each in series))
    versions = sorted({each.kafka_version for each in series})
    drawn = len(strips) * STRIP + (len(strips) - 1) * GAP
    layout: Figure = {
        "height": drawn + TOP + BOTTOM,
        "margin": {"l": 64, "r": 16, "t": TOP, "b": BOTTOM},
        "hovermode": "closest",
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": -36 / drawn, "yanchor": "top"},
        "xaxis": {"type": "date", "anchor": "y" if len(strips) == 1 else f"y{len(strips)}", "range": _range(series)},
        "annotations": [],
        "shapes": [],
    }
    data: list[Figure] = []
    shown: set[str] = set()
    for row, strip in enumerate(strips):
        axis = "y" if row == 0 else f"y{row + 1}"
        top = 1 - row * (STRIP + GAP) / drawn
        own = [each for each in series if _strip(each) == strip]
        layout[f"yaxis{axis[1:]}"] = {
            "domain": [max(0.0, top - STRIP / drawn), top],
            "range": _scale(own),
            "nticks": 4,
            "ticksuffix": f" {own[0].unit}".rstrip(),
        }
        layout["annotations"].append(_title(strip, top))
        for each in own:
            version = each.kafka_version
            data += _traces(each, axis, versions.index(version), is_first=version not in shown)
            shown.add(version)
            if each.state in TELLING and each.change:
                layout["shapes"].append(_line_at(each.change.since_at, axis, "dot"))
        layout["shapes"] += [_line_at(at, axis, "dash") for at in sorted(_markers(own))]
    return {"data": data, "layout": layout}


def _strip(each: Series) -> str:
    return f"{each.words}, {each.scenario}: {each.phase}" if each.phase else f"{each.words}, {each.scenario}"


def _range(series: Sequence[Series]) -> list[str]:
    times = sorted(datetime.fromisoformat(point.at) for each in series for point in each.points)
    room = max((times[-1] - times[0]) / 40, timedelta(hours=1) if len(set(times)) > 1 else timedelta(hours=12))
    return [(times[0] - room).isoformat(), (times[-1] + room).isoformat()]


def _scale(own: Sequence[Series]) -> list[float]:
    lowest = min(point.low for each in own for point in each.points)
    highest = max(point.high for each in own for point in each.points)
    middle, half = (lowest * highest) ** 0.5, max((highest / lowest) ** 0.5, MIN_SPAN**0.5) * 1.04
    return [middle / half, middle * half]


def _traces(each: Series, axis: str, number: int, *, is_first: bool) -> list[Figure]:
    colour, version, points = PALETTE[number % len(PALETTE)], each.kafka_version, each.points
    common = {"type": "scatter", "x": [point.at for point in points], "yaxis": axis, "legendgroup": version}
    edge = {**common, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    low = {**edge, "name": f"{each.name}, lowest", "y": [point.low for point in points]}
    high = {**edge, "name": f"{each.name}, highest", "y": [point.high for point in points], "fill": "tonexty"}
    line = {
        **common,
        "name": version,
        "mode": "lines+markers",
        "y": [point.value for point in points],
        "line": {"color": colour, "width": 2},
        "marker": {"color": colour, "symbol": SYMBOLS[number % len(SYMBOLS)], "size": 7},
        "showlegend": is_first,
        "text": [point.nightly_run for point in points],
        "hovertemplate": f"{version}, %{{text}}: %{{y:.4g}} {each.unit}<extra></extra>",
    }
    return [low, {**high, "fillcolor": _washed(colour)}, line]


def _washed(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.18)"


def _markers(own: Sequence[Series]) -> set[str]:
    return {point.at for each in own for point in each.points if point.changed}


def _line_at(at: str, axis: str, dash: str) -> Figure:
    line = {"color": QUIET, "width": 1.5, "dash": dash}
    return {"type": "line", "xref": "x", "yref": f"{axis} domain", "x0": at, "x1": at, "y0": 0, "y1": 1, "line": line}


def _title(text: str, top: float) -> Figure:
    place = {"xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left", "yanchor": "bottom"}
    if len(text) > MAX_LINE:  # width of a phone
        text = text.replace(", ", ",<br>", 1)
    return {**place, "text": text, "showarrow": False, "font": {"size": 12}}
