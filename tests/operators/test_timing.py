"""Limits and estimates follow from the scenario."""

from __future__ import annotations

from datetime import timedelta

from clusters.scenario import parse_scenario
from operators import timing

STORY = """
name: story
why: for its durations
cluster: {brokers: 1}
topics: {orders: {replicas: [A]}}
phases:
  - quiet: [{hold: 5s}, {hold: 10s}]
  - waits: [{hold: 1s}, {wait: {for: {isr_full: orders}, limit: 30s}}]
"""


def test_a_phase_may_use_up_every_limit() -> None:
    """Holds and limits add up, with a margin of two minutes."""
    quiet, waits = parse_scenario(STORY, "story").phases

    assert [timing.phase_limit(quiet), timing.phase_limit(waits)] == [timedelta(seconds=135), timedelta(seconds=151)]


def test_a_run_takes_its_phases_and_its_tasks() -> None:
    """The estimate of the whole is the sum of its parts."""
    beside = timing.AIRFLOW_S + sum(timing.EXPECTED_S.values())

    assert timing.expected_s(parse_scenario(STORY, "story")) == beside + 26.0
