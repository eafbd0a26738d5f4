"""Parts of figures, as plain Plotly JSON; the page's script adds theme colours."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

Figure = dict[str, Any]
Trace = dict[str, Any]

# Okabe and Ito's colour-blind-safe hues, visible on white and near-black.
PALETTE = ("#2a86d1", "#d97a16", "#149a78", "#b565c4", "#b58900", "#d6497f", "#6b8fa8", "#8a7a5c")
BLUE, ORANGE, GREEN, VIOLET, YELLOW, RED = PALETTE[:6]
QUIET = "rgba(128, 140, 152, 0.75)"
VERDICTS = {"pass": (GREEN, "circle"), "fail": (RED, "x"), "unknown": (YELLOW, "diamond")}  # colour, symbol


def layout(height: float, *, top: int, bottom: int, left: int = 64, legend: float | None = None, **more: Any) -> Figure:
    """Return a layout; ``legend`` is the legend's upper edge, in heights of the figure."""
    below = {"orientation": "h", "x": 0, "xanchor": "left", "y": legend, "yanchor": "top"}
    return {
        "height": height,
        "margin": {"l": left, "r": 16, "t": top, "b": bottom},
        "hovermode": "closest",
        "showlegend": legend is not None,
        **({} if legend is None else {"legend": below}),
        **more,
    }


def note(text: str, x: float, y: float, *, size: int = 12, above: float = 0, **where: Any) -> Figure:
    """Return a text whose lower left corner is at a place of the figure, ``above`` pixels higher."""
    place = {"xref": "paper", "yref": "paper", "x": x, "y": y, "xanchor": "left", "yanchor": "bottom", "yshift": above}
    return {**place, "text": text, "align": "left", "showarrow": False, "font": {"size": size}, **where}


def wrapped(text: str, letters: int) -> str:
    """Break a text into lines of so many letters."""
    return "<br>".join(textwrap.wrap(text, letters))


def upright(x: float | str, yref: str = "paper", **look: Any) -> Figure:
    """Return a vertical line."""
    line = {"color": QUIET, "width": 1.5, **look}
    return {"type": "line", "xref": "x", "yref": yref, "x0": x, "x1": x, "y0": 0, "y1": 1, "line": line}


def level(y: float | None, **look: Any) -> Figure:
    """Return a horizontal line."""
    line = {"color": QUIET, "width": 1.5, **look}
    return {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def scatter(name: str, xs: Iterable[Any], ys: Iterable[Any], mode: str = "markers", **look: Any) -> Trace:
    """Return a trace of points, lines, or both."""
    return {"type": "scatter", "name": name, "mode": mode, "x": list(xs), "y": list(ys), **look}


def band(
    name: str, xs: Sequence[Any], lows: Sequence[Any], highs: Sequence[Any], colour: str, **more: Any
) -> list[Trace]:
    """Return the filled area between two lines, which are not in the legend."""
    edge = {"line": {"width": 0}, "showlegend": False, "hoverinfo": "skip", **more}
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    fill = {"fill": "tonexty", "fillcolor": f"rgba({red}, {green}, {blue}, 0.16)"}
    return [
        scatter(f"{name}, lowest", xs, lows, "lines", **edge),
        scatter(f"{name}, highest", xs, highs, "lines", **edge, **fill),
    ]
