"""The archive: one file per run, which changes only if the run is judged again."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from history.archive import ARCHIVE, add, host_digest, read, rows_of
from history.errors import EvidenceError
from history.events import EventLog
from history.folder import RunFolder
from history.tables import METRICS
from tests.reports.sample_run import write_sample_run

METRIC = {"metric": "latency_p99_ms", "phase": "steady", "value": 12.5, "samples": 5_000}
HOST = {"cpu": "one", "cores": 2, "memory_bytes": 24 * 2**30, "kernel": "6.1", "libraries": {"pyarrow": "21"}}


def _row(run_id: str, **other: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {field.name: "x" for field in ARCHIVE if field.type == pa.string()}
    told = {"run_id": run_id, "seed": 1, "anomalies": {"lost_write": 2}, "broken": ["I6"], "labels": {"campaign": "c1"}}
    told |= {"known_bugs": {"I6": "KAFKA-14704"}}
    told |= dict.fromkeys(("precondition_met", "environment", "complete", "not_judged"))
    return usual | told | METRIC | {"censored": False, "trusted": True, "note": None} | other


def _judged(folder: Path) -> RunFolder:
    run = RunFolder(write_sample_run(folder))
    verdict = json.loads(run.verdict_file.read_text())
    invariants = {"I6": {"violations": 1, "known_bug": "KAFKA-14704"}, "I1": {"violations": 0, "known_bug": ""}}
    run.verdict_file.write_text(json.dumps(verdict | {"invariants": invariants}))
    run.judged("metrics").mkdir(exist_ok=True)
    rows = [METRIC | {"censored": False, "trusted": True, "note": None}]
    pq.write_table(pa.Table.from_pylist(rows, schema=METRICS), run.judged("metrics") / "part-0.parquet")
    return run


@pytest.mark.parametrize(("looks", "met"), [([], None), ([True, True], True), ([True, False], False)])
def test_a_window_opened_when_every_look_found_it_open(tmp_path: Path, looks: list[bool], met: bool | None) -> None:
    """A precondition is met if every check found it met; a run without checks has none."""
    run = _judged(tmp_path)
    for opened in looks:
        EventLog(run.events).add("precondition", met=opened)

    assert {row["precondition_met"] for row in rows_of(run)} == {met}


def test_a_file_of_an_earlier_version_has_no_window(tmp_path: Path) -> None:
    """An older file that lacks the columns of preconditions and known bugs has null there."""
    file = add(tmp_path, [_row("20260101-a", window=True)])
    pq.write_table(pq.read_table(file).drop_columns(["precondition_met", "known_bugs"]), file)

    assert [(row["precondition_met"], row["known_bugs"]) for row in read(tmp_path)] == [(None, None)]


def test_what_is_added_is_read_again(tmp_path: Path) -> None:
    """Added rows are read again, oldest run first, with maps as dictionaries and without leftover files."""
    add(tmp_path, [_row("20260102-b"), _row("20260102-b", metric="catch_up_s")])
    add(tmp_path, [_row("20260101-a")])

    assert [found["run_id"] for found in read(tmp_path)] == ["20260101-a", "20260102-b", "20260102-b"]
    assert read(tmp_path)[0] == _row("20260101-a")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["20260101-a.parquet", "20260102-b.parquet"]


def test_runs_are_found_by_their_labels(tmp_path: Path) -> None:
    """Runs are found by labels, which must all match."""
    add(tmp_path, [_row("a", labels={"campaign": "c1", "role": "base"})])
    add(tmp_path, [_row("b", labels={"campaign": "c2", "role": "base"})])

    assert [found["run_id"] for found in read(tmp_path, campaign="c1")] == ["a"]
    assert read(tmp_path, campaign="c1", role="head") == []


def test_a_run_that_is_judged_anew_replaces_itself(tmp_path: Path) -> None:
    """A run that is judged again replaces its rows and no others."""
    add(tmp_path, [_row("a", value=1.0)])
    add(tmp_path, [_row("b", value=2.0)])
    add(tmp_path, [_row("a", value=3.0)])

    assert [(found["run_id"], found["value"]) for found in read(tmp_path)] == [("a", 3.0), ("b", 2.0)]


def test_rows_follow_from_the_run_folder(tmp_path: Path) -> None:
    """Rows follow from manifest, verdict and metrics, so that the archive can be rebuilt."""
    run = _judged(tmp_path / "run-1")
    found = rows_of(run)

    assert [(r["run_id"], r["metric"], r["value"]) for r in found] == [(run.run_id, "latency_p99_ms", 12.5)]
    assert (found[0]["jvm"], found[0]["broken"]) == ("fast_start", ["I6"])
    assert found[0]["known_bugs"] == {"I6": "KAFKA-14704"}
    assert add(tmp_path / "archive", found).is_file()


def test_rows_name_the_plimsoll_that_recorded_the_run_and_the_judge_of_its_verdict(tmp_path: Path) -> None:
    """Rows name the Plimsoll version and the judge, where manifest and verdict have them; older files do not."""
    run = _judged(tmp_path / "run-1")
    before = rows_of(run)[0]
    assert [before.get(name) for name in ("plimsoll", "judge", "complete")] == [None, None, True]
    manifest, verdict = (json.loads(file.read_text()) for file in (run.manifest, run.verdict_file))
    ours = {"version": "0.1.0", "commit": "69db1ad" * 5, "source": "5d41402abc4b"}
    run.manifest.write_text(json.dumps(manifest | {"plimsoll": ours}))
    run.verdict_file.write_text(json.dumps(verdict | {"judge": "7d793037a076"}))
    after = rows_of(run)[0]

    assert (after["plimsoll"], after["judge"]) == ("0.1.0 (69db1ad69db1, source 5d41402abc4b)", "7d793037a076")


def test_a_patch_of_kernel_java_or_clients_leaves_the_machine_the_same(tmp_path: Path) -> None:
    """A patch of kernel, Java or clients is another host for a comparison, but the same machine for a series."""
    run = _judged(tmp_path / "run-1")
    manifest = json.loads(run.manifest.read_text())

    def row_on(**host: Any) -> dict[str, Any]:
        run.manifest.write_text(json.dumps(manifest | {"host": HOST | host}))
        return rows_of(run)[0]

    one, patched, larger = row_on(), row_on(kernel="6.1.1"), row_on(cores=4)
    assert one["host"] != patched["host"]
    assert one.get("machine", one["host"]) == patched.get("machine", patched["host"])
    assert patched["environment"] == {"kernel": "6.1.1"}
    assert larger["machine"] != one["machine"]


def test_a_run_that_was_not_judged_has_no_rows(tmp_path: Path) -> None:
    """A run that was not judged has no rows, and the message names it with the next step."""
    run = _judged(tmp_path / "run-1")
    run.verdict_file.unlink()

    with pytest.raises(EvidenceError, match=r"run-1 holds no verdict with metrics .* plimsoll judge"):
        rows_of(run)


@pytest.mark.parametrize("file", ["manifest.json", "events.jsonl"])
def test_a_verdict_on_another_record_has_no_rows(tmp_path: Path, file: str) -> None:
    """A folder that was altered after the verdict has no rows; with an unknown verdict it is archived."""
    run = _judged(tmp_path / "run-1")
    run.seal()
    whole = rows_of(run)
    (run.path / file).open("a").write("\n")

    with pytest.raises(EvidenceError, match=rf"run-1 is not what was sealed \({file} was changed .* plimsoll judge"):
        rows_of(run)
    verdict = json.loads(run.verdict_file.read_text())
    run.verdict_file.write_text(json.dumps(verdict | {"verdict": "unknown"}))
    changed = {"verdict": "unknown", "complete": file != "events.jsonl"}  # a torn line may have been an error
    assert rows_of(run) == [row | changed for row in whole]


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"kernel": "6.2"}, False),
        ({"cores": 4}, False),
        ({"libraries": {"confluent-kafka": "3"}}, False),
        ({"libraries": {"pyarrow": "22"}}, True),  # judges, and does not measure
        ({"memory_bytes": 24 * 2**30 - 4096}, True),
    ],
)
def test_a_host_is_what_runs_must_share(changed: dict[str, Any], same: bool) -> None:
    """A host's digest covers machine, kernel, Java and the clients' libraries, and not the judge's libraries."""
    assert (host_digest(HOST) == host_digest(HOST | changed)) == same


@pytest.mark.parametrize(
    "verdict",
    [
        "[]",
        "{}",
        "[" * 20_000,
        '{"verdict": "fine", "sentence": "x", "anomalies": {}, "invariants": {}}',
        '{"verdict": "pass", "sentence": 5, "anomalies": {}, "invariants": {}}',
        '{"verdict": "pass", "sentence": "x", "anomalies": {"lost": -1}, "invariants": {}}',
        '{"verdict": "pass", "sentence": "x", "anomalies": {}, "invariants": {"I1": {}}}',
    ],
)
def test_a_verdict_that_is_none_is_no_evidence(tmp_path: Path, verdict: str) -> None:
    """A malformed verdict is no evidence; the sentence names the run and what is missing."""
    run = RunFolder(write_sample_run(tmp_path / "run"))
    run.verdict_file.write_text(verdict)

    with pytest.raises(EvidenceError, match="holds no verdict with metrics"):
        rows_of(run)


def test_of_rows_that_cannot_be_written_nothing_is_left(tmp_path: Path) -> None:
    """Rows that cannot be written leave no file, and the error names the place."""
    (tmp_path / "a.parquet").mkdir()

    with pytest.raises(OSError, match=r"a\.parquet"):
        add(tmp_path, [_row("a")])
    assert [file.name for file in tmp_path.iterdir()] == ["a.parquet"]
