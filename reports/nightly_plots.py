"""The figure of many nightly runs as plain Plotly JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from history.results.nightly import Series
from reports.figures import PALETTE, Figure, Trace, band, layout, note, scatter, upright

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
    lowest = "y" if len(strips) == 1 else f"y{len(strips)}"
    axes: Figure = {"xaxis": {"type": "date", "anchor": lowest, "range": _range(series)}}
    titles, lines = [], []
    data: list[Trace] = []
    shown: set[str] = set()
    for row, strip in enumerate(strips):
        axis = "y" if row == 0 else f"y{row + 1}"
        top = 1 - row * (STRIP + GAP) / drawn
        own = [each for each in series if _strip(each) == strip]
        axes[f"yaxis{axis[1:]}"] = {
            "domain": [max(0.0, top - STRIP / drawn), top],
            "range": _scale(own),
            "nticks": 4,
            "ticksuffix": f" {own[0].unit}".rstrip(),
        }
        titles.append(note(_title(strip), 0, top))
        changed = {point.at for each in own for point in each.points if point.changed}
        for each in own:
            version = each.kafka_version
            data += _traces(each, axis, versions.index(version), is_first=version not in shown)
            shown.add(version)
            if each.state in TELLING and each.change:
                lines.append(upright(each.change.since_at, f"{axis} domain", dash="dot"))
        lines += [upright(at, f"{axis} domain", dash="dash") for at in sorted(changed)]
    height, legend = drawn + TOP + BOTTOM, -36 / drawn
    return {
        "data": data,
        "layout": layout(height, top=TOP, bottom=BOTTOM, legend=legend, annotations=titles, shapes=lines, **axes),
    }


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


def _traces(each: Series, axis: str, number: int, *, is_first: bool) -> list[Trace]:
    colour, version, points = PALETTE[number % len(PALETTE)], each.kafka_version, each.points
    times, place = [point.at for point in points], {"yaxis": axis, "legendgroup": version}
    lows, highs = [point.low for point in points], [point.high for point in points]
    line = scatter(
        version,
        times,
        [point.value for point in points],
        "lines+markers",
        line={"color": colour, "width": 2},
        marker={"color": colour, "symbol": SYMBOLS[number % len(SYMBOLS)], "size": 7},
        showlegend=is_first,
        text=[point.nightly_run for point in points],
        hovertemplate=f"{version}, %{{text}}: %{{y:.4g}} {each.unit}<extra></extra>",
        **place,
    )
    return [*band(each.name, times, lows, highs, colour, **place), line]


def _title(text: str) -> str:
    """Break a title that is wider than a phone."""
    return text.replace(", ", ",<br>", 1) if len(text) > MAX_LINE else text
