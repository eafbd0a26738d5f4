"""Estimates and limits follow from a phase's steps."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.scenario.durations import (
    MAX_DRAIN_S,
    catch_up_s,
    drain_limit_s,
    expected_bytes,
    expected_phase_s,
    longest_phase_s,
)
from clusters.scenario.scenario import Phase
from tests.clusters.fakes import scenario


@pytest.mark.parametrize(
    ("steps", "expected", "longest"),
    [
        ([{"hold": "5s"}, {"hold": "10s"}], 15, 15),
        ([{"hold": "1s"}, {"wait": {"for": {"isr_full": "orders"}, "limit": "30s"}}], 4, 31),
        ([{"wait": {"for": {"steady_state": True}, "limit": "180s"}}], 78, 240),
        ([{"pause": "A"}, {"resume": "A"}], 4, 16),
        ([{"restart": "A"}], 10, 40),
        ([{"write": {"to": "A", "topic": "orders", "records": 100}}], 2, 8 + 32 + 15),
        ([{"bounce": {"node": "A", "times": 3}}], 30, 120),
        ([{"crash_loop": {"node": "A", "times": 3, "after": "10s"}}], 60, 150),
        ([{"churn_leadership": {"partition": "orders-0", "between": ["A", "B"], "times": 5}}], 10, 40),
    ],
)
def test_steps_add_up(steps: list[dict[str, Any]], expected: float, longest: float) -> None:
    """Holds count fully; a wait counts a tenth of its limit as estimate and all of it as limit."""
    phase = Phase.model_validate({"name": "one", "steps": steps})

    assert expected_phase_s(phase) == expected
    assert longest_phase_s(phase) == 120 + longest


@pytest.mark.parametrize(
    ("load", "steps", "limit_s"),
    [
        (None, [{"hold": "60m"}], 120),
        ({"rate": "1000/s"}, [{"hold": "600s"}], 120),
        ({"rate": "1000/s"}, [{"hold": "1200s"}], 240),
        ({"rate": "1000/s"}, [{"hold": "598s"}, {"set_rate": "2000/s"}], 240),  # at its highest, as if all the time
        ({"rate": "20000/s"}, [{"hold": "600m"}], MAX_DRAIN_S),
    ],
)
def test_the_last_reader_has_time_for_what_there_is(
    load: dict[str, Any] | None, steps: list[dict[str, Any]], limit_s: float
) -> None:
    """The final drain may take 120 s, or longer at 5,000 records a second."""
    told = scenario(steps, load=load and {"topic": "orders", **load})

    assert drain_limit_s(told) == limit_s


@pytest.mark.parametrize(
    ("load", "kept"),
    [
        ({}, 3 * 100 * (1000 * 10 + 4000 * 10)),
        ({"record_bytes": 200}, 3 * 200 * (1000 * 10 + 4000 * 10)),
        ({"compression": "lz4"}, 0),  # the padding repeats itself
        ({"compression": "lz4", "payload": {"compresses_to": "40%"}}, 3 * 40 * (1000 * 10 + 4000 * 10)),
    ],
)
def test_a_run_keeps_every_replicas_records(load: dict[str, Any], kept: float) -> None:
    """A run stores three replicas of the records of each phase, at that phase's rate; without a load, none."""
    told = scenario([{"hold": "10s"}], [{"set_rate": "4000/s"}, {"hold": "8s"}], load={"topic": "orders", **load})

    assert expected_bytes(told) == kept
    assert expected_bytes(scenario([{"hold": "10s"}])) == 0


@pytest.mark.parametrize(
    ("load", "still_s"),
    [
        (None, 0.0),  # no reader
        ({}, 30.0),
        ({"group": {"protocol": "consumer", "members": 1, "session_timeout": "6s"}}, 42.0),
        ({"group": {"protocol": "share", "lock": "2s"}}, 30.0),  # its members have no positions, the consumer has
    ],
)
def test_a_reader_may_stand_still_for_two_sessions_and_30_s(load: dict[str, Any] | None, still_s: float) -> None:
    """A reader may make no progress for two sessions and 30 s; the live consumer has no session."""
    loads = {} if load is None else {"load": {"topic": "orders", **load}}
    assert catch_up_s(scenario([{"hold": "1ms"}], **loads)) == still_s
