"""Simulate the error rates of the nightly screen: ``python -m tests.decisions.screen``.

Writes docs/data/screen.json. The histories are random, not measured on Kafka.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import numpy as np

from campaigns.statistics import changes
from campaigns.statistics.effects import percent
from campaigns.statistics.intervals import clopper_pearson
from history.results.nightly import Point
from tests.rows import DATA, write

RESULTS = DATA / "screen.json"

NIGHTLY_RUNS, RUNS, CONTROL_RUNS, PAIRS, WINDOW = 60, 3, 2, 5, 30  # runs and pairs as in nightly.yaml
MARGIN = 0.05
AR = 0.5
OUTLIERS, OUTLIER_SIZE = 0.05, 8  # share of runs; size in standard deviations
RATES = (
    "candidate_in_first_run",
    "confirmed_in_first_run",
    "confirmed_by_third",
    "confirmed_by_seventh",
    "right_run",
)
Logs = np.ndarray[Any, Any]
Kind = Literal["normal", "outliers", "host_ar1", "own_ar1", "host_drift"]
KINDS: dict[Kind, str] = {
    "normal": "normal noise",
    "outliers": f"{OUTLIERS:.0%} of runs are outliers ({OUTLIER_SIZE} standard deviations)",
    "host_ar1": f"AR(1) {AR} between nightly runs, of the host",
    "own_ar1": f"AR(1) {AR} between nightly runs, of the series alone",
    "host_drift": "the host drifts by a random walk",
}


@dataclass
class History:
    """The logarithm of every run: subject, pinned release, control series, and rerun pairs."""

    subject: Logs
    release: Logs
    control: Logs
    reruns: Logs


@dataclass(frozen=True)
class NightlyRun:
    """One nightly run's result: quiet, the host's change, a candidate regression or a confirmed one."""

    state: Literal["quiet", "host", "candidate", "confirmed"]
    since: int = -1
    log: float = 0.0


# --- drawing histories -----------------------------------------------------------------------------


def draw(rng: np.random.Generator, kind: Kind, sd: float, *, since: int = NIGHTLY_RUNS, log: float = 0.0) -> History:
    """Return a random history, slower by ``log`` from ``since`` on; ``sd`` is a run's, as a logarithm."""
    host, own = np.zeros(NIGHTLY_RUNS), np.zeros(NIGHTLY_RUNS)
    if kind == "host_ar1":
        host = _ar1(rng, sd)
    if kind == "own_ar1":
        own = _ar1(rng, sd)
    if kind == "host_drift":
        host = np.cumsum(rng.normal(0, sd / 2, NIGHTLY_RUNS))
    slow = own + log * (np.arange(NIGHTLY_RUNS) >= since)

    def runs(level: Logs, count: int) -> Logs:
        noise: Logs = rng.normal(0, sd, (NIGHTLY_RUNS, count))
        if kind == "outliers":
            noise += (rng.random((NIGHTLY_RUNS, count)) < OUTLIERS) * rng.normal(
                0, OUTLIER_SIZE * sd, (NIGHTLY_RUNS, count)
            )
        noise += (host + level)[:, None]
        return noise

    still = np.zeros(NIGHTLY_RUNS)
    pairs = runs(slow, PAIRS) - runs(still, PAIRS)  # both contain the host's effect, which cancels out
    return History(runs(slow, RUNS), runs(still, RUNS), runs(still, CONTROL_RUNS), pairs)


def _ar1(rng: np.random.Generator, sd: float) -> Logs:
    """Return effects correlated between consecutive nightly runs, with this standard deviation."""
    effects = [rng.normal(0, sd)]
    for _ in range(NIGHTLY_RUNS - 1):
        effects.append(AR * effects[-1] + rng.normal(0, sd * math.sqrt(1 - AR**2)))
    return np.array(effects)


# --- nightly runs ------------------------------------------------------------------------------------------


def nightly_run(history: History, current: int) -> NightlyRun:
    """Evaluate one nightly run with the functions of a real one."""
    start = max(0, current - WINDOW)
    nightly_runs = range(start, current + 1)
    values = [median(history.subject[index]) for index in nightly_runs]
    change = changes.screened(values, "lower", margin=MARGIN)
    if change is None or not changes.is_worse(change.log, "lower") or not changes.is_beyond(change, MARGIN):
        return NightlyRun("quiet")
    since = start + change.since
    before = list(nightly_runs)[change.first : change.until]
    control = [_point(index, median(history.control[index])) for index in nightly_runs]
    told = {f"{index:02d}" for index in before}, {f"{index:02d}" for index in range(since, current + 1)}
    if changes.control_moved(control, *told, change.log):
        return NightlyRun("host", since, change.log)
    earlier = [median(history.subject[index]) - median(history.release[index]) for index in before]
    said = changes.confirm(list(history.reruns[current]), earlier, margin=MARGIN, better="lower")
    if said.verdict == "confirmed" and said.log is not None:
        return NightlyRun("confirmed", since, said.log)
    return NightlyRun("candidate", since, change.log)


def _point(index: int, log: float) -> Point:
    value = math.exp(log)
    name = f"{index:02d}"
    return Point(nightly_run=name, at=name, value=value, low=value, high=value, runs=1)


def nightly_runs(history: History) -> list[NightlyRun]:
    """Evaluate every nightly run that has enough earlier ones."""
    return [nightly_run(history, current) for current in range(changes.MIN_NIGHTLY_RUNS, NIGHTLY_RUNS)]


# --- counting ------------------------------------------------------------------------------------------


def false_alarms(kind: Kind, sd: float, histories: int, seed: int) -> dict[str, Any]:
    """Count histories without a change that had a candidate or confirmed regression."""
    rng = np.random.default_rng(seed)
    judged = [nightly_runs(draw(rng, kind, sd)) for _ in range(histories)]
    every = [told.state for history in judged for told in history]
    counted: dict[str, Any] = {"kind": kind, "noise": sd, "histories": histories, "nightly_runs": len(every)}
    for name, states in (
        ("screened", ("host", "candidate", "confirmed")),
        ("candidates", ("candidate", "confirmed")),
        ("confirmed", ("confirmed",)),
    ):
        shown = sum(any(told.state in states for told in history) for history in judged)
        counted[name] = {
            "histories": shown,
            "interval": clopper_pearson(shown, histories),
            "nightly_runs": sum(state in states for state in every),
        }
    return counted


def detections(percents: int, sd: float, histories: int, seed: int) -> dict[str, Any]:
    """Count how often a slowdown is a candidate in its first run, and confirmed by the first, third and seventh.

    ``right_run``: candidates in the seventh run placed within one nightly run of the change. ``size``: median and
    central 95 % of confirmed changes.
    """
    rng = np.random.default_rng(seed)
    judged = []
    for _ in range(histories):
        since = int(rng.integers(30, NIGHTLY_RUNS - 7))
        history = draw(rng, "normal", sd, since=since, log=math.log1p(percents / 100))
        judged.append((since, [nightly_run(history, current) for current in range(since, since + 7)]))
    seventh = [(since, told[-1]) for since, told in judged if told[-1].state in ("candidate", "confirmed")]
    sizes = [percent(told.log) for _, week in judged for told in week if told.state == "confirmed"]
    return {
        "percent": percents,
        "noise": sd,
        "histories": histories,
        "candidate_in_first_run": _rate([week[0].state in ("candidate", "confirmed") for _, week in judged]),
        "confirmed_in_first_run": _rate([week[0].state == "confirmed" for _, week in judged]),
        "confirmed_by_third": _rate([_confirmed(week[:3]) for _, week in judged]),
        "confirmed_by_seventh": _rate([_confirmed(week) for _, week in judged]),
        "right_run": _rate([abs(told.since - since) <= 1 for since, told in seventh]),
        "size": [round(float(size), 2) for size in np.quantile(sizes, (0.025, 0.5, 0.975))] if sizes else None,
    }


def _confirmed(week: Sequence[NightlyRun]) -> bool:
    return any(told.state == "confirmed" for told in week)


def _rate(shown: Sequence[bool]) -> dict[str, Any]:
    return {"shown": sum(shown), "of": len(shown), "interval": clopper_pearson(sum(shown), len(shown))}


def measure(histories: int = 200, seed: int = 1) -> dict[str, Any]:
    """Return all figures."""
    return {
        "nightly_runs": NIGHTLY_RUNS,
        "runs": RUNS,
        "pairs": PAIRS,
        "window": WINDOW,
        "margin": MARGIN,
        "alpha": changes.ALPHA,
        "worst_change": True,  # rows before 2026-11-29 lack this comparison
        "seed": seed,
        "false_alarms": [false_alarms(kind, 0.03, histories, seed) for kind in KINDS],
        "detections": [
            detections(percents, sd, histories, seed) for sd in (0.01, 0.03, 0.06) for percents in (5, 10, 20)
        ],
    }


def main() -> None:
    """Measure and write the figures."""
    write(RESULTS, measure())


if __name__ == "__main__":
    main()
