"""The page of known bugs, from literal tries."""

from __future__ import annotations

from typing import Any

from campaigns.known_bugs.bugs import BUGS
from tests.docs.writers import known_bugs

BUG = BUGS[0]
ISSUE = f"[{BUG.issue}](https://issues.apache.org/jira/browse/{BUG.issue})"


def one_try(**told: Any) -> dict[str, Any]:
    """Return a try that found the bug on its bad version."""
    return {
        "run_id": "run-1",
        "date": "2026-11-21",
        "bug": BUG.name,
        "issue": BUG.issue,
        "version": BUG.bad,
        "expected": "found",
        "outcome": "found",
        "found_by": ["I10"],
        "also": [],
        **told,
    }


def test_tries_are_counted_by_version() -> None:
    """A bug's row counts the decided tries of each version; a missed precondition and no verdict do not count."""
    clean = {"version": BUG.good, "expected": "clean", "outcome": "clean", "found_by": [], "also": ["I2"]}
    undecided = [one_try(outcome=outcome, found_by=[]) for outcome in ("window missed", "unknown")]
    newer = one_try(version="3.0.1", outcome="clean")
    page = known_bugs.render([one_try(), one_try(), *undecided, newer, one_try(**clean)])

    assert f"| {ISSUE} | {BUG.title} | from 2.7.0 to before 3.1.0 | 3.0.2: 2 of 2<br>3.0.1: 0 of 1 | " in page
    assert f" | 3.1.2: 0 of 1 | I10 | – | `make known-bugs BUGS={BUG.name}` |\n" in page
    assert "in 6 recorded tries, on 2026-11-21" in page


def test_a_withdrawn_try_does_not_count() -> None:
    """A withdrawn try is not counted; its row remains, and the page gives the reason."""
    page = known_bugs.render([one_try(), one_try(withdrawn="I10 was wrong")])

    assert " | 3.0.2: 1 of 1 | – | I10 | " in page
    assert f"Withdrawn tries of {BUG.issue}: 1, since I10 was wrong." in page


def test_a_bug_that_was_found_here_leads_to_its_report() -> None:
    """A bug with a report links to it, with the versions that were read; the others link to their issue."""
    page = known_bugs.render([one_try()])

    assert "| [STALE-ISR](known-bugs/stale-isr.md) | " in page
    assert " | I38 | 3.9.1 | `make known-bugs BUGS=stale-isr` |" in page
    assert f"| {ISSUE} | " in page


def test_a_campaigns_tries_are_rows() -> None:
    """A campaign's tries are rows with the day of planning."""
    run = {
        "run_id": "run-1",
        "outcome": "found",
        "found_by": ["I10"],
        "also": [],
        "item": "i",
        "verdict": "fail",
        "sentence": "s",
    }
    arm = {"bug": BUG.name, "issue": BUG.issue, "version": "3.0.2", "expected": "found", "runs": [run], "tries": 1}

    assert known_bugs.tries_of({"created_at": "2026-11-21T08:00:00+00:00", "arms": [arm]}) == [one_try()]
