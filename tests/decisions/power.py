"""Simulate the error rates of a comparison of ten pairs: ``python -m tests.decisions.power``.

Writes docs/data/power.json. Runs are random, not measured on Kafka; the functions of real comparisons evaluate them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from campaigns.statistics.effects import detection_rate, holm, paired_effect, verdict_of
from campaigns.statistics.intervals import clopper_pearson
from tests.rows import DATA, write

RESULTS = DATA / "power.json"

SIMULATIONS = 4_000
PAIRS = 10
MARGIN = 0.05
SLOWDOWNS = (0.0, 0.03, 0.05, 0.10, 0.20)
NOISES = (0.02, 0.05, 0.10)  # standard deviation of a run's logarithm
STEP = 0.02  # a wandering host's standard deviation between runs
SLOWER = 0.20  # of a drifting host, from its first to its last run
HOSTS = {
    "steady": "nothing but the noise of each run",
    "drifting": f"slower by {SLOWER:.0%} from the first run to the last, at a steady pace",
    "wandering": f"a random walk with steps of {STEP:.0%} from run to run",
}
FAMILY = 3  # primary metrics of one comparison
Logs = np.ndarray[Any, Any]


def host(rng: np.random.Generator, kind: str, runs: int) -> Logs:
    """Return the log of the host's slowdown at each run."""
    if kind == "drifting":
        return np.linspace(0, math.log1p(SLOWER), runs)
    return np.cumsum(rng.normal(0, STEP, runs)) if kind == "wandering" else np.zeros(runs)


def comparison(
    rng: np.random.Generator, kind: str, noise: float, slowdown: float, *, interleaved: bool = True
) -> list[float]:
    """Return log-ratios of ten pairs: in random ABBA order, or base first."""
    runs = host(rng, kind, 2 * PAIRS) + rng.normal(0, noise, 2 * PAIRS)
    first, second = (runs[::2], runs[1::2]) if interleaved else (runs[:PAIRS], runs[PAIRS:])
    turned = (np.arange(PAIRS) + rng.integers(2)) % 2 if interleaved else np.zeros(PAIRS)
    return [float(log) for log in np.where(turned, first - second, second - first) + math.log1p(slowdown)]


def verdicts(
    seed: int,
    kind: str,
    noise: float,
    slowdown: float,
    *,
    simulations: int = SIMULATIONS,
    interleaved: bool = True,
) -> Counter[str]:
    """Count the verdicts on one metric for which lower is better."""
    rng = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    for _ in range(simulations):
        effect = paired_effect(comparison(rng, kind, noise, slowdown, interleaved=interleaved))
        if effect:
            found[verdict_of(effect, margin=MARGIN, better="lower", p_adjusted=effect.p)] += 1
    return found


def family_false_alarms(seed: int, noise: float, margin: float, simulations: int = SIMULATIONS) -> int:
    """Count comparisons without a difference that call any primary metric worse or better."""
    rng = np.random.default_rng(seed)
    alarms = 0
    for _ in range(simulations):
        drawn = [paired_effect(comparison(rng, "steady", noise, 0.0)) for _ in range(FAMILY)]
        effects = [effect for effect in drawn if effect]
        adjusted = holm([effect.p for effect in effects])
        told = {
            verdict_of(effect, margin=margin, better="lower", p_adjusted=p)
            for effect, p in zip(effects, adjusted, strict=True)
        }
        alarms += bool(told & {"regression", "improvement"})
    return alarms


def rows(simulations: int = SIMULATIONS) -> Iterator[dict[str, Any]]:
    """Yield a row per host, noise and slowdown, with the formula's rate."""
    seed = 0
    for kind in HOSTS:
        for noise in NOISES:
            for slowdown in SLOWDOWNS:
                seed += 1
                found = verdicts(seed, kind, noise, slowdown, simulations=simulations)
                sd = noise * math.sqrt(2)  # of a pair's difference
                computed = detection_rate(math.log1p(slowdown), sd=sd, pairs=PAIRS, margin=MARGIN)
                yield {
                    "host": kind,
                    "noise": noise,
                    "slowdown": slowdown,
                    "simulations": simulations,
                    **{word: found[word] for word in ("regression", "improvement", "equivalent", "inconclusive")},
                    "interval": clopper_pearson(found["regression"], simulations),
                    "computed": computed if kind == "steady" else None,
                }


def blocks(simulations: int = SIMULATIONS) -> Iterator[dict[str, Any]]:
    """Yield false alarms with all base runs first, and in ABBA order."""
    for index, kind in enumerate(HOSTS):
        row: dict[str, Any] = {"host": kind, "noise": NOISES[1], "simulations": simulations}
        for name, interleaved in (("blocks", False), ("abba", True)):
            found = verdicts(2_000 + index, kind, NOISES[1], 0.0, simulations=simulations, interleaved=interleaved)
            row[name] = found["regression"] + found["improvement"]
        yield row


def families(simulations: int = SIMULATIONS) -> Iterator[dict[str, Any]]:
    """Yield false alarms of whole comparisons, with the margin and with almost none."""
    for index, margin in enumerate((MARGIN, 1e-9)):
        alarms = family_false_alarms(1_000 + index, NOISES[1], margin, simulations)
        interval = clopper_pearson(alarms, simulations)
        yield {"margin": margin, "simulations": simulations, "alarms": alarms, "interval": interval}


def main() -> None:
    """Simulate and write the results."""
    write(RESULTS, {"rows": list(rows()), "blocks": list(blocks()), "families": list(families())})


if __name__ == "__main__":
    main()
