"""Run folders judged end to end through spark-submit, without importable Kafka or Docker packages."""

import json
import os
import shutil
import subprocess
import sys
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

from history.folder import RunFolder
from history.tables import JUDGED, RECORDED
from spark import job, submit
from tests.evidence.folders import S, clean, event, polled, sought, truncated

pytestmark = pytest.mark.pipeline
VERDICTS = {
    "clean": "pass",
    "truncated": "unknown",
    "promised": "fail",
    "again": "fail",
    "nameless": "unknown",
    "unstarted": "unknown",
    "restless": "unknown",
    "went back": "fail",
    "sought": "pass",
    "early": "unknown",
}


@pytest.fixture(scope="module")
def judging_half(tmp_path_factory):
    """A copy of the repository with the judging packages alone, whose Docker and Kafka modules cannot be imported."""
    root = tmp_path_factory.mktemp("judging")
    for package in ("spark", "judge", "evidence", "kafka_files", "history", "expectations"):
        (root / package).symlink_to(submit.ROOT / package)
    for library in ("docker", "kafka", "confluent_kafka"):
        (root / f"{library}.py").write_text("raise ImportError('the judge needs no cluster')\n")
    return root


@pytest.fixture(scope="module")
def judged(tmp_path_factory, judging_half):
    """Folders of every kind judged in one application: exit code, and verdict.json by folder."""
    root = tmp_path_factory.mktemp("runs")
    for write in (_truncated, _broken_promises, _lacking, _moved_back):
        write(root)
    clean().write(root / "clean")
    folders = [root / name for name in VERDICTS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submit, "ROOT", judging_half)
        code = submit.judge(folders)
    return (
        root,
        code,
        {folder.name: json.loads((folder / "verdict" / "verdict.json").read_text()) for folder in folders},
    )


def _truncated(root):
    truncated().write(root / "truncated")
    (root / "truncated" / "events.jsonl").open("a").write("\n")  # after sealing


def _broken_promises(root):
    """Write three folders with a forbidden loss: two equal ones, and one whose ledger breaks its contract."""
    promised = truncated()
    promised.manifest = clean(faults=["kill"]).manifest  # acks=all by configuration: the same loss is forbidden
    promised.sends = [{**row, "acks": "all"} for row in promised.sends]
    promised.write(root / "promised")
    shutil.copytree(root / "promised", root / "again")
    promised.sends[5] |= {"done_ns": promised.sends[5]["sent_ns"] - 1}  # answered before it was sent
    promised.write(root / "early")


def _lacking(root):
    """Write folders without a manifest, without a cluster and without rest."""
    clean().write(root / "nameless", seal=False)
    (root / "nameless" / "manifest.json").unlink()
    RunFolder(root / "nameless").seal()
    _start_failed(root / "unstarted")
    restless = clean()
    restless.replicas = [row for row in restless.replicas if row["sent_ns"] < 15 * S]  # never quiet for long enough
    restless.write(root / "restless")


def _moved_back(root):
    """Write folders whose reader goes back, without and with a seek."""
    went_back = clean()
    went_back.polls += [polled(n, n, final=False) for n in range(50)]
    went_back.polls += [polled(n, n, final=False, position=n + 40) for n in range(10, 50)]
    went_back.write(root / "went back")
    went_back.seeks = [sought(50, 50, 10)]
    went_back.write(root / "sought")


def _start_failed(path):
    """Write a run whose cluster did not start: a manifest, events, and tables without a file."""
    history = clean()
    history.events = [
        history.events[0],
        event(9 * S + 1, "error", step="start_cluster", detail={"why": "broker-1 is exited"}),
        event(40 * S, "collected"),
    ]
    folder = history.write(path, seal=False)
    for table in RECORDED:
        (folder.table(table) / "all.parquet").unlink(missing_ok=True)
    for left in (folder.clients, folder.brokers, folder.table("offsets")):
        shutil.rmtree(left)
    folder.seal()


def test_verdicts(judged):
    """A clean run passes, a violation fails and missing evidence is unknown; the worst verdict is the exit code."""
    _, code, verdicts = judged

    assert {name: v["verdict"] for name, v in verdicts.items()} == VERDICTS
    assert code == 1
    assert "events.jsonl was changed after sealing" in verdicts["truncated"]["reasons"][0]


def test_a_ledger_that_breaks_its_contract_accuses_nobody(judged):
    """A ledger that breaks its contract leaves losses undecided; checks of other tables are decided."""
    root, _, verdicts = judged
    why = "The recorded table sends cannot be trusted: sent_ns is not after done_ns (1 of 50 rows)."
    rows = pq.read_table(root / "early/verdict/anomaly_counts").to_pylist()

    assert why in verdicts["early"]["reasons"]
    assert {row["undecided"] for row in rows if row["anomaly"] == "lost_write"} == {why.rstrip(".")}
    assert verdicts["early"]["invariants"]["I2"]["verdict"] == "pass"
    assert verdicts["promised"]["anomalies"]["lost_write"] == verdicts["early"]["anomalies"]["lost_write"] == 10
    assert "manifest.json is missing" in verdicts["nameless"]["sentence"]
    assert verdicts["unstarted"]["reasons"][0] == "The harness failed at start_cluster: broker-1 is exited"


def test_a_step_back_is_kafkas_unless_the_reader_sought(judged):
    """Reads that go back are an anomaly, unless a recorded seek of the reader explains them."""
    *_, verdicts = judged

    assert verdicts["went back"]["anomalies"] == {"nonmonotonic_poll": 1}
    assert verdicts["sought"]["anomalies"] == {}
    assert verdicts["sought"]["reasons"] == [
        "The consumer consumer-1 sought from 50 to 10 of orders-0 in leader epoch 1: the position is out of range."
    ]


def test_an_invariant_without_anything_to_check_is_unknown(judged):
    """An invariant without anything to check is undecided, and so is the verdict."""
    *_, verdicts = judged
    found = verdicts["restless"]

    assert [name for name, row in found["invariants"].items() if row["checked"] == 0] == ["I10"]
    assert found["reasons"] == ["I10 is undecided: nothing that was recorded of orders-0 could be checked."]
    assert found["sentence"] == f"Inconclusive: {found['reasons'][0]}"


@pytest.mark.parametrize("library", ["docker", "kafka", "confluent_kafka"])
def test_what_judged_had_no_cluster_at_hand(judging_half, library):
    """The judging packages cannot import a library of Kafka or Docker."""
    command = [sys.executable, "-c", f"import {library}"]
    found = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(judging_half)}, capture_output=True, text=True, check=False
    )

    assert "the judge needs no cluster" in found.stderr


def test_a_broken_promise_is_counted_and_told(judged):
    """A violated guarantee is counted with an explanation for each of ten lost records; I15 fails on the segments."""
    root, _, verdicts = judged
    found = verdicts["promised"]
    explanations = [
        r["explanation"]
        for r in pq.read_table(root / "promised/verdict/anomalies").to_pylist()
        if r["anomaly"] == "lost_write"
    ]

    again = {"realtime_order_violation": 10, "nonmonotonic_send": 10}  # their offsets were given to later records
    assert found["anomalies"] == {"lost_write": 10, "inconsistent_offset": 10} | again
    assert found["delivery"]["acked"] == 50
    assert found["loss_rate"] == [0.2, 0.2]
    assert found["invariants"]["I15"]["verdict"] == "fail"
    assert len(explanations) == 10
    assert (
        "Record load-1/39 (acks=all) was acknowledged at +0.392 s while broker 1 led epoch 0 at offset 39; last seen "
        "before that: broker 1 at HW 30 and LEO 39, broker 2 at HW 29 and LEO 30, broker 3 at HW 29 and LEO 30; "
        "broker 2 began epoch 1 at offset 30 without it, seen at +0.400 s; broker 1's log end fell from 40 to 30 at "
        "+4.001 s."
    ) in explanations


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(5, "EIO"), "The run folder could not be read or written: [Errno 5] EIO"),
        (RuntimeError("Python worker exited unexpectedly (crashed)"), "A Python worker was killed while it judged; "),
        (KeyError("EIO"), "The judge itself failed: KeyError: 'EIO'"),
    ],
)
def test_a_failed_application_is_unknown_with_its_own_reason(tmp_path, error, reason):
    """A run that Spark could not judge is unknown with the application's reason, and its tables are empty."""
    run = clean().write(tmp_path / "run")
    job.judge_folder(run, lambda *_: Mock(side_effect=error))

    assert run.read_verdict()["verdict"] == "unknown"
    assert run.read_verdict()["reasons"][0].startswith(reason)
    assert pq.read_table(run.judged("delivery")).num_rows == 0


def test_every_table_has_its_schema(judged):
    """All judged tables exist in every folder with exactly their schemas."""
    root, _, verdicts = judged
    for folder in verdicts:
        for name, schema in JUDGED.items():
            assert pq.read_schema(root / folder / "verdict" / name / "part-0.parquet").equals(schema), (folder, name)
        assert (root / folder / "verdict" / "data_docs" / "index.html").is_file()


def test_the_same_folder_gives_the_same_bytes(judged):
    """A copy of a folder yields the same bytes of verdict.json and tables."""
    root, *_ = judged
    for name in ("verdict.json", *(f"{table}/part-0.parquet" for table in JUDGED)):
        assert (root / "again/verdict" / name).read_bytes() == (root / "promised/verdict" / name).read_bytes(), name
