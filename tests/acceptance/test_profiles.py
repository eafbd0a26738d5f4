"""Rows of profiles, from literal verdicts."""

from judge.run import CHECKS
from tests.acceptance.profiles import row


def test_checks_are_counted() -> None:
    """Those that a verdict lists as not judged were not made, and all others were."""
    found = row("run", {"verdict": "pass", "sentence": "Pass.", "evidence": "clients", "not_judged": ["I4", "I7"]})
    assert (found["case"], found["evidence"], found["verdict"]) == ("run", "clients", "pass")
    assert (found["judged"], found["not_judged"]) == (len(CHECKS) - 2, 2)


def test_a_rejected_run_judges_nothing() -> None:
    """It has no verdict's file, and so neither evidence nor a list."""
    found = row("run", {"verdict": "rejected", "sentence": "A run needs every broker."})
    assert (found["evidence"], found["judged"], found["not_judged"]) == ("", 0, len(CHECKS))
