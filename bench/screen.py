"""What the nightly screen finds and what it imagines, on simulated histories: ``python -m bench.screen``.

Writes docs/data/screen.json, which ``bench.trust`` tells of. Nothing here is measured on Kafka: the histories are
drawn with known noise, so that a change is there because it was planted, or not there at all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from campaigns.statistics import changes
from campaigns.statistics.changes import Point
from campaigns.statistics.effects import percent
from campaigns.statistics.intervals import clopper_pearson

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "data" / "screen.json"

NIGHTS, RUNS, CANARY_RUNS, PAIRS, WINDOW = 60, 3, 2, 5, 30  # runs and pairs as in nightly.yaml
MARGIN = 0.05
AR = 0.5
OUTLIERS, OUTLIER_SIZE = 0.05, 8  # share of runs, in standard deviations
RATES = (
    "suspected_first_night",
    "confirmed_first_night",
    "confirmed_by_third",
    "confirmed_by_seventh",
    "right_night",
)
Logs = np.ndarray[Any, Any]
Kind = Literal["normal", "outliers", "host_ar1", "own_ar1", "host_drift"]
KINDS: dict[Kind, str] = {
    "normal": "normal noise",
    "outliers": f"{OUTLIERS:.0%} of runs are outliers ({OUTLIER_SIZE} standard deviations)",
    "host_ar1": f"AR(1) {AR} from night to night, of the host",
    "own_ar1": f"AR(1) {AR} from night to night, of the series alone",
    "host_drift": "the host drifts by a random walk",
}


@dataclass
class History:
    """Logarithms of every run, by night: the subject, the pinned release, the canary, and tonight's pairs."""

    subject: Logs
    release: Logs
    canary: Logs
    reruns: Logs


@dataclass(frozen=True)
class Night:
    """What one night would have said: suspected, held to be the host's, or confirmed, and the change behind it."""

    state: Literal["quiet", "host", "suspect", "confirmed"]
    since: int = -1
    log: float = 0.0


# --- drawing histories -----------------------------------------------------------------------------


def draw(rng: np.random.Generator, kind: Kind, sd: float, *, since: int = NIGHTS, log: float = 0.0) -> History:
    """A history whose subject is slower by ``log`` from the night ``since`` on; ``sd`` is a run's, as a logarithm."""
    host, own = np.zeros(NIGHTS), np.zeros(NIGHTS)
    if kind == "host_ar1":
        host = _ar1(rng, sd)
    if kind == "own_ar1":
        own = _ar1(rng, sd)
    if kind == "host_drift":
        host = np.cumsum(rng.normal(0, sd / 2, NIGHTS))
    slow = own + log * (np.arange(NIGHTS) >= since)

    def runs(level: Logs, count: int) -> Logs:
        noise: Logs = rng.normal(0, sd, (NIGHTS, count))
        if kind == "outliers":
            noise += (rng.random((NIGHTS, count)) < OUTLIERS) * rng.normal(0, OUTLIER_SIZE * sd, (NIGHTS, count))
        noise += (host + level)[:, None]
        return noise

    still = np.zeros(NIGHTS)
    pairs = runs(slow, PAIRS) - runs(still, PAIRS)  # the host of the night is in both, and cancels out
    return History(runs(slow, RUNS), runs(still, RUNS), runs(still, CANARY_RUNS), pairs)


def _ar1(rng: np.random.Generator, sd: float) -> Logs:
    """Night effects of standard deviation ``sd`` that are correlated from one night to the next."""
    effects = [rng.normal(0, sd)]
    for _ in range(NIGHTS - 1):
        effects.append(AR * effects[-1] + rng.normal(0, sd * math.sqrt(1 - AR**2)))
    return np.array(effects)


# --- nights ------------------------------------------------------------------------------------------


def night(history: History, tonight: int) -> Night:
    """Screen, canary and reruns on one night, by the functions that a real night uses."""
    start = max(0, tonight - WINDOW)
    nights = range(start, tonight + 1)
    values = [median(history.subject[index]) for index in nights]
    change = changes.latest_change(values)
    if change is None or percent(change.log) < 100 * MARGIN:
        return Night("quiet")
    since = start + change.since
    before = list(nights)[change.first : change.since]
    canary = [_point(index, median(history.canary[index])) for index in nights]
    told = {f"{index:02d}" for index in before}, {f"{index:02d}" for index in range(since, tonight + 1)}
    if changes.canary_moved(canary, *told, change.log):
        return Night("host", since, change.log)
    earlier = [median(history.subject[index]) - median(history.release[index]) for index in before]
    said = changes.confirm(list(history.reruns[tonight]), earlier, margin=MARGIN, better="lower")
    if said.verdict == "confirmed" and said.log is not None:
        return Night("confirmed", since, said.log)
    return Night("suspect", since, change.log)


def _point(index: int, log: float) -> Point:
    value = math.exp(log)
    return Point(f"{index:02d}", f"{index:02d}", value, value, value, 1)


def nights(history: History) -> list[Night]:
    """Every night of a history that has a basis."""
    return [night(history, tonight) for tonight in range(changes.MIN_NIGHTS, NIGHTS)]


# --- counting ------------------------------------------------------------------------------------------


def false_alarms(kind: Kind, sd: float, histories: int, seed: int) -> dict[str, Any]:
    """How many histories without any change had a suspect, and a confirmed one, on any of their nights."""
    rng = np.random.default_rng(seed)
    judged = [nights(draw(rng, kind, sd)) for _ in range(histories)]
    every = [told.state for history in judged for told in history]
    counted: dict[str, Any] = {"kind": kind, "noise": sd, "histories": histories, "nights": len(every)}
    for name, states in (
        ("screened", ("host", "suspect", "confirmed")),
        ("suspected", ("suspect", "confirmed")),
        ("confirmed", ("confirmed",)),
    ):
        shown = sum(any(told.state in states for told in history) for history in judged)
        counted[name] = {
            "histories": shown,
            "interval": clopper_pearson(shown, histories),
            "nights": sum(state in states for state in every),
        }
    return counted


def detections(percents: int, sd: float, histories: int, seed: int) -> dict[str, Any]:
    """How often a planted slowdown is suspected on its first night, and confirmed by then, the third and the seventh.

    ``right_night``: of the suspected ones on the seventh night, those whose change lies within a night of the planted
    one. ``size``: median and central 95 % of what confirmations say.
    """
    rng = np.random.default_rng(seed)
    judged = []
    for _ in range(histories):
        since = int(rng.integers(30, NIGHTS - 7))
        history = draw(rng, "normal", sd, since=since, log=math.log1p(percents / 100))
        judged.append((since, [night(history, tonight) for tonight in range(since, since + 7)]))
    seventh = [(since, told[-1]) for since, told in judged if told[-1].state in ("suspect", "confirmed")]
    sizes = [percent(told.log) for _, week in judged for told in week if told.state == "confirmed"]
    return {
        "percent": percents,
        "noise": sd,
        "histories": histories,
        "suspected_first_night": _rate([week[0].state in ("suspect", "confirmed") for _, week in judged]),
        "confirmed_first_night": _rate([week[0].state == "confirmed" for _, week in judged]),
        "confirmed_by_third": _rate([_confirmed(week[:3]) for _, week in judged]),
        "confirmed_by_seventh": _rate([_confirmed(week) for _, week in judged]),
        "right_night": _rate([abs(told.since - since) <= 1 for since, told in seventh]),
        "size": [round(float(size), 2) for size in np.quantile(sizes, (0.025, 0.5, 0.975))] if sizes else None,
    }


def _confirmed(week: Sequence[Night]) -> bool:
    return any(told.state == "confirmed" for told in week)


def _rate(shown: Sequence[bool]) -> dict[str, Any]:
    return {"shown": sum(shown), "of": len(shown), "interval": clopper_pearson(sum(shown), len(shown))}


def measure(histories: int = 200, seed: int = 1) -> dict[str, Any]:
    """Every figure."""
    return {
        "nights": NIGHTS,
        "runs": RUNS,
        "pairs": PAIRS,
        "window": WINDOW,
        "margin": MARGIN,
        "alpha": changes.ALPHA,
        "seed": seed,
        "false_alarms": [false_alarms(kind, 0.03, histories, seed) for kind in KINDS],
        "detections": [
            detections(percents, sd, histories, seed) for sd in (0.01, 0.03, 0.06) for percents in (5, 10, 20)
        ],
    }


def main() -> None:
    """Measure, and write the figures."""
    RESULTS.write_text(json.dumps(measure(), indent=1) + "\n")


if __name__ == "__main__":
    main()
