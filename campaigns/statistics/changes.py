"""Change points (ruptures) in series of nightly runs, as log-ratios of later to earlier.

A point is the median of a nightly run's good runs, since they share the host's state
(docs/dev/adr/0008-change-points.md).
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise, starmap
from statistics import fmean, median
from typing import Any, Literal, NamedTuple

import numpy as np
import ruptures  # type: ignore[import-untyped]
from scipy import stats

from campaigns.statistics.effects import Better, percent
from history.results.nightly import Point

ALPHA = 0.001  # 2 to 3 % false changes in 30 quiet points
MIN_NIGHTLY_RUNS = 8  # before the screened one, to estimate noise
MIN_BEFORE = 3  # of the level before a change
CONTROL_ALPHA = 0.01  # a false move costs a nightly run, a missed one two reruns
MIN_PAIRS = 3

Row = Mapping[str, Any]


class Key(NamedTuple):
    """The conditions of comparable points; a new digest or machine (``host``) starts a series."""

    scenario: str
    scenario_digest: str
    kafka_version: str
    metric: str
    phase: str
    host: str


class Change(NamedTuple):
    """Two levels of a series; ``log`` is the log-ratio with its 95 % interval.

    Indices: ``first`` and ``until`` bound the earlier level, ``since`` starts the later one.
    """

    first: int
    since: int
    before: float
    after: float
    log: float
    low: float
    high: float
    p: float
    until: int


class Confirmation(NamedTuple):
    """Interleaved reruns' result: a log-ratio with interval, and the numbers behind it."""

    verdict: Literal["confirmed", "refuted", "inconclusive"]
    why: str
    pairs: int
    nightly_runs: int
    log: float | None = None
    low: float | None = None
    high: float | None = None


def is_good(row: Row) -> bool:
    """Check that a run may be a baseline: passed, with a trusted value."""
    return bool(row["verdict"] == "pass" and row["trusted"] and row["value"] is not None)


def key_of(row: Row) -> Key:
    """Return a row's series."""
    return Key(*(row[name] for name in Key._fields))


def series(rows: Iterable[Row], floors: Mapping[str, float]) -> dict[Key, list[Point]]:
    """Return each series' points, the oldest first.

    ``floors`` maps wanted metrics to the value below which all are equal. Values not above 0 are left out.
    """
    found: dict[Key, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["metric"] in floors and is_good(row) and max(row["value"], floors[row["metric"]]) > 0:
            found[key_of(row)][row["labels"]["campaign"]].append(row)
    return {key: _points(nightly_runs, floors[key.metric]) for key, nightly_runs in found.items()}


def _points(nightly_runs: Mapping[str, list[Row]], floor: float) -> list[Point]:
    """Add the software changes since the previous point."""
    in_order = sorted((_point(name, runs, floor) for name, runs in nightly_runs.items()), key=lambda p: p.at)
    software = [_software(nightly_runs[point.nightly_run][0]) for point in in_order]
    changed = [[], *starmap(_changed, pairwise(software))]
    return [point.model_copy(update={"changed": own}) for point, own in zip(in_order, changed, strict=True)]


def _software(row: Row) -> dict[str, str]:
    own = {"Plimsoll": row.get("plimsoll"), "the judge": row.get("judge")}
    return {**(row.get("environment") or {}), **{name: version for name, version in own.items() if version}}


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    both = sorted(before.keys() & after.keys())
    return [f"{name} {before[name]} to {after[name]}" for name in both if before[name] != after[name]]


def _point(nightly_run: str, runs: list[Row], floor: float) -> Point:
    values = sorted((max(row["value"], floor), row["censored"]) for row in runs)
    middle = median(value for value, _ in values)
    censored = any(censored for value, censored in values if value <= middle)
    at = min(row["started_at"] for row in runs)
    return Point(
        nightly_run=nightly_run,
        at=at,
        value=middle,
        low=values[0][0],
        high=values[-1][0],
        runs=len(values),
        censored=censored,
        build=runs[0]["labels"].get("build", ""),
        link=runs[0]["labels"].get("link", ""),
    )


def window(points: Sequence[Point], nightly_runs: int, pinned: Collection[str] = ()) -> list[Point]:
    """Return the newest point and its reference: ``nightly_runs`` before it, and pinned ones, which prevent drift.

    The best value ever is no reference: one lucky nightly run would make later ones look slow.
    """
    kept = points[-nightly_runs - 1 :]
    return [*(point for point in points[: -nightly_runs - 1] if point.nightly_run in pinned), *kept]


def logs(points: Iterable[Point]) -> list[float]:
    """Return the values' logarithms."""
    return [math.log(point.value) for point in points]


def missing_nightly_runs(points: Sequence[Point]) -> int:
    """Count the nightly runs that screening still lacks."""
    return max(0, MIN_NIGHTLY_RUNS + 1 - len(points))


def latest_change(values: Sequence[float]) -> Change | None:
    """Return the last significant change of level, if any.

    Best split by least squares, then a t test with pooled variance, so that one later nightly run suffices. Later
    values are searched again, so that a fixed regression is not reported.
    """
    found = None
    start = 0
    while len(values) - start > MIN_BEFORE:
        since = start + _best_split(values[start:])
        change = levels(values, start, since)
        if not change.p < ALPHA:  # nan if all values are equal
            break
        found = change if since - start >= MIN_BEFORE else found
        start = since
    return found


def worst_change(values: Sequence[float], better: Better, *, pinned: int = 0) -> Change | None:
    """Return the newest level's largest significant worsening.

    ``latest_change`` misses a partial fix's rest, and the sum of small steps. All tests share ``ALPHA``.
    """
    *earlier, (newest, _) = _levels_of(values, 0, len(values))
    others = {
        (first, until)
        for first, until in (*earlier, (0, pinned))
        if until - first >= MIN_BEFORE and until <= newest
    }  # fmt: skip
    found = [levels(values, first, newest, until=until) for first, until in sorted(others)]
    worse = [change for change in found if change.p < ALPHA / len(found) and is_worse(change.log, better)]
    return max(worse, key=lambda change: abs(change.log), default=None)


def screened(values: Sequence[float], better: Better, *, margin: float, pinned: int = 0) -> Change | None:
    """Return the latest change, or a worse one beyond the margin against an earlier level."""
    latest, worst = latest_change(values), worst_change(values, better, pinned=pinned)
    if worst is None or not is_beyond(worst, margin):
        return latest
    return latest if latest and is_worse(latest.log, better) and abs(latest.log) >= abs(worst.log) else worst


def is_beyond(change: Change, margin: float) -> bool:
    """Check that a change is at least the margin, in either direction."""
    return abs(percent(change.log)) >= 100 * margin


def _levels_of(values: Sequence[float], first: int, until: int) -> list[tuple[int, int]]:
    if until - first > MIN_BEFORE:
        since = first + _best_split(values[first:until])
        if levels(values[:until], first, since).p < ALPHA:
            return [*_levels_of(values, first, since), *_levels_of(values, since, until)]
    return [(first, until)]


def _best_split(values: Sequence[float]) -> int:
    search = ruptures.Binseg(model="l2", min_size=1, jump=1).fit(np.array(values).reshape(-1, 1))
    return int(search.predict(n_bkps=1)[0])


def levels(
    values: Sequence[float], first: int, since: int, confidence: float = 0.95, *, until: int | None = None
) -> Change:
    """Compare values from ``since`` on with earlier ones; p is nan if all are equal."""
    until = since if until is None else until
    before, after = values[first:until], values[since:]
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # levels without noise
        test = stats.ttest_ind(after, before)
        low, high = test.confidence_interval(confidence)
    log = fmean(after) - fmean(before)
    size = (log, float(low), float(high), float(test.pvalue))
    return Change(first, since, math.exp(fmean(before)), math.exp(fmean(after)), *size, until)


def is_worse(log: float, better: Better) -> bool:
    """Return whether a change is for the worse."""
    return (log > 0) == (better == "lower") and log != 0


def visible(values: Sequence[float]) -> float | None:
    """Return the log-ratio of a nightly run that the screen detects half the time; None for too few."""
    n = len(values)
    if n < MIN_NIGHTLY_RUNS:
        return None
    return float(stats.t.isf(ALPHA / 2, n - 1) * np.std(values, ddof=1) * math.sqrt(1 + 1 / n))


def control_moved(
    control: Sequence[Point], before: Collection[str], after: Collection[str], log: float, among: int = 1
) -> bool | None:
    """Check that the control changed likewise: same direction, at least half the size, significant among ``among``."""
    earlier = logs(point for point in control if point.nightly_run in before)
    later = logs(point for point in control if point.nightly_run in after)
    if len(earlier) < MIN_BEFORE or not later:
        return None
    move = levels([*earlier, *later], 0, len(earlier))
    return move.p < CONTROL_ALPHA / among and move.log * log > 0 and abs(move.log) >= abs(log) / 2


def confirm(
    reruns: Sequence[float], before: Sequence[float], *, margin: float, better: Better, alpha: float = 0.05
) -> Confirmation:
    """Decide whether a candidate worsened relative to a release, which cannot change.

    Common slowdowns cancel. The interval is the wider of Welch's and one that counts all reruns as one nightly run.
    Confirmed: it excludes 0, the estimate exceeds the margin. Refuted: it ends below the margin.
    """
    if len(reruns) < MIN_PAIRS or len(before) < MIN_BEFORE:
        had = f"{len(reruns)} pairs and {len(before)} nightly runs before"
        why = f"{had}; at least {MIN_PAIRS} and {MIN_BEFORE} are needed"
        return Confirmation("inconclusive", why, len(reruns), len(before))
    current = levels([*before, fmean(reruns)], 0, len(before), 1 - alpha)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # pairs without noise
        welch = stats.ttest_ind(reruns, before, equal_var=False).confidence_interval(1 - alpha)
    log, low, high = current.log, min(current.low, float(welch.low)), max(current.high, float(welch.high))
    worst = (log, low, high) if better == "lower" else (-log, -high, -low)
    bound = math.log1p(margin)
    counted = (len(reruns), len(before), log, low, high)
    if worst[1] > 0 and worst[0] >= bound:
        return Confirmation("confirmed", "the interval excludes no change; the estimate is beyond the margin", *counted)
    if worst[2] < bound:
        return Confirmation("refuted", "the whole interval lies below the margin", *counted)
    return Confirmation("inconclusive", "the interval holds a change beyond the margin, and one below it", *counted)
