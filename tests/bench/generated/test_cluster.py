"""The small files of a generated run, read by what reads recorded ones."""

from __future__ import annotations

from pathlib import Path

from bench.generated.cluster import events, manifest, metadata_log, write_small_files
from bench.generated.plan import Plan
from history.events import read_events
from history.folder import RunFolder
from history.manifest import read_manifest
from kafka_files.broker_log import read_broker_logs
from kafka_files.clock import read_clock
from kafka_files.metadata_log import read_metadata_log

ROWS = {"sends": [1000], "live": 1000, "drain": 1000, "samples": 10, "views": 10}


def written(tmp_path: Path, plan: Plan) -> RunFolder:
    """A folder with these files alone."""
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    write_small_files(plan, folder, ROWS)
    return folder


def test_the_controllers_history_has_the_times_of_the_run(tmp_path: Path) -> None:
    """To the nanosecond: the ISR shrinks and is full again, on every partition."""
    plan = Plan(1000, partitions=2, seconds=10)
    folder = written(tmp_path, plan)
    found = read_metadata_log(folder.brokers, read_clock(folder.path / "clock.jsonl")).states

    assert [(s.partition, s.isr, s.partition_epoch, s.t_ns) for s in found] == [
        (0, (1, 2, 3), 0, plan.created_ns),
        (1, (2, 1, 3), 0, plan.created_ns),
        (0, (1, 2), 1, plan.shrunk_ns),
        (1, (2, 1), 1, plan.shrunk_ns),
        (0, (1, 2, 3), 2, plan.full_ns),
        (1, (2, 1, 3), 2, plan.full_ns),
    ]
    assert {(s.topic, s.leader, s.leader_epoch) for s in found} == {("orders", 1, 0), ("orders", 2, 0)}


def test_a_log_of_many_partitions_is_split_into_batches() -> None:
    """Each change of one moment in batches of their own, no record twice."""
    plan = Plan(20_000, partitions=1200, seconds=10)

    assert len(metadata_log(plan)) > 3 * 1200 * 30


def test_brokers_log_their_start_and_the_changes_of_what_they_lead(tmp_path: Path) -> None:
    """In words that the reader of server logs knows."""
    plan = Plan(1000, partitions=2, seconds=10)
    folder = written(tmp_path, plan)
    lines = list(read_broker_logs(folder.brokers, manifest(plan, "run"), read_clock(folder.path / "clock.jsonl")))
    told = [(row["kind"], row["partition"]) for row in lines if row["broker_id"] == 2]

    assert told == [
        ("log_loaded", 0),
        ("follower_started", 0),
        ("log_loaded", 1),
        ("leader_started", 1),
        ("isr_shrinking", 1),
        ("isr_updated", 1),
        ("isr_updated", 1),
    ]
    assert [row["t_ns"] for row in lines if row["kind"] == "isr_updated"] == [plan.shrunk_ns, plan.full_ns] * 2


def test_manifest_and_events_are_read_as_those_of_a_recorded_run(tmp_path: Path) -> None:
    """A follower is paused, and resumed, in the second phase; every line is in its place in time."""
    plan = Plan(1000, seconds=10)
    folder = written(tmp_path, plan)
    found = list(read_events(folder.events))

    assert read_manifest(folder.manifest).faults == ["pause"]
    assert [event.t_ns for event in found] == sorted(event.t_ns for event in found)
    assert [event.kind for event in found if event.step == "pause"] == ["inject", "injected", "heal", "healed"]
    assert [event.phase for event in found if event.kind == "phase_ended"] == ["steady", "a follower is stopped"]


def test_a_single_replica_is_not_stopped() -> None:
    """There is no follower."""
    plan = Plan(1000, replicas=1, seconds=10)

    assert manifest(plan, "run").faults == []
    assert not [line for line in events(plan) if line["step"] == "pause"]
