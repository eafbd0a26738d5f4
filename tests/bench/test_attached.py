"""Figures of a watch and of runs on a cluster of others, from literal rounds."""

import numpy as np

from bench.attached import Cores, p99_ms, rows, sent_per_s


def test_a_figure_is_the_median_round() -> None:
    """Cores of the tool, cores added to each broker (never below 0), and ratios of latencies and loads."""
    rounds = [Cores(0.1, 0.05, 0.06), Cores(0.2, 0.05, 0.07), Cores(0.05, 0.06, 0.05)]
    latencies, loads = [(10.0, 11.0), (10.0, 10.0), (8.0, 8.4)], [(1000.0, 900.0), (1000.0, 990.0), (500.0, 500.0)]
    figures = {each["target"]: each["figure"] for each in rows(rounds, latencies, loads)}
    assert figures == {"watch_cpu": 0.1, "watched_broker_cpu": 0.01, "watched_p99": 1.05, "attached_load": 0.99}


def test_records_of_the_phase_are_counted() -> None:
    """Those at its end are not."""
    assert sent_per_s(np.array([0, 5, 9, 10]), 5, 10) == 2 / 5e-9


def test_the_latency_of_a_span_is_that_of_its_records() -> None:
    """99 % of those due within it are acknowledged in this time; a slow one due at its end is not counted."""
    due_ns = np.arange(0, 102_000_000, 1_000_000)
    done_ns = due_ns + 1_000_000
    done_ns[[99, 100, 101]] += (4_000_000, 8_000_000, 90_000_000)
    assert p99_ms(due_ns, done_ns, (0, 101_000_000)) == 5.0
