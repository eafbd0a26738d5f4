"""The pools of campaigns' runs."""

from __future__ import annotations

from typing import NamedTuple

from campaigns.kinds import Kind


class Pool(NamedTuple):
    """A pool of Airflow."""

    name: str
    slots: int
    description: str


BENCHMARKS = Pool("benchmark", 1, "benchmark runs, one after the other")
RUNS = Pool("runs", 8, "correctness runs; the host admits a few of them at once")


def pools_of(kind: Kind) -> list[Pool]:
    """Return the pools of a kind's runs, in the order of recording."""
    return [RUNS, BENCHMARKS] if kind.mixed else [BENCHMARKS if kind.benchmark else RUNS]
