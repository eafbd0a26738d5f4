"""Simulate a bisection's error rates and number of runs: ``python -m tests.decisions.bisection [NAME …]``.

Writes docs/data/bisection.json. Builds are random, not measured on Kafka.
"""

from __future__ import annotations

import math
import random
import sys
from dataclasses import asdict, dataclass
from functools import cache

from campaigns.bisect.campaign import Settings
from campaigns.statistics.intervals import clopper_pearson
from campaigns.statistics.sequential import ENOUGH, FALSE_ALARM, evidence_of_effects, evidence_of_events
from tests.acceptance.experiment import of_cases
from tests.rows import DATA, Row

RESULTS = DATA / "bisection.json"
SIMULATIONS = {"share": 10_000, "change": 2_000}
LIMIT: int = Settings.model_fields["limit"].default
SEED = 1


@dataclass(frozen=True)
class Case:
    """A build: ``true`` is its share of runs with a violation, or the change of a metric whose pairs have ``sd``.

    ``least`` is the smallest share or change that the search must find.
    """

    least: float
    true: float
    sd: float | None = None

    @property
    def name(self) -> str:
        noise = "" if self.sd is None else f", noise {self.sd:g}"
        return f"{'share' if self.sd is None else 'change'} {self.true:g}, least {self.least:g}{noise}"


SHARES = [Case(least, true) for least in (0.1, 0.5) for true in (0.0, FALSE_ALARM, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)]
CHANGES = [Case(0.1, true, sd) for sd in (0.03, 0.1) for true in (-0.1, 0.0, 0.05, 0.1, 0.2, 0.5)]
CASES = {case.name: case for case in [*SHARES, *CHANGES]}


def simulated(case: Case) -> Row:
    """Return the rates of bad, good and neither, and the mean number of runs."""
    simulations = SIMULATIONS["share" if case.sd is None else "change"]
    drawn = random.Random(f"{SEED} {case.name}")
    ends = [(_events if case.sd is None else _effects)(case, drawn) for _ in range(simulations)]
    counts = {"bad": sum(end >= ENOUGH for _, end in ends), "good": sum(end <= -ENOUGH for _, end in ends)}
    intervals = {f"{word}_interval": clopper_pearson(count, simulations) for word, count in counts.items()}
    runs = sum(runs for runs, _ in ends) / simulations
    about = {"case": case.name, **asdict(case), "limit": LIMIT, "simulations": simulations}
    return {**about, **counts, **intervals, "mean_runs": round(runs, 1)}


def _events(case: Case, drawn: random.Random) -> tuple[int, float]:
    events, evidence = 0, 0.0
    for runs in range(1, LIMIT + 1):
        events += drawn.random() < case.true
        evidence = _of_counts(events, runs, case.least)
        if abs(evidence) >= ENOUGH:
            break
    return runs, evidence


@cache
def _of_counts(events: int, runs: int, least: float) -> float:
    return evidence_of_events([True] * events + [False] * (runs - events), least)


def _effects(case: Case, drawn: random.Random) -> tuple[int, float]:
    pairs: list[float] = []
    evidence = 0.0
    while len(pairs) < LIMIT and abs(evidence) < ENOUGH:
        pairs.append(drawn.gauss(math.log1p(case.true), case.sd or 0.0))
        evidence = evidence_of_effects(pairs, math.log1p(case.least))
    return len(pairs), evidence


def _words(row: Row) -> str:
    return f"{row['case']}: bad {row['bad']}, good {row['good']} of {row['simulations']}, {row['mean_runs']} runs"


main = of_cases(RESULTS, "case", CASES, attempt=simulated, words=_words)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
