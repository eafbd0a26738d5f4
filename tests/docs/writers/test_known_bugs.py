"""The pages of known bugs, from literal tries and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from campaigns.known_bugs.bugs import BUGS
from history.events import Event
from history.tables import POLLS, REPLICAS, SENDS
from tests.docs.writers import known_bugs
from tests.reports.sample_run import at, write_sample_run, write_table

BUG = BUGS[0]


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


def test_tries_are_counted_by_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries are counted by version; a run whose precondition did not hold is left out of the rate.

    A bug without a timeline has no link.
    """
    monkeypatch.setattr(known_bugs, "TIMELINES", tmp_path)
    clean = {"version": BUG.good, "expected": "clean", "outcome": "clean", "found_by": [], "also": ["I2"]}
    page = known_bugs.render([one_try(), one_try(), one_try(outcome="window missed", found_by=[]), one_try(**clean)])

    assert f"| {BUG.issue} | 3.0.2 | found | 2 of 2 | 0 of 2 | 1 | 0 | I10 in 2 | – | 16–100% |" in page
    assert f"| {BUG.issue} | 3.1.2 | clean | 0 of 1 | 1 of 1 | 0 | 0 | – | I2 in 1 | 0–98% |" in page
    assert f"\n| {BUG.issue} | `{BUG.scenario}` | " in page
    (tmp_path / f"{BUG.name}.md").touch()
    assert f"\n| [{BUG.issue}](known-bugs/{BUG.name}.md) | `{BUG.scenario}` | " in known_bugs.render([one_try()])


def test_a_withdrawn_try_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A withdrawn try is not counted; its row remains, and the page gives the reason."""
    monkeypatch.setattr(known_bugs, "TIMELINES", tmp_path)
    page = known_bugs.render([one_try(), one_try(withdrawn="I10 was wrong")])

    assert f"| {BUG.issue} | 3.0.2 | found | 1 of 1 |" in page
    assert f"{BUG.issue}, 1 withdrawn: I10 was wrong." in page


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


TIMELINE = {
    "run_id": "run-1",
    "kafka": "3.0.2",
    "version": "3.0.2",
    "mode": "zookeeper",
    "verdict": "fail",
    "sentence": "I10 does not hold.",
    "partition": "orders-0",
    "moments": [{"s": 2.5, "what": "pause of broker-3 took effect", "replicas": {"1": "100/150 e0", "3": "silent"}}],
    "broken": [{"invariant": "I10", "title": "t", "checked": 9, "violations": 1, "reason": "HW 100, LEO 150"}],
    "anomalies": [{"anomaly": "invisible_ack", "permitted": True, "count": 50, "first": "Record 7 | of write-2."}],
    "sends": [{"client": "write-1", "acks": "1", "sent": 100, "ok": 100, "info": 0, "fail": 0, "gone": 50}],
}


def test_a_bugs_page_stands_replica_by_replica() -> None:
    """A bug's page shows each replica in time; a broker that did not answer is shown as silent."""
    page = known_bugs.render_timeline(BUG, {"found": TIMELINE})

    assert "## With the bug: Kafka 3.0.2" in page
    assert "## Without it" not in page
    assert "Run `run-1`, zookeeper. Verdict fail.\n" in page
    withdrawn = known_bugs.render_timeline(BUG, {"found": TIMELINE | {"withdrawn": "it was wrong"}})
    assert "Verdict fail. It was withdrawn: it was wrong.\n" in withdrawn
    assert "### Replica by replica: orders-0" in page
    assert "| done and seen | broker 1 | broker 3 |\n|---|---|---|\n" in page
    assert "| 2.5 pause of broker-3 took effect | 100/150 e0 | silent |" in page
    assert "| client | acks | sent | acknowledged | gone |" in page
    assert "| write-1 | 1 | 100 | 100 | 50 |" in page
    assert "- **I10** (t): 1 of 9 checks; HW 100, LEO 150." in page
    assert f"- Permitted here (first cases: `{BUG.name}.json`): 50 x `invisible_ack`" in page


def test_a_row_is_a_state_of_the_replicas() -> None:
    """A row is a state of the replicas with all events that began in it; only a replica that changed has a value."""
    states = ("1/2 e0", "1/2 e0", "silent", "1/2 e0")
    moments = [
        {"s": float(at), "what": "x", "replicas": {"1": state, "3": "silent"}} for at, state in enumerate(states)
    ]
    page = known_bugs.render_timeline(BUG, {"found": {**TIMELINE, "moments": moments}})

    assert "| 0.0 x<br>1.0 x | 1/2 e0 | silent |\n| 2.0 x | silent |  |\n| 3.0 x | 1/2 e0 |  |\n" in page


def test_unknown_sends_have_a_column_where_there_are_any() -> None:
    """If any client has unknown sends, all clients have a column for them."""
    unknown = {**TIMELINE["sends"][0], "ok": 98, "info": 2}
    page = known_bugs.render_timeline(BUG, {"found": {**TIMELINE, "sends": [*TIMELINE["sends"], unknown]}})

    assert "| client | acks | sent | acknowledged | unknown | gone |" in page
    assert "| write-1 | 1 | 100 | 100 | 0 | 50 |\n| write-1 | 1 | 100 | 98 | 2 | 50 |" in page


@pytest.mark.parametrize(
    ("met", "words"), [(True, "precondition holds: LEO 5"), (False, "precondition c does not hold: LEO 5")]
)
def test_a_precondition_is_told_by_what_was_seen(met: bool, words: str) -> None:
    """A precondition is shown with the observation; one that did not hold also names its condition."""
    why = "holds: LEO 5" if met else "does not hold: LEO 5"

    assert known_bugs._words(Event(1, "", "precondition", detail={"condition": "c", "met": met, "why": why})) == words


def test_what_is_not_permitted_has_its_first_case() -> None:
    """An anomaly that is not permitted is shown with its first case, and so is a change of behaviour."""
    refused = {"anomaly": "duplicate", "permitted": False, "count": 2, "first": "Record 1 | of write-2."}
    changed = {"anomaly": "behaviour_change", "permitted": True, "count": 1, "first": "Led from ELR."}
    told = {**TIMELINE, "anomalies": [*TIMELINE["anomalies"], refused, changed]}
    page = known_bugs.render_timeline(BUG, {"found": told})

    assert "- 2 x `duplicate`; the first: Record 1 \\| of write-2\n- 1 x `behaviour_change`; the first: Led" in page


@pytest.mark.parametrize(
    ("step", "detail", "words"),
    [
        ("write", {"to": "A", "records": 20, "acks": "all", "batch": 1}, "write: to A, records 20"),
        ("write", {"to": "A", "records": 20, "acks": "1", "batch": 5}, "write: to A, records 20, acks 1, batch 5"),
        ("disconnect", {"node": "A", "from": ["B"], "direction": "both"}, "disconnect: node A, from B"),
        ("written", {"acked": 19, "sent": 20}, "written: 19 of 20 acknowledged (broker-1)"),
    ],
)
def test_a_step_is_told_without_its_defaults(step: str, detail: dict[str, Any], words: str) -> None:
    """A step is shown without its defaults; other values remain, and so does a batch that was written."""
    assert known_bugs._step(Event(1, "", "step", "p", step, "broker-1", detail)) == words


def test_the_pages_are_what_was_kept() -> None:
    """The pages equal the kept data; ``python -m tests.docs.writers.known_bugs`` writes them."""
    rows = known_bugs._read(known_bugs.RESULTS, [])
    for bug in known_bugs.BUGS:
        kept = known_bugs._read(known_bugs.TIMELINES / f"{bug.name}.json", {})
        page = (known_bugs.TIMELINES / f"{bug.name}.md").read_text()
        assert known_bugs.render_timeline(bug, kept, rows) == page, bug.name


def test_a_run_is_told_from_its_own_tables(tmp_path: Path) -> None:
    """A run's page shows each replica's state just before each action, and the outcome of the sends."""
    run = write_sample_run(tmp_path)
    usual = {"topic": "orders", "partition": 0}
    told = {"broker_id": 1, "sent_ns": at(0), "high_watermark": 100, "log_end_offset": 150, "leader_epoch": 3}
    samples = [{**usual, **told, "received_ns": at(step / 4)} for step in range(32)]  # eight seconds
    write_table(run / "replicas", samples, REPLICAS)
    send = {**usual, "producer_id": "write-1", "due_ns": 0, "acks": "1", "record_bytes": 100}
    sends = [{**send, "seq": seq, "outcome": outcome} for seq, outcome in enumerate(("ok", "ok", "info"))]
    write_table(run / "sends", sends, SENDS)
    poll = {**usual, "consumer_id": "drain", "pass": "final", "position": 0, "offset": 0, "checksum_ok": True}
    poll |= {"producer_id": "write-1", "seq": 0, "received_ns": 0, "isolation": "read_uncommitted"}
    read = [{**poll, "consumer_id": "read-1", "offset": o, "received_ns": s * 10**9} for o, s in ((7, 1), (8, 6))]
    write_table(run / "polls", [poll, {**poll, "pass": "live", "seq": 1}, *read], POLLS)
    reader = {"client_id": "read-1", "replica": "broker-2", "answers": 9, "rows": 2, "position": 9}
    (run / "clients" / "read-1.json").write_text(json.dumps({**reader, "started_ns": 0, "ended_ns": 8 * 10**9}))
    explanation = known_bugs.timeline_of(run)

    assert {moment["replicas"][1] for moment in explanation["moments"]} == {"100/150 e3", "silent"}
    assert explanation["sends"] == [
        {"client": "write-1", "acks": "1", "sent": 3, "ok": 2, "info": 1, "fail": 0, "gone": 1}
    ]
    del reader["position"]
    assert explanation["readers"] == [{**reader, "awaited": 8, "waited_s": 5.0}]
    assert known_bugs.render_timeline(BUG, {"found": {**explanation, "version": "3.0.2"}})


def test_a_report_has_every_run_of_its_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report lists every run of its issue by version and outcome, other recipes included, without other bugs."""
    monkeypatch.setattr(known_bugs, "REPORTS", tmp_path)
    assert "## Every run" not in known_bugs.render_timeline(BUG, {}, [one_try()])
    (tmp_path / f"{BUG.name}.md").write_text("## Summary\n\nIt waits.\n")
    others = one_try(run_id="run-2", bug="variant"), one_try(run_id="run-3", issue="other"), one_try(withdrawn="w")
    page = known_bugs.render_timeline(BUG, {}, [one_try(), *others, one_try(run_id="run-4", outcome="clean")])

    assert "\n## Summary\n\nIt waits.\n\n## Every run\n" in page
    assert "| 3.0.2 | clean: 1 | `run-4` |\n| 3.0.2 | found: 2 | `run-1`<br>`run-2` |\n" in page
    assert "run-3" not in page


def test_readers_and_errors_are_shown_where_there_are_any() -> None:
    """Readers are shown with their replica and progress, and failed sends with their errors, if there are any."""
    reader = {"client_id": "read-1", "replica": "broker-1", "answers": 9, "rows": 0, "awaited": 60, "waited_s": 36.2}
    send = {**TIMELINE["sends"][0], "ok": 0, "info": 1, "errors": ["REQUEST_TIMED_OUT"]}
    page = known_bugs.render_timeline(BUG, {"found": {**TIMELINE, "sends": [send], "readers": [reader]}})

    assert "| read-1 | broker-1 | 9 | 0 | 60 | 36.2 |" in page
    assert "| write-1 | 1 | 100 | 0 | 1 | 50 | REQUEST_TIMED_OUT |" in page
    assert "What readers got" not in known_bugs.render_timeline(BUG, {"found": TIMELINE})


def test_an_old_sample_tells_nothing_of_now() -> None:
    """A sample is valid for half a second; before the first and after that the replica is silent."""
    sample = {"received_ns": 10**9, "high_watermark": 1, "log_end_offset": 2, "leader_epoch": 0}

    assert known_bugs._stood([sample], 1_500_000_000) == "1/2 e0"
    assert known_bugs._stood([sample], 1_500_000_001) == "silent"
    assert known_bugs._stood([sample], 999_999_999) == "silent"


def test_a_run_in_which_nothing_was_found_says_so() -> None:
    """A run without findings contains the word "Nothing" instead of an empty list."""
    clean = {**TIMELINE, "broken": [], "anomalies": [], "verdict": "pass"}

    assert known_bugs.render_timeline(BUG, {"clean": clean}).endswith("### What the judge found\n\nNothing.\n")
