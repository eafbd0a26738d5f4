"""Detect changes in a series of nightly runs with change points (ruptures); pure functions over archive rows.

A nightly run is one point, the median of its good runs: they share the host's state and so are repeated measures, and a
median of three removes an outlier. Effects are log-ratios of later to earlier, so that halving and doubling weigh the
same. See docs/dev/adr/0008-change-points.md for the library and the test, docs/trust.md for detection rates.
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
import ruptures  # type: ignore[import-untyped]  # it ships no types
from scipy import stats

from campaigns.statistics.effects import Better, percent
from history.results.nightly import Point

ALPHA = 0.001  # of the best split: 2 to 3 % of series with 30 quiet points have a false change
MIN_NIGHTLY_RUNS = 8  # before the screened one; fewer are too few to estimate the noise
MIN_BEFORE = 3  # nightly runs of the level before a change; fewer are not a level
CONTROL_ALPHA = 0.01  # a false move of the control costs a nightly run, a missed one two reruns
MIN_PAIRS = 3

Row = Mapping[str, Any]


class Key(NamedTuple):
    """The conditions of comparable points; a new digest or machine (``host``) starts a new series."""

    scenario: str
    scenario_digest: str
    kafka_version: str
    metric: str
    phase: str
    host: str


class Change(NamedTuple):
    """Two levels of a series; the later one lasts until the series' end.

    ``first`` is the index of the earlier level's first nightly run, ``until`` of the first one after that level,
    ``since`` of the later level's first. ``log`` is the log-ratio, with its 95 % interval.
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
    """The result of interleaved reruns: the change as a log-ratio with its interval, and the numbers behind it."""

    verdict: Literal["confirmed", "refuted", "inconclusive"]
    why: str
    pairs: int
    nightly_runs: int
    log: float | None = None
    low: float | None = None
    high: float | None = None


# --- series --------------------------------------------------------------------------------------


def is_good(row: Row) -> bool:
    """Return whether a run may be a baseline: it passed, and its value exists and is trusted."""
    return bool(row["verdict"] == "pass" and row["trusted"] and row["value"] is not None)


def key_of(row: Row) -> Key:
    """Return the series of a row."""
    return Key(*(row[name] for name in Key._fields))


def series(rows: Iterable[Row], floors: Mapping[str, float]) -> dict[Key, list[Point]]:
    """Return the points of every series, the oldest nightly run first.

    ``floors`` maps the wanted metrics to the value below which all values count as equal (0: none). Rows that are not
    good and values that are not above 0, which have no logarithm, are left out.
    """
    found: dict[Key, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["metric"] in floors and is_good(row) and max(row["value"], floors[row["metric"]]) > 0:
            found[key_of(row)][row["labels"]["campaign"]].append(row)
    return {key: _points(nightly_runs, floors[key.metric]) for key, nightly_runs in found.items()}


def _points(nightly_runs: Mapping[str, list[Row]], floor: float) -> list[Point]:
    """Return the points of a series in order, each with the software changes since the previous one."""
    in_order = sorted((_point(name, runs, floor) for name, runs in nightly_runs.items()), key=lambda p: p.at)
    software = [_software(nightly_runs[point.nightly_run][0]) for point in in_order]
    changed = [[], *starmap(_changed, pairwise(software))]
    return [point.model_copy(update={"changed": own}) for point, own in zip(in_order, changed, strict=True)]


def _software(row: Row) -> dict[str, str]:
    """Return a run's software besides Kafka, as far as the archive has it."""
    own = {"Plimsoll": row.get("plimsoll"), "the judge": row.get("judge")}
    return {**(row.get("environment") or {}), **{name: told for name, told in own.items() if told}}


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
    """Return the newest point and its reference: the last ``nightly_runs`` before it, and all pinned ones.

    The best value ever is not a reference: one lucky nightly run would make all later ones look slow. Pinned nightly
    runs keep a slow drift from becoming the baseline.
    """
    kept = points[-nightly_runs - 1 :]
    return [*(point for point in points[: -nightly_runs - 1] if point.nightly_run in pinned), *kept]


def logs(points: Iterable[Point]) -> list[float]:
    """Return the logarithms of the points' values."""
    return [math.log(point.value) for point in points]


# --- the screen ----------------------------------------------------------------------------------


def missing_nightly_runs(points: Sequence[Point]) -> int:
    """Count the nightly runs that a series lacks before it can be screened."""
    return max(0, MIN_NIGHTLY_RUNS + 1 - len(points))


def latest_change(values: Sequence[float], alpha: float = ALPHA) -> Change | None:
    """Return the last change of level in a series of logarithms; None without a significant one.

    The best split (ruptures, least squares) is tested (t test, pooled variance, so that one later nightly run
    suffices). The values after a change are searched again, so that a fixed regression is not reported. A split with
    fewer than ``MIN_BEFORE`` earlier nightly runs has no level before it; only the later values are searched.
    """
    found = None
    start = 0
    while len(values) - start > MIN_BEFORE:
        since = start + _best_split(values[start:])
        change = levels(values, start, since)
        if not change.p < alpha:  # nan if all values are equal
            break
        found = change if since - start >= MIN_BEFORE else found
        start = since
    return found


def worst_change(values: Sequence[float], better: Better, *, pinned: int = 0, alpha: float = ALPHA) -> Change | None:
    """Return the largest significant worsening of the newest level against any earlier one, else None.

    ``latest_change`` misses the rest of a partial fix, and the sum of small steps. Tests against every earlier level
    and the first ``pinned`` values share ``alpha``.
    """
    *earlier, (newest, _) = _levels_of(values, 0, len(values), alpha)
    others = {
        (first, until)
        for first, until in (*earlier, (0, pinned))
        if until - first >= MIN_BEFORE and until <= newest
    }  # fmt: skip
    found = [levels(values, first, newest, until=until) for first, until in sorted(others)]
    worse = [change for change in found if change.p < alpha / len(found) and is_worse(change.log, better)]
    return max(worse, key=lambda change: abs(change.log), default=None)


def screened(values: Sequence[float], better: Better, *, margin: float, pinned: int = 0) -> Change | None:
    """Return the change to report, in either direction and of any size; None without one.

    It is the latest change, unless the newest level is even worse against an earlier one, beyond the margin.
    """
    latest, worst = latest_change(values), worst_change(values, better, pinned=pinned)
    if worst is None or not is_beyond(worst, margin):
        return latest
    return latest if latest and is_worse(latest.log, better) and abs(latest.log) >= abs(worst.log) else worst


def is_beyond(change: Change, margin: float) -> bool:
    """Return whether a change is at least the margin, in either direction."""
    return abs(percent(change.log)) >= 100 * margin


def _levels_of(values: Sequence[float], first: int, until: int, alpha: float) -> list[tuple[int, int]]:
    """Return every level between two indices, splitting at changes recursively."""
    if until - first > MIN_BEFORE:
        since = first + _best_split(values[first:until])
        if levels(values[:until], first, since).p < alpha:
            return [*_levels_of(values, first, since, alpha), *_levels_of(values, since, until, alpha)]
    return [(first, until)]


def _best_split(values: Sequence[float]) -> int:
    search = ruptures.Binseg(model="l2", min_size=1, jump=1).fit(np.array(values).reshape(-1, 1))
    return int(search.predict(n_bkps=1)[0])


def levels(
    values: Sequence[float], first: int, since: int, confidence: float = 0.95, *, until: int | None = None
) -> Change:
    """Compare the values from ``since`` on with those before it, or before ``until``; p is nan if all are equal."""
    until = since if until is None else until
    before, after = values[first:until], values[since:]
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # levels without any noise
        test = stats.ttest_ind(after, before)
        low, high = test.confidence_interval(confidence)
    log = fmean(after) - fmean(before)
    size = (log, float(low), float(high), float(test.pvalue))
    return Change(first, since, math.exp(fmean(before)), math.exp(fmean(after)), *size, until)


def is_worse(log: float, better: Better) -> bool:
    """Return whether a change is for the worse."""
    return (log > 0) == (better == "lower") and log != 0


def visible(values: Sequence[float], alpha: float = ALPHA) -> float | None:
    """Return the log-ratio of one nightly run to a steady series that the screen detects half the time.

    None for too few nightly runs. Smaller changes need more nightly runs.
    """
    n = len(values)
    if n < MIN_NIGHTLY_RUNS:
        return None
    return float(stats.t.isf(alpha / 2, n - 1) * np.std(values, ddof=1) * math.sqrt(1 + 1 / n))


def control_moved(
    control: Sequence[Point], before: Collection[str], after: Collection[str], log: float, among: int = 1
) -> bool | None:
    """Return whether the control changed likewise in the same nightly runs, so that the host is the likely cause.

    Same direction, at least half the size, and significant among ``among`` tested series. None if the control has too
    few of these nightly runs.
    """
    earlier = logs(point for point in control if point.nightly_run in before)
    later = logs(point for point in control if point.nightly_run in after)
    if len(earlier) < MIN_BEFORE or not later:
        return None
    move = levels([*earlier, *later], 0, len(earlier))
    return move.p < CONTROL_ALPHA / among and move.log * log > 0 and abs(move.log) >= abs(log) / 2


# --- the confirmation ------------------------------------------------------------------------------


def confirm(
    reruns: Sequence[float], before: Sequence[float], *, margin: float, better: Better, alpha: float = 0.05
) -> Confirmation:
    """Decide whether a candidate is worse than before, relative to a release, which cannot have changed.

    ``reruns`` are log-ratios of candidate to release in consecutive runs, ``before`` those of each nightly run before
    the change. Whatever slows both down cancels out of their difference. The interval is the wider of Welch's and of
    one that counts all these reruns as one nightly run. Confirmed: it excludes 0, and the estimate is beyond the
    margin. Refuted: it ends below the margin.
    """
    if len(reruns) < MIN_PAIRS or len(before) < MIN_BEFORE:
        had = f"{len(reruns)} pairs and {len(before)} nightly runs before"
        why = f"{had}; at least {MIN_PAIRS} and {MIN_BEFORE} are needed"
        return Confirmation("inconclusive", why, len(reruns), len(before))
    current = levels([*before, fmean(reruns)], 0, len(before), 1 - alpha)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # pairs without any noise
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
