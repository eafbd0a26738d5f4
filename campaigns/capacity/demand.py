"""What a cluster was asked for so far, by its own metrics: load, peak and growth. docs/capacity.md has the rules."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from scipy import stats

from campaigns.statistics.capacity import CONFIDENCE, DAYS_A_MONTH
from history.errors import BadInput

WEEK_S = 7 * 86_400.0
MIN_WEEKS = 4
WHOLE = 0.9  # the share of a week's rows that must be there for it to count


class Row(NamedTuple):
    """Seconds since 1970, and MB/s in and out from then on; None where nothing was told of it."""

    at_s: float
    mb_in: float
    mb_out: float | None


class Demand(NamedTuple):
    """The mean of the last whole week, the highest row of the last four over their mean, consumer groups by bytes out
    over bytes in (None: nothing was told), growth by month at 90 %, and of how many whole weeks.
    """

    write_mb_per_s: float
    burst: float
    consumer_groups: int | None
    growth_per_month: tuple[float, float]
    weeks: int


def read(path: Path) -> list[Row]:
    """The rows of a file, oldest first: CSV with bytes by hour (or any other step), or a result of Prometheus with
    bytes a second.

    Raises:
        BadInput: it is missing, or has neither form.
    """
    try:
        text = path.read_text()
    except (OSError, ValueError) as error:
        raise BadInput(f"demand: {path} cannot be read: {error}.") from error
    try:
        rows = _of_prometheus(json.loads(text)) if text.lstrip().startswith("{") else _of_csv(text.splitlines())
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise BadInput(
            f"demand: {path} is neither CSV with the columns time, bytes_in and perhaps bytes_out nor the answer of "
            f"Prometheus to query_range: {type(error).__name__} {error}."
        ) from error
    return sorted(rows, key=lambda row: row.at_s)


def _of_csv(lines: Iterable[str]) -> list[Row]:
    told = [(_seconds(row["time"]), row) for row in csv.DictReader(lines)]
    step_s = _step_s([at_s for at_s, _ in told])
    return [
        Row(at_s, _bytes(row["bytes_in"]) / step_s / 1e6, _bytes(out) / step_s / 1e6 if out else None)
        for at_s, row in told
        for out in [row.get("bytes_out")]
    ]


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _bytes(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{text} is no number of bytes")
    return value


def _of_prometheus(answer: Mapping[str, Any]) -> list[Row]:
    """The sum of its series: one for each broker, as a rule."""
    sums: dict[float, float] = defaultdict(float)
    for series in answer["data"]["result"]:
        for at_s, value in series["values"]:
            sums[float(at_s)] += _bytes(value) / 1e6
    return [Row(at_s, mb_in, None) for at_s, mb_in in sums.items()]


def _step_s(at_s: Sequence[float]) -> float:
    steps = [later - earlier for earlier, later in pairwise(sorted(at_s))]
    if not steps or median(steps) <= 0:
        raise ValueError("at least two different times are needed")
    return median(steps)


def demand(rows: Sequence[Row]) -> Demand:
    """Load, peak, groups and growth. Growth is the slope of ln(load) over whole weeks, so that weekdays cancel out; its
    interval is the t interval of that line.

    Raises:
        BadInput: there are fewer than four whole weeks, or one without load.
    """
    weeks = _weeks(rows)
    if len(weeks) < MIN_WEEKS:
        raise BadInput(
            f"demand has {len(weeks)} whole weeks; growth needs {MIN_WEEKS} or more, each with {WHOLE:.0%} of its rows."
        )
    means = [fmean(row.mb_in for row in week) for _, week in weeks]
    if min(means) <= 0:
        raise BadInput("demand has a week without any load; leave out what lies before it.")
    recent = [row for _, week in weeks[-MIN_WEEKS:] for row in week]
    told = [row for row in recent if row.mb_out is not None]
    fan_out = sum(row.mb_out or 0.0 for row in told) / sum(row.mb_in for row in told) if told else None
    return Demand(
        write_mb_per_s=means[-1],
        burst=max(1.0, max(row.mb_in for row in recent) / fmean(row.mb_in for row in recent)),
        # What is read twice by chance is no group.
        consumer_groups=None if fan_out is None else math.ceil(fan_out - 0.05),
        growth_per_month=_growth([number for number, _ in weeks], means),
        weeks=len(weeks),
    )


def _weeks(rows: Sequence[Row]) -> list[tuple[int, list[Row]]]:
    """The whole weeks, counted back from the last row, with their numbers; oldest first."""
    if len(rows) < 2:
        return []
    end_s, step_s = rows[-1].at_s, _step_s([row.at_s for row in rows])
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[-int((end_s - row.at_s) // WEEK_S)].append(row)
    return [(number, week) for number, week in sorted(found.items()) if len(week) >= WHOLE * WEEK_S / step_s]


def _growth(numbers: Sequence[int], means: Sequence[float]) -> tuple[float, float]:
    line = stats.linregress(numbers, [math.log(mean) for mean in means])
    error = 0.0 if math.isnan(line.stderr) else float(line.stderr)  # a load that never changes
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(means) - 2)) * error
    weeks_a_month = DAYS_A_MONTH / 7
    low, high = (math.expm1((float(line.slope) + side * reach) * weeks_a_month) for side in (-1, 1))
    return low, high


def asked(question: Mapping[str, Any]) -> dict[str, Any]:
    """A question whose ``demand`` names a file, with the figures of that file; what is said beside it stays.

    Raises:
        BadInput: the file cannot be used.
    """
    if not question.get("demand"):
        return dict(question)
    found = demand(read(Path(str(question["demand"])).expanduser()))
    told = {
        "write_mb_per_s": round(found.write_mb_per_s, 4),
        "burst": round(found.burst, 3),
        "growth_per_month": [round(share, 4) for share in found.growth_per_month],
        "demand_weeks": found.weeks,
    }
    groups = {} if found.consumer_groups is None else {"consumer_groups": found.consumer_groups}
    return {**told, **groups, **question}
