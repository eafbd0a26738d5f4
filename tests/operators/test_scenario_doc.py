"""The description of a scenario on Airflow's page."""

from __future__ import annotations

import pytest

from clusters.scenario.scenario import load_scenario
from operators.scenario_doc import display_name, doc_of, expected, tags


@pytest.mark.parametrize(
    ("name", "shown", "tagged", "result"),
    [
        ("steady", "Steady", ["scenario"], "`pass`: every guarantee"),
        (
            "acks1_lag_leader_kill",
            "Acks1 lag leader kill",
            ["scenario", "positive control", "kill", "pause"],
            "`pass`: lost records, which its configuration permits",
        ),
        (
            "kafka_14704",
            "KAFKA-14704",
            ["scenario", "known bug", "disconnect"],
            "`pass`, but `fail` on Kafka from 2.8.0 to before 3.3.3, and from 3.4.0 to before 3.4.1, [KAFKA-14704]",
        ),
        (
            "last_in_sync_stops",
            "Last in sync stops",
            ["scenario", "known bug", "stop"],
            "`pass`; on Kafka from 4.0.0 on",
        ),
        (
            "kafka_15583",
            "KAFKA-15583",
            ["scenario", "known bug", "pause"],
            "reports a change of behaviour, KAFKA-15583",
        ),
    ],
)
def test_name_tags_and_expected_result(name: str, shown: str, tagged: list[str], result: str) -> None:
    """Name, tags and expected result follow from the scenario and the table of known bugs."""
    scenario = load_scenario(name)

    assert display_name(scenario) == shown
    assert tags(scenario) == tagged
    assert result in expected(scenario)


def test_the_page_has_every_phase_and_step() -> None:
    """The description has the reason, each phase with its steps, and the expected result."""
    text = doc_of(load_scenario("follower_lag_then_leader_kill"))

    assert text.startswith("An acknowledged record must survive a lagging follower and a killed leader.\n")
    assert "\n2. **follower lags**, about 21 s\n    - `lag: {node: follower of orders-0, records: 2000}`\n" in text
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        *("## Phases", "## Expected result", "## How to read it")
    ]
