"""A run's stages, with the limits and estimates that follow from the scenario."""

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
    """Return a scenario with two phases, with or without a load."""
    return parse_scenario(f"{SCENARIO}{LOADS[load]}\n", "played")


def stage(name: str, told: Scenario) -> Stage:
    """Return the stage of this name."""
    return next(stage for stage in stages(told) if stage.name == name)


def test_a_phase_is_a_stage_with_its_number_and_name() -> None:
    """A phase's stage has a name that Airflow accepts; its call has the phase's number and original name."""
    quiet, waits = (stage for stage in stages(scenario()) if stage.phase)

    assert (quiet.name, quiet.text, quiet.arguments) == ("phase_1_quiet", "phase 1/2 quiet", (0, "quiet"))
    assert (waits.name, waits.phase) == ("phase_2_waits_twice", "waits, twice!")
    assert quiet.function == waits.function == "run_phase"


def test_a_phase_may_use_up_every_limit() -> None:
    """A phase's limit is the sum of its holds and limits plus 120 s."""
    limits = [stage.limit(scenario()) for stage in stages(scenario()) if stage.phase]

    assert limits == [timedelta(seconds=135), timedelta(seconds=151)]


def test_a_recording_takes_its_phases_and_what_is_around_them() -> None:
    """The estimate of a recording is the sum of its stages' estimates."""
    around_s = sum(stage.expected_s for stage in stages(scenario()) if not stage.phase)

    assert around_s > 0
    assert expected_s(scenario()) == around_s + 19.0


@pytest.mark.parametrize(("name", "more_s"), [("share_group", 2 * 5 + 5 + 1), ("group_members", 0), ("steady", 0)])
def test_a_share_group_is_waited_for_before_its_members_end(name: str, more_s: int) -> None:
    """Stopping clients of a share group takes twice the lock plus 6 s; other clients end at once."""
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
    """Stages that wait for answers or open transactions have the load's limits; others have the default limit."""
    assert stage(name, scenario(load)).limit(scenario(load)) == timedelta(seconds=limit_s)


def test_a_drain_is_given_up_by_itself_first() -> None:
    """The drain's stage has a higher limit than any drain, since the DAG does not know the run's rate."""
    assert stage("drain", scenario()).limit(scenario()) > timedelta(seconds=MAX_DRAIN_S + 60)


def test_every_stage_names_a_call_that_exists() -> None:
    """Every stage names an existing function of clusters.run.experiment, as text to keep the import light."""
    calls = {stage.function for name in scenario_names() for stage in stages(load_scenario(name))}

    assert {"run_phase", "capture", "tear_down"} <= calls
    assert [call for call in calls if not callable(getattr(experiment, call, None))] == []
