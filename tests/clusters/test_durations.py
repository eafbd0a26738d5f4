"""Estimates and limits follow from a phase's steps."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.durations import expected_phase_s, longest_phase_s
from clusters.scenario import Phase


@pytest.mark.parametrize(
    ("steps", "expected", "longest"),
    [
        ([{"hold": "5s"}, {"hold": "10s"}], 15, 15),
        ([{"hold": "1s"}, {"wait": {"for": {"isr_full": "orders"}, "limit": "30s"}}], 11, 31),
        ([{"pause": "A"}, {"resume": "A"}], 4, 16),
        ([{"restart": "A"}], 10, 40),
        ([{"write": {"to": "A", "topic": "orders", "records": 100}}], 2, 8 + 32 + 15),
        ([{"bounce": {"node": "A", "times": 3}}], 30, 120),
        ([{"crash_loop": {"node": "A", "times": 3, "after": "10s"}}], 60, 150),
        ([{"ping_pong": {"partition": "orders-0", "between": ["A", "B"], "times": 5}}], 10, 40),
    ],
)
def test_steps_add_up(steps: list[dict[str, Any]], expected: float, longest: float) -> None:
    """Holds as told; a third of a wait's limit is likely, and all of it possible; restarts take a while each."""
    phase = Phase.model_validate({"name": "story", "steps": steps})

    assert expected_phase_s(phase) == expected
    assert longest_phase_s(phase) == 120 + longest
