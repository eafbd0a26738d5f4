"""What a run's settings and faults say about transactions."""

import pytest

from history.events import Event
from judge.checks import transactions
from judge.checks.visibility import longest_quiet_ns
from tests.evidence.folders import S, manifest


@pytest.mark.parametrize(
    ("faults", "quiet"),
    [
        ([], 100),
        ([(10, 20), (30, 40)], 60),
        ([(30, 40), (35, 90)], 30),
        ([(0, 50)], 50),
        ([(0, 200)], 0),
        ([(150, 160)], 100),
    ],
)
def test_the_longest_time_without_a_fault(faults, quiet):
    """Faults may overlap, and begin before or end after the span from 0 to 100."""
    assert longest_quiet_ns(0, 100, faults) == max(quiet, 0)


def test_a_fault_is_active_until_its_recovery_is_verified():
    """By its target; one that never went lasts on."""
    events = [
        Event(5, "", "inject", target="broker-1"),
        Event(6, "", "injected", target="broker-1"),
        Event(7, "", "inject", target="broker-2"),
        Event(8, "", "healed", target="broker-1"),
    ]

    assert transactions.faults(events) == [(5, 8), (7, 2**63 - 1)]


def test_how_long_a_transaction_may_be_open():
    """The producer's time-out, 10 s of the coordinator's, and 10 s to settle; a run without has no transactions."""
    assert transactions.limit_ns(manifest(transaction_timeout_ms=20_000)) == 40 * S
    assert transactions.transactional(manifest(transaction_timeout_ms=20_000))
    assert not transactions.transactional(manifest())
