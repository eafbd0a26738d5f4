"""Claims about the cluster."""

import pytest

from claims import cluster
from tests.claims.rows import event, note, recording, send, settings, state


def test_the_default_factor_is_what_a_broker_names() -> None:
    """1 shows the claim, 3 refutes it."""
    for told, verdict in (("1", "shown"), ("3", "refuted")):
        events = [settings(default__replication__factor=told)]
        assert cluster.default_factor_is_1(recording(events=events)).verdict == verdict
    assert cluster.default_factor_is_1(recording()).verdict == "not observable"


def test_a_refused_record_shows_who_takes_records() -> None:
    """An error for another reason does not."""
    refused = send(1, None, outcome="info", error="NOT_LEADER_OR_FOLLOWER")

    assert cluster.only_leaders_take_records(recording(sends=[refused], remotes=[note(1, 2, 5)])).verdict == "shown"
    assert (
        cluster.only_leaders_take_records(recording(sends=[{**refused, "error": "timeout"}])).verdict
        == "not observable"
    )


@pytest.mark.parametrize(
    ("target", "acked", "verdict"),
    [("broker-2", 1, "refuted"), ("broker-2", 0, "not observable"), ("broker-1", 1, "not observable")],
)
def test_a_follower_that_takes_a_record_refutes_it(target: str, acked: int, verdict: str) -> None:
    """One that refuses does not, nor does the leader."""
    asked = event(1, "step", "write", topic="orders", partition=0, background=False)
    written = event(1.1, "step", "written", target, acked=acked, sent=1)

    assert cluster.only_leaders_take_records(recording(events=[asked, written])).verdict == verdict


def test_who_keeps_leaders_and_isr_decides_on_zookeeper() -> None:
    """Znodes show the dependence, a metadata log refutes it; the mode is read off the states, not off a version."""
    znode = recording([], [state(0, source="znode")], roles=["zookeeper", "broker"])
    own = recording([], [state(0)], roles=["controller", "broker"])

    assert cluster.controller_depends_on_zookeeper(znode).verdict == "shown"
    assert cluster.controller_depends_on_zookeeper(own).verdict == "refuted"
    assert cluster.kraft_exists(znode).verdict == "not observable"
    assert cluster.kraft_exists(own).verdict == "shown"
