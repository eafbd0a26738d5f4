"""The list of a run's stages, and the limits and estimates that follow from it and the scenario."""

from __future__ import annotations

from datetime import timedelta

import pytest

from clusters.run import experiment
from clusters.run.stages import Stage, expected_s, stages
from clusters.scenario.durations import MAX_DRAIN_S
from clusters.scenario.scenario import Scenario, load_scenario, parse_scenario, scenario_names

SCENARIO = """
name: played
why: for its durations
cluster: {brokers: 1}
topics: {orders: {replicas: [A]}}
phases:
  - quiet: [{hold: 5s}, {hold: 10s}]
  - waits, twice!: [{hold: 1s}, {wait: {for: {isr_full: orders}, limit: 30s}}]
"""
LOAD = "load: {topic: orders, engine: confluent-kafka, delivery_timeout: 10m"
LOADS = {"none": "", "plain": f"{LOAD}}}", "transactions": f"{LOAD}, transaction: {{timeout: 15m}}}}"}
LOADS["grouped"] = "load: {topic: orders, delivery_timeout: 2m, group: {members: 1, session_timeout: 1m}}"


def scenario(load: str = "none") -> Scenario:
    """Two phases, with or without a load."""
    return parse_scenario(f"{SCENARIO}{LOADS[load]}\n", "played")


def stage(name: str, told: Scenario) -> Stage:
    """The stage of this name."""
    return next(stage for stage in stages(told) if stage.name == name)


def test_a_phase_is_a_stage_with_its_number_and_name() -> None:
    """Its task's name has only what Airflow takes; the call gets the name as it was written."""
    quiet, waits = (stage for stage in stages(scenario()) if stage.phase)

    assert (quiet.name, quiet.text, quiet.arguments) == ("phase_1_quiet", "phase 1/2 quiet", (0, "quiet"))
    assert (waits.name, waits.phase) == ("phase_2_waits_twice", "waits, twice!")
    assert quiet.function == waits.function == "run_phase"


def test_a_phase_may_use_up_every_limit() -> None:
    """Holds and limits add up, with a margin of two minutes."""
    limits = [stage.limit(scenario()) for stage in stages(scenario()) if stage.phase]

    assert limits == [timedelta(seconds=135), timedelta(seconds=151)]


def test_a_recording_takes_its_phases_and_what_is_around_them() -> None:
    """The estimate of the whole is the sum of its parts."""
    around_s = sum(stage.expected_s for stage in stages(scenario()) if not stage.phase)

    assert around_s > 0
    assert expected_s(scenario()) == around_s + 19.0


@pytest.mark.parametrize(("name", "more_s"), [("share_group", 2 * 5 + 5 + 1), ("group_members", 0), ("steady", 0)])
def test_a_share_group_is_waited_for_before_its_members_end(name: str, more_s: int) -> None:
    """Twice its lock, 5 s and one more; a consumer group's members end at once."""
    assert stage("stop_clients", load_scenario(name)).expected_s == 2 + more_s


@pytest.mark.parametrize(
    ("name", "load", "limit_s"),
    [
        ("stop_producers", "plain", 300 + 600),
        ("stop_clients", "plain", 300 + 600),
        ("stop_clients", "grouped", 300 + 120 + 2 * 60),
        ("quiesce", "plain", 300),
        ("quiesce", "transactions", 300 + 900),
        ("stop_producers", "none", 300),
        ("quiesce", "none", 300),
    ],
)
def test_a_stage_may_wait_as_long_as_the_load_lets_it(name: str, load: str, limit_s: int) -> None:
    """For answers, and for a transaction that was left open; a stage that waits for neither has the usual limit."""
    assert stage(name, scenario(load)).limit(scenario(load)) == timedelta(seconds=limit_s)


def test_a_drain_is_given_up_by_itself_first() -> None:
    """Its own limit follows from the run's rate, which the DAG does not know; the stage's comes after any of these."""
    assert stage("drain", scenario()).limit(scenario()) > timedelta(seconds=MAX_DRAIN_S + 60)


def test_every_stage_names_a_call_that_exists() -> None:
    """The list spells the calls of clusters.run.experiment as text, so that it stays light to import."""
    calls = {stage.function for name in scenario_names() for stage in stages(load_scenario(name))}

    assert {"run_phase", "capture", "tear_down"} <= calls
    assert [call for call in calls if not callable(getattr(experiment, call, None))] == []
