"""The stages of a scenario's DAG."""

from clusters.run import stages as recording
from clusters.scenario.scenario import load_scenario
from operators.stages import AIRFLOW_S, JUDGE, PUBLISH, RESOLVE, expected_s, stages


def test_a_recording_is_resolved_judged_and_published() -> None:
    """The estimate of the whole is that of Airflow's start and of each stage."""
    steady = load_scenario("steady")

    assert stages(steady) == (RESOLVE, *recording.stages(steady), JUDGE, PUBLISH)
    around_s = AIRFLOW_S + RESOLVE.expected_s + JUDGE.expected_s + PUBLISH.expected_s
    assert expected_s(steady) == around_s + recording.expected_s(steady)
