"""The stages of a scenario's DAG."""

import pytest

from clusters.run import stages as recording
from clusters.scenario.scenario import load_scenario, parse_scenario
from operators.stages import AIRFLOW_S, PUBLISH, RESOLVE, expected_s, stages

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
