"""Figures of a watch and of runs on a cluster of others, from literal rounds."""

import numpy as np

from bench.attached import Cores, rows, sent_per_s


def test_a_figure_is_the_median_round() -> None:
    """Cores of the tool, cores added to each broker (never below 0), and the ratio of two loads."""
    rounds = [Cores(0.1, 0.05, 0.06), Cores(0.2, 0.05, 0.07), Cores(0.05, 0.06, 0.05)]
    figures = {each["target"]: each["figure"] for each in rows(rounds, [(1000, 900), (1000, 990), (500, 500)])}
    assert figures == {"watch_cpu": 0.1, "watched_broker_cpu": 0.01, "attached_load": 0.99}


def test_records_of_the_phase_are_counted() -> None:
    """Those at its end are not."""
    assert sent_per_s(np.array([0, 5, 9, 10]), 5, 10) == 2 / 5e-9
