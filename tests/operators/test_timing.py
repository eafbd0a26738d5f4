"""Limits and estimates follow from the scenario."""

from __future__ import annotations

from datetime import timedelta

import pytest

from clusters.scenario.durations import MAX_DRAIN_S
from clusters.scenario.scenario import parse_scenario
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


@pytest.mark.parametrize(
    ("load", "least_s", "most_s"),
    [("", 40, 80), ("load: {topic: orders, rate: 500/s}", 40, 80), ("load: {topic: orders, rate: 48351/s}", 300, 360)],
)
def test_judging_takes_longer_the_more_records_there_are(load: str, least_s: float, most_s: float) -> None:
    """A small run took 40 to 80 s, one of 1,257,143 records 331 s; other tasks do not follow from them."""
    scenario = parse_scenario(f"{STORY}{load}\n", "story")

    assert least_s <= timing.expected_task_s("judge", scenario) <= most_s
    assert timing.expected_task_s("collect", scenario) == timing.EXPECTED_S["collect"]


LOAD = "load: {topic: orders, engine: confluent-kafka, delivery_timeout: 10m"
LOADS = {"none": "", "plain": f"{LOAD}}}", "transactions": f"{LOAD}, transaction: {{timeout: 15m}}}}"}


@pytest.mark.parametrize(
    ("task", "load", "limit_s"),
    [
        ("stop_producers", "plain", 300 + 600),
        ("stop_clients", "plain", 300 + 600),
        ("quiesce", "plain", 300),
        ("quiesce", "transactions", 300 + 900),
        ("stop_producers", "none", 300),
        ("quiesce", "none", 300),
    ],
)
def test_a_task_may_wait_as_long_as_the_load_lets_it(task: str, load: str, limit_s: int) -> None:
    """For answers, and for a transaction that was left open; a task that waits for neither has the usual limit."""
    scenario = parse_scenario(f"{STORY}{LOADS[load]}\n", "story")

    assert timing.task_limit(task, scenario) == timedelta(seconds=limit_s)


def test_a_drain_is_given_up_by_itself_first() -> None:
    """Its own limit follows from the run's rate, which the DAG does not know; the task's comes after any of these."""
    assert timing.task_limit("drain", parse_scenario(STORY, "story")) > timedelta(seconds=MAX_DRAIN_S + 60)
