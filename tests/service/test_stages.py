"""The stages of a scenario's DAG."""

from typing import Any

import pytest

from clusters.run import stages as recording
from clusters.scenario.scenario import load_scenario, parse_scenario
from service.stages import AIRFLOW_S, ANY_SCENARIO, PUBLISH, RESOLVE, dag_of, end_limit_s, expected_s, stages

SCENARIO = """
name: small
why: for its durations
cluster: {brokers: 1}
topics: {orders: {replicas: [A]}}
phases:
  - quiet: [{hold: 5s}, {hold: 10s}]
  - waits: [{hold: 1s}, {wait: {for: {isr_full: orders}, limit: 30s}}]
"""


def test_a_recording_is_resolved_judged_and_published() -> None:
    """The estimate of the whole is that of Airflow's start and of each stage."""
    steady = load_scenario("steady")
    first, *between, judge, last = stages(steady)

    assert (first, tuple(between), judge.name, last) == (RESOLVE, recording.stages(steady), "judge", PUBLISH)
    around_s = AIRFLOW_S + RESOLVE.expected_s + judge.expected_s + PUBLISH.expected_s
    assert expected_s(steady) == around_s + recording.expected_s(steady)


@pytest.mark.parametrize(
    ("load", "least_s", "most_s"),
    [("", 20, 45), ("load: {topic: orders, rate: 500/s}", 20, 45), ("load: {topic: orders, rate: 66316/s}", 45, 90)],
)
def test_judging_takes_longer_the_more_records_there_are(load: str, least_s: float, most_s: float) -> None:
    """A small run took 30 to 35 s, one of 1,260,000 records 65 s; other stages do not follow from them."""
    by_name = {stage.name: stage for stage in stages(parse_scenario(f"{SCENARIO}{load}\n", "small"))}

    assert least_s <= by_name["judge"].expected_s <= most_s
    assert by_name["publish"] == PUBLISH


@pytest.mark.parametrize(
    ("changes", "dag"),
    [
        ({}, "steady"),
        ({"load": {"rate": "10/s"}}, "steady"),
        ({"name": "mine"}, ANY_SCENARIO),
        ({"phases": [{"other": [{"hold": "1s"}]}]}, ANY_SCENARIO),
        ({"phases": [{"Steady": [{"hold": "1s"}]}]}, ANY_SCENARIO),
    ],
)
def test_a_scenario_with_other_phases_has_another_dag(changes: dict[str, Any], dag: str) -> None:
    """Only a scenario with the phases of the shipped one of its name runs in that one's DAG."""
    assert dag_of(load_scenario("steady", changes)) == dag


def test_an_interrupted_run_may_take_as_long_as_its_end_stages() -> None:
    """The end of an interrupted run takes the time of its last stages, and that of a phase that heals its faults."""
    last = recording.stages(load_scenario("steady"))[-3:]

    assert [stage.name for stage in last] == ["stop_clients", "collect", "tear_down"]
    assert end_limit_s(load_scenario("steady")) == 90 + 120 + sum(stage.expected_s for stage in last)
