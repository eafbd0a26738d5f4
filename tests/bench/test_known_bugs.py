"""The pages of known bugs, from literal tries and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import known_bugs
from campaigns.known_bugs.bugs import BUGS

BUG = BUGS[0]


def one_try(**told: Any) -> dict[str, Any]:
    """A try that found the bug on its bad version."""
    return {
        "run_id": "run-1",
        "date": "2026-11-21",
        "bug": BUG.name,
        "issue": BUG.issue,
        "version": BUG.bad,
        "expected": "found",
        "outcome": "found",
        "found_by": ["I10"],
        **told,
    }


def test_tries_are_counted_by_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missed window is no part of the rate; a bug without a story has no link."""
    monkeypatch.setattr(known_bugs, "STORIES", tmp_path)
    clean = {"version": BUG.good, "expected": "clean", "outcome": "clean", "found_by": []}
    page = known_bugs.render([one_try(), one_try(), one_try(outcome="window missed", found_by=[]), one_try(**clean)])

    assert f"| {BUG.issue} | 3.0.2 | found | 2 of 2 | 0 of 2 | 1 | 0 | I10 in 2 | 16% to 100% |" in page
    assert f"| {BUG.issue} | 3.1.2 | clean | 0 of 1 | 1 of 1 | 0 | 0 | – | 0% to 98% |" in page
    assert "replica by replica" not in page
    (tmp_path / f"{BUG.name}.md").touch()
    assert f"[replica by replica](known-bugs/{BUG.name}.md)" in known_bugs.render([one_try()])


def test_a_campaigns_tries_are_rows() -> None:
    """With the day on which they were planned."""
    run = {"run_id": "run-1", "outcome": "found", "found_by": ["I10"], "item": "i", "verdict": "fail", "sentence": "s"}
    arm = {"bug": BUG.name, "issue": BUG.issue, "version": "3.0.2", "expected": "found", "runs": [run], "tries": 1}

    assert known_bugs.tries_of({"created_at": "2026-11-21T08:00:00+00:00", "arms": [arm]}) == [one_try()]


STORY = {
    "run_id": "run-1",
    "kafka": "3.0.2",
    "version": "3.0.2",
    "mode": "zookeeper",
    "verdict": "fail",
    "sentence": "I10 does not hold.",
    "events": [{"s": 2.5, "phase": "a follower freezes", "what": "pause of broker-3 took effect"}],
    "replicas": [
        {"capture": "after", "partition": "orders-0", "broker": 1, "epoch": 0, "hw": 100, "leo": 150, "error": None},
        {"capture": "after", "partition": "orders-0", "broker": 3, "epoch": 0, "hw": 0, "leo": 0, "error": "timeout"},
    ],
    "broken": [{"invariant": "I10", "title": "t", "checked": 9, "violations": 1, "reason": "HW 100, LEO 150"}],
    "anomalies": [{"anomaly": "invisible_ack", "permitted": True, "count": 50, "first": "Record 7 | of write-2."}],
    "sends": [{"client": "write-1", "acks": "1", "sent": 100, "ok": 100, "info": 0, "fail": 0, "gone": 50}],
}


def test_a_bugs_page_stands_replica_by_replica() -> None:
    """A broker that did not answer is told as such, and not as offsets."""
    page = known_bugs.render_story(BUG, {"found": STORY})

    assert "## With the bug: Kafka 3.0.2" in page
    assert "## Without it" not in page
    assert "| 2.5 | a follower freezes | pause of broker-3 took effect |" in page
    assert "| moment | broker 1 | broker 3 |\n|---|---|---|\n| after | 100 / 150, epoch 0 | (timeout) |" in page
    assert "| write-1 | 1 | 100 | 100 | 0 | 0 | 50 |" in page
    assert "- **I10** (t): 1 of 9 checks. HW 100, LEO 150." in page
    assert "- 50 x `invisible_ack`, permitted here; the first: Record 7 \\| of write-2" in page


def test_a_run_in_which_nothing_was_found_says_so() -> None:
    """No empty list."""
    clean = {**STORY, "broken": [], "anomalies": [], "verdict": "pass"}

    assert known_bugs.render_story(BUG, {"clean": clean}).endswith("### What the judge found\n\nNothing.\n")
