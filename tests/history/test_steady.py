"""Steady state, by literal seconds."""

from __future__ import annotations

import pytest

from history.steady import why_unsteady

EVEN = (1000,) * 5


@pytest.mark.parametrize(
    ("p50_ms", "acked", "said"),
    [
        ((2.0, 2.2, 1.9, 2.1, 2.0), EVEN, None),  # a range of 15 %
        ((2.0, 2.45, 2.0, 2.0, 2.0), EVEN, "range of median latency over 5 windows is 22%"),
        ((2.4, 2.2, 2.1, 2.0, 1.9), EVEN, "range of median latency over 5 windows is 24%"),  # as of a JVM
        ((2.2, 2.1, 2.0, 1.95, 1.9), EVEN, None),  # one that is about warm
        ((2.0,) * 5, (1000, 1000, 1000, 1000, 750), "range of acknowledged records a second over 5 windows is 26%"),
    ],
)
def test_seconds_are_steady_within_twenty_percent(
    p50_ms: tuple[float, ...], acked: tuple[int, ...], said: str | None
) -> None:
    """The range of five windows against their mean."""
    why = why_unsteady([{"acked": acked[at // 12], "p50_ms": p50_ms[at // 12]} for at in range(60)])

    assert (why is None) if said is None else (why is not None and said in why)


def test_seconds_in_which_nothing_was_answered_are_not_steady() -> None:
    """They have no latency, which is not a good one."""
    row, none = {"acked": 1000, "p50_ms": 2.0}, {"acked": 0, "p50_ms": None}

    assert why_unsteady([row] * 50) is None
    assert why_unsteady([row] * 38 + [none] * 12) is not None
