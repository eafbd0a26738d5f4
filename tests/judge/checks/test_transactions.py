"""What a run's settings and faults say about transactions."""

from history.events import Event
from judge.checks import transactions
from tests.evidence.folders import S, manifest


def test_a_fault_is_active_until_its_recovery_is_verified():
    """By its step and target; one that never went lasts on."""
    events = [
        Event(5, "", "inject", target="broker-1"),
        Event(6, "", "injected", target="broker-1"),
        Event(7, "", "inject", target="broker-2"),
        Event(8, "", "healed", target="broker-1"),
    ]

    assert transactions.faults(events) == [(5, 8), (7, 2**63 - 1)]


def test_a_fault_outlasts_a_shorter_one_of_the_same_node():
    """A pause that is healed at 8 s says nothing of the CPU limit that it lies within."""
    limit, pause = {"step": "limit_cpu", "target": "broker-1"}, {"step": "pause", "target": "broker-1"}
    events = [
        Event(5, "", "inject", **limit),
        Event(7, "", "inject", **pause),
        Event(8, "", "healed", **pause),
        Event(9, "", "healed", **limit),
    ]

    assert transactions.faults(events) == [(5, 9), (7, 8)]


def test_how_long_a_transaction_may_be_open():
    """The producer's time-out, 10 s of the coordinator's, and 10 s to settle; a run without has no transactions."""
    assert transactions.limit_ns(manifest(transaction_timeout_ms=20_000)) == 40 * S
    assert transactions.transactional(manifest(transaction_timeout_ms=20_000))
    assert not transactions.transactional(manifest())
