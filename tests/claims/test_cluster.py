"""Claims about the cluster."""

import pytest

from claims.recording import Recording
from tests.claims.rows import event, note, recording, send, settings, state, verdict_of

REJECTED = send(1, None, outcome="info", error="NOT_LEADER_OR_FOLLOWER")
ASKED = event(1, "step", "write", topic="orders", partition=0, background=False)


def written(target: str, acked: int) -> list[object]:
    """Return the events of a write to a broker."""
    return [ASKED, event(1.1, "step", "written", target, acked=acked, sent=1)]


ZOOKEEPER = {"states": [state(0, source="znode")], "roles": ["zookeeper", "broker"]}
KRAFT = {"states": [state(0)], "roles": ["controller", "broker"]}

CASES: list[tuple[str, Recording, str]] = [
    ("C28", recording(events=[settings(default__replication__factor="1")]), "shown"),
    ("C28", recording(events=[settings(default__replication__factor="3")]), "refuted"),
    ("C28", recording(), "not observable"),
    ("C29", recording(sends=[REJECTED], lines=[note(1, 2, 5)]), "shown"),
    ("C29", recording(sends=[{**REJECTED, "error": "timeout"}]), "not observable"),
    ("C29", recording(events=written("broker-2", 1)), "refuted"),
    ("C29", recording(events=written("broker-2", 0)), "not observable"),
    ("C29", recording(events=written("broker-1", 1)), "not observable"),
    ("C32", recording(**ZOOKEEPER), "shown"),
    ("C32", recording(**KRAFT), "refuted"),
    ("C32", recording(states=[state(0, source="znode")]), "not observable"),
    ("C33", recording(**KRAFT), "shown"),
    ("C33", recording(**ZOOKEEPER), "not observable"),
]


@pytest.mark.parametrize(("claim", "given", "verdict"), CASES)
def test_the_answer_follows_the_rows(claim: str, given: Recording, verdict: str) -> None:
    """Rows show or refute a claim, and nearly equal rows do not; no version decides."""
    assert verdict_of(claim, given) == verdict
