"""The timeline of a run that found a bug, from literal events and samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns.known_bugs import timeline
from history.events import Event
from history.results.known_bugs import Arm
from history.tables import REPLICAS
from tests.reports.sample_run import at, write_sample_run, write_table
from tests.reports.test_known_bugs_page import arm


def test_a_run_is_shown_by_its_own_samples(tmp_path: Path) -> None:
    """A timeline has each replica's state just before each action, and silence after its last sample."""
    run = write_sample_run(tmp_path)
    usual = {"topic": "orders", "partition": 0, "broker_id": 1, "sent_ns": at(0)}
    values = {"high_watermark": 100, "log_end_offset": 150, "leader_epoch": 3}
    samples = [{**usual, **values, "received_ns": at(step / 4)} for step in range(32)]  # eight seconds
    other = {**usual, **values, "partition": 1, "broker_id": 2, "received_ns": at(1)}
    write_table(run / "replicas", [*samples, other], REPLICAS)
    found = timeline.timeline(Arm.model_validate(arm()), run)

    assert (found.issue, found.run_id, found.partition) == ("KAFKA-13091", run.name, "orders-0")
    assert {broker for moment in found.moments for broker in moment.replicas} == {"1"}
    assert {moment.replicas["1"] for moment in found.moments} == {"100/150 e3", "silent"}


def test_the_first_run_that_found_a_bug_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each bug has one timeline: of its first run that found it and that has a folder."""
    monkeypatch.setattr(timeline, "timeline", lambda of, folder: (of.bug, folder.name))
    clean = [{**run, "outcome": "clean"} for run in arm()["runs"]]
    arms = [
        Arm.model_validate(each) for each in (arm(runs=clean), arm(), arm(arm="good"), arm(bug="kafka-1", runs=clean))
    ]

    assert timeline.timelines(arms, [tmp_path / "run-1", tmp_path / "run-2"]) == [("kafka-13091", "run-1")]
    assert timeline.timelines(arms, [tmp_path / "run-2"]) == [("kafka-13091", "run-2")]
    assert timeline.timelines(arms, []) == []


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Event(1, "", "step", "p", "write", "broker-1", {"records": 20}), "step write broker-1: records 20"),
        (Event(1, "", "precondition", detail={"met": True, "why": "holds: 5"}), "precondition: holds: 5; met yes"),
        (Event(1, "", "healed", "p", "kill", "broker-1"), "recovery checked kill broker-1"),
    ],
)
def test_an_event_has_the_words_of_the_runs_page(event: Event, words: str) -> None:
    """A moment is an event with its step, its nodes and its detail; an empty detail has no colon."""
    assert timeline._words(event) == words


def test_an_old_sample_does_not_describe_the_present() -> None:
    """A sample is valid for half a second; before the first and after that the replica is silent."""
    sample = {"received_ns": 10**9, "high_watermark": 1, "log_end_offset": 2, "leader_epoch": 0}

    assert timeline._state([sample], 1_500_000_000) == "1/2 e0"
    assert timeline._state([sample], 1_500_000_001) == "silent"
    assert timeline._state([sample], 999_999_999) == "silent"
