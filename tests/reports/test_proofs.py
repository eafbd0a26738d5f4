"""What proved a fault, in words."""

import re

import pytest

from clusters.paths import ROOT
from reports import proofs


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ({"probe": "connection refused"}, "its port refuses connections"),
        ({"probe": "answers", "registered": True}, "it answers, other brokers list it"),
        (
            {"probe": "answers", "killed": ["broker-1", "broker-2"]},
            "it answers, broker-1 and broker-2 did not end by itself and got SIGKILL",
        ),
        ({"packets": 0, "rules": 2}, "the kernel dropped 0 packets, 2 rules in place"),
        ({"packets": 1, "rules": 0}, "the kernel dropped 1 packet, no rules left"),
        ({"passed_bytes": 15300}, "15,300 bytes passed the limit"),
        (
            {"lag": 0, "samples": 66, "lag_min": 0, "lag_median": 2901, "lag_max": 3649},
            "it trails by 0 records, in the ISR it trailed by 0 to 3,649 records, median 2,901 (66 samples)",
        ),
        ({"samples": 0}, "samples 0"),
        ({"throttled_periods": [12, 3]}, "the kernel held it back in 12 and 3 periods"),
        ({"replicas": {"orders-0": [4, 5, 6]}}, "orders-0 is on brokers 4, 5 and 6"),
        ({"leader": 1, "replicas": [1, 2]}, "the assignment is 1 and 2, leader 1"),
        ({"led": [2, 3], "epochs": [4, 6]}, "brokers 2 and 3 led in turn, the leader epoch went from 4 to 6"),
        (
            {"set": [["topic", "orders", {"retention.ms": "5", "cleanup.policy": None}]]},
            "topic orders has retention.ms 5 and cleanup.policy as it was",
        ),
        ({"log_starts": {"1": 3420, "2": 3420}}, "logs start at 3420 on broker 1 and 3420 on broker 2"),
        ({"directory": "data", "isr": [1, 2]}, "directory data, ISR [1, 2]"),
        ({"rules": "no rule left", "epochs": [1], "led": 3}, "rules no rule left, epochs 1, led 3"),
        ({"brand_new": 7}, "brand new 7"),
        ({}, ""),
    ],
)
def test_an_observation_is_told_as_a_person_would(seen, told):
    """Known ones as a clause each; others, and those of an unknown shape, by name and value."""
    assert proofs.sentence(seen) == told


def test_every_phrase_is_of_an_observation_that_some_fault_makes():
    """A phrase for a name that no fault uses any more would stay for good."""
    made = " ".join(file.read_text() for file in (ROOT / "clusters" / "faults").glob("*.py"))

    assert [name for name in proofs._CLAUSES if not re.search(rf'"{name}"', made)] == []
