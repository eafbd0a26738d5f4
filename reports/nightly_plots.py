"""The figure of many nights as plain Plotly JSON: strips one above the other, a line for each version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from reports.plots import PALETTE, QUIET

Figure = dict[str, Any]
Found = Mapping[str, Any]

STRIP, GAP, TOP, BOTTOM = 110, 40, 34, 84  # pixels
MIN_SPAN = 1.6
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "triangle-down")
TELLING = ("confirmed", "suspect", "inconclusive", "host", "better", "moved")


def own_of(series: Sequence[Found]) -> dict[str, list[Found]]:
    """The matrix's series that have a point, by metric."""
    found: dict[str, list[Found]] = {}
    for told in series:
        if told["role"] == "night" and told["points"]:
            found.setdefault(told["metric"], []).append(told)
    return found


def nights_figure(series: Sequence[Found]) -> Figure:
    """A strip for each scenario and phase, the first on top; in it a line and a band for each version.

    All strips share the time. Each has its own scale, which spans a factor of MIN_SPAN or more, so that small wobbles
    look small.
    """
    strips = list(dict.fromkeys(_strip(told) for told in series))
    versions = sorted({told["kafka_version"] for told in series})
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
        own = [told for told in series if _strip(told) == strip]
        layout[f"yaxis{axis[1:]}"] = {
            "domain": [max(0.0, top - STRIP / drawn), top],
            "range": _scale(own),
            "nticks": 4,
            "ticksuffix": f" {own[0]['unit']}".rstrip(),
        }
        layout["annotations"].append(_title(strip, top))
        for told in own:
            version = told["kafka_version"]
            data += _traces(told, axis, versions.index(version), is_first=version not in shown)
            shown.add(version)
            if told["state"] in TELLING and told["change"]:
                layout["shapes"].append(_onset(told, axis))
    return {"data": data, "layout": layout}


def _strip(told: Found) -> str:
    return f"{told['scenario']}: {told['phase']}" if told["phase"] else str(told["scenario"])


def _range(series: Sequence[Found]) -> list[str]:
    """From the first night to the last, with room at both ends; a day around one night alone."""
    times = sorted(datetime.fromisoformat(point["at"]) for told in series for point in told["points"])
    room = max((times[-1] - times[0]) / 40, timedelta(hours=1) if len(set(times)) > 1 else timedelta(hours=12))
    return [(times[0] - room).isoformat(), (times[-1] + room).isoformat()]


def _scale(own: Sequence[Found]) -> list[float]:
    lowest = min(point["low"] for told in own for point in told["points"])
    highest = max(point["high"] for told in own for point in told["points"])
    middle, half = (lowest * highest) ** 0.5, max((highest / lowest) ** 0.5, MIN_SPAN**0.5) * 1.04
    return [middle / half, middle * half]


def _traces(told: Found, axis: str, number: int, *, is_first: bool) -> list[Figure]:
    """The band from the lowest to the highest run, and the medians."""
    colour, version, points = PALETTE[number % len(PALETTE)], told["kafka_version"], told["points"]
    common = {"type": "scatter", "x": [point["at"] for point in points], "yaxis": axis, "legendgroup": version}
    edge = {**common, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    low = {**edge, "name": f"{told['name']}, lowest", "y": [point["low"] for point in points]}
    high = {**edge, "name": f"{told['name']}, highest", "y": [point["high"] for point in points], "fill": "tonexty"}
    line = {
        **common,
        "name": version,
        "mode": "lines+markers",
        "y": [point["value"] for point in points],
        "line": {"color": colour, "width": 2},
        "marker": {"color": colour, "symbol": SYMBOLS[number % len(SYMBOLS)], "size": 7},
        "showlegend": is_first,
        "text": [point["night"] for point in points],
        "hovertemplate": f"{version}, %{{text}}: %{{y:.4g}} {told['unit']}<extra></extra>",
    }
    return [low, {**high, "fillcolor": _washed(colour)}, line]


def _washed(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.18)"


def _onset(told: Found, axis: str) -> Figure:
    at = told["change"]["since_at"]
    line = {"color": QUIET, "width": 1.5, "dash": "dot"}
    return {"type": "line", "xref": "x", "yref": f"{axis} domain", "x0": at, "x1": at, "y0": 0, "y1": 1, "line": line}


def _title(text: str, top: float) -> Figure:
    place = {"xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left", "yanchor": "bottom"}
    return {**place, "text": text, "showarrow": False, "font": {"size": 12}}
