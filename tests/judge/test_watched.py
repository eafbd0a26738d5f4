"""A watched cluster is judged by its replicas' offsets and the brokers' metadata alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evidence.profiles import IMPORTED, RECORDED, WATCHED, profile_of
from evidence.run import open_folder
from history.folder import RunFolder
from history.manifest import Manifest
from history.tables import RECORDED as TABLES
from judge.run import Judged, judge_run, not_judged, one_by_one
from tests.evidence.folders import S, event, isr_view, manifest, sample

Rows = Sequence[dict[str, Any]]
HEALTHY = [sample(broker, second * S, 10 * second, 10 * second) for second in range(10, 20) for broker in (1, 2, 3)]
VIEWS = [isr_view(second * S, 1, 0, [1, 2, 3]) for second in range(10, 20)]


def watched_manifest() -> Manifest:
    """Return the manifest of a watch."""
    own = {
        "origin": "watched",
        "producers": [],
        "mode": None,
        "runtime": None,
        "traits": {},
        "scenario": {"phases": []},
    }
    return manifest().model_copy(update=own)


def judged(folder: Path, replicas: Rows) -> Judged:
    """Judge a watch of orders-0 with these samples."""
    run = RunFolder(folder)
    folder.mkdir()
    watched_manifest().write(run.manifest)
    lines = [
        event(9 * S, "phase_started", phase="watch"),
        event(20 * S, "phase_ended", phase="watch"),
        event(20 * S, "collected"),
    ]
    run.events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, rows in {"replicas": replicas, "isr": VIEWS}.items():
        run.table(name).mkdir()
        pq.write_table(pa.Table.from_pylist(list(rows), TABLES[name]), run.table(name) / "all.parquet")
    run.clients.mkdir()
    report = {"client_id": "watch", "role": "prober", "clean": True, "rows": len(replicas), "isr_rows": len(VIEWS)}
    (run.clients / "watch.json").write_text(json.dumps(report))
    run.seal()
    return judge_run(open_folder(run), one_by_one)


def verdicts(found: Judged) -> dict[str, str]:
    """Return the verdict of each invariant."""
    return {row["invariant"]: row["verdict"] for row in found.tables["invariants"].to_pylist()}


def lacking(found: Judged) -> list[str]:
    """Return what evidence is missing."""
    return [why for _, why in found.items if why]


def test_healthy_replicas_pass_what_they_can_show(tmp_path: Path) -> None:
    """Nothing is missing, and no invariant is judged that reads clients, logs or the controller's history."""
    found = judged(tmp_path / "run", HEALTHY)
    assert lacking(found) == []
    assert set(verdicts(found).values()) == {"pass"}
    assert {"I1", "I2", "I3"} <= verdicts(found).keys() <= {"I1", "I2", "I3", "I6"}


def test_a_high_watermark_above_the_log_end_fails(tmp_path: Path) -> None:
    """It violates I2, and I6 because the log never reaches what was shown as committed; nothing else fails."""
    wrong = sample(2, 15 * S + 1, 200, 150)
    failed = [
        name for name, verdict in verdicts(judged(tmp_path / "run", [*HEALTHY, wrong])).items() if verdict == "fail"
    ]
    assert failed == ["I2", "I6"]


def test_a_replica_that_never_answered_is_missing(tmp_path: Path) -> None:
    """A broker without an answer leaves its partition undecided; one that was silent for a while does not."""
    nulls = dict.fromkeys(
        ("leader_epoch", "log_start_offset", "high_watermark", "last_stable_offset", "log_end_offset")
    )
    silent = [row | nulls | {"error": "unreachable", "single_reply": None} for row in HEALTHY if row["broker_id"] == 3]
    others = [row for row in HEALTHY if row["broker_id"] != 3]
    assert lacking(judged(tmp_path / "never", [*others, *silent])) == [
        "The replica of orders-0 on broker 3 was never seen by the probe."
    ]
    back = [row for row in HEALTHY if row["broker_id"] == 3][5:]
    assert lacking(judged(tmp_path / "back", [*others, *silent[:5], *back])) == []


def test_what_clients_were_promised_is_listed_as_not_judged(tmp_path: Path) -> None:
    """Every anomaly and invariant that reads more than replicas and metadata is named; a recorded run has none."""
    found = judged(tmp_path / "run", HEALTHY)
    run = open_folder(RunFolder(tmp_path / "run"))
    left_out = not_judged(run, found.tables)
    assert {"lost_write", "duplicate", "precommitted_read", "I4", "I12", "I20"} <= set(left_out)
    assert {"hanging_transaction", "I26"} <= set(left_out)  # a watch does not know which producers have transactions
    assert not {"I1", "I2", "I3", "I6"} & set(left_out)
    assert not_judged(replace(run, manifest=manifest()), found.tables) == []


def test_a_profile_follows_from_how_the_run_was_recorded() -> None:
    """Own clusters may show everything, imports clients, a watch replicas."""
    imported = manifest().model_copy(update={"origin": "jepsen"})
    assert [profile_of(each) for each in (manifest(), imported, watched_manifest())] == [RECORDED, IMPORTED, WATCHED]
    assert WATCHED.allows({"replicas"})
    assert not WATCHED.allows({"replicas", "dates"})
    assert RECORDED.allows({"replicas", "dates"})


def test_a_watch_allows_what_any_version_allows() -> None:
    """No broker reports its version, so the oldest and the newest count."""
    assert watched_manifest().kafka_versions[0].startswith("2.8")
    assert len(watched_manifest().kafka_versions) == 2
