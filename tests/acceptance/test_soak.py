"""Soaks: their clusters, and what counts as wrong."""

from typing import Any

import pytest

from tests.acceptance.soak import SOAKS, wrong

ROW: dict[str, Any] = {
    "verdict": "pass",
    "sentence": "Held.",
    "invariants": {"I1": "pass"},
    "grew": {"prober": 0.05, "broker-1": 0.9},
    "acked": 1000,
    "record_mb": 1,
}


def test_both_ways_to_run_a_cluster_are_soaked() -> None:
    """KRaft and ZooKeeper are each soaked once with different seeds."""
    assert [soak.mode for soak in SOAKS] == ["kraft", "zookeeper"]
    assert len({soak.seed for soak in SOAKS}) == 2


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"verdict": "unknown", "sentence": "A gap."}, ["A gap."]),
        ({"verdict": "fail", "sentence": "I11 does not hold."}, ["I11 does not hold."]),
        ({"verdict": "fail", "invariants": {"I11": "fail"}, "known_bugs": ["STALE-ISR"]}, []),
        ({"grew": {"prober": 0.25}}, ["prober grew by 25%"]),
        ({"grew": {"prober": 0.2}}, []),
        ({"invariants": {"I1": "pass", "I9": "unknown"}}, ["I9 is unknown"]),
        ({"acked": 999}, ["1001 bytes for each acknowledged record"]),
    ],
)
def test_what_must_not_be(changed: dict[str, Any], found: list[str]) -> None:
    """A doubt, a check without a verdict, a large record and a growing process are wrong; brokers may grow."""
    assert wrong(ROW | changed) == found
