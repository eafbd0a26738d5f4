"""Generated run folders: the generated cases equal the counts and the judge's findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.accounting import SUMS, by_sets
from bench.folders import differences, expected, expected_file, main, plan_of, write
from bench.generated.plan import Plan, Planted
from history.errors import BadInput
from kafka_files.segments import segment_files
from spark.submit import judge

PLANTED = Planted(lost=70, duplicates=7, phantoms=5, corrupt=4, aborted=6, reordered=3)
SMALL = {"records": 1600, "partitions": 2, "producers": 2, "seconds": 10, "probe_hz": 10}


@pytest.mark.parametrize("planted", [PLANTED, Planted()])
def test_the_ledgers_hold_what_is_expected(tmp_path: Path, planted: Planted) -> None:
    """An independent count of the ledgers yields the expected numbers; a clean run has no case."""
    plan = Plan(**SMALL, planted=planted)
    folder = write(plan, tmp_path / "run")
    accounts = by_sets(folder.path).values()
    wanted = json.loads(expected_file(folder.path).read_text())["delivery"]

    assert {name: sum(account[name] for account in accounts) for name in (*SUMS, "phantom")} == {
        name: wanted[name] for name in (*SUMS, "phantom")
    }
    assert folder.check_seal() == []


def test_without_segments_there_are_none_and_nothing_is_proved(tmp_path: Path) -> None:
    """Without segments a clean run is unknown, and its other files exist."""
    plan = Plan(**SMALL, segments=False)
    folder = write(plan, tmp_path / "run")

    assert segment_files(folder.brokers) == []
    assert (folder.brokers / "broker-1" / "data" / "orders-0" / "leader-epoch-checkpoint").is_file()
    assert expected(plan)["verdict"] == "unknown"
    assert expected(Plan(**SMALL, replicas=1))["verdict"] == "unknown"
    assert expected(Plan(**SMALL, replicas=2))["verdict"] == "pass"


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    """An existing folder is not changed, and a failed write leaves no file."""
    (tmp_path / "run").mkdir()

    with pytest.raises(BadInput, match="is there already"):
        write(Plan(**SMALL), tmp_path / "run")
    with pytest.raises(BadInput, match="plant fewer"):
        write(Plan(**SMALL, planted=Planted(lost=1600)), tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_numbers_of_the_command_line() -> None:
    """1.26e6 is a whole number and 1.5 is not; segments are written by default."""
    plan, out = plan_of(["--records", "1.26e6", "--record-bytes", "1024", "--no-segments", "--lost", "100", "x/run"])

    assert (plan.records, plan.record_bytes, plan.segments, plan.planted) == (1_260_000, 1024, False, Planted(lost=100))
    assert out == Path("x/run")
    assert plan_of(["run"])[0].segments
    with pytest.raises(SystemExit):
        plan_of(["--records", "1.5", "run"])


def test_what_cannot_be_done_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An impossible plan is reported in one sentence with the exit code of bad input."""
    assert main(["--records", "0", str(tmp_path / "run")]) == 3
    assert capsys.readouterr().err == "records is 0; choose 1 to 1,000,000,000.\n"


def verdict(**delivery: int) -> dict[str, Any]:
    """Return the verdict of a clean run with other numbers."""
    counts = expected(Plan(**SMALL))["delivery"] | delivery
    return {"verdict": "pass", "anomalies": {}, "invariants": {"I1": {"violations": 0}}, "delivery": counts}


def test_a_verdict_that_says_otherwise_is_found() -> None:
    """A verdict that differs by one record is found."""
    wanted = expected(Plan(**SMALL))

    assert differences(wanted, verdict()) == []
    assert differences(wanted, verdict(lost=1)) == ["lost: 1 instead of 0"]


@pytest.mark.pipeline
def test_the_judge_finds_what_is_planted_and_nothing_else(tmp_path: Path) -> None:
    """The judge passes a clean run with every item of evidence, and reports exact numbers of the generated cases."""
    plans = {"clean": Plan(**SMALL), "planted": Plan(**SMALL, planted=PLANTED)}
    folders = [write(plan, tmp_path / name).path for name, plan in plans.items()]

    assert judge(folders) == 1
    verdicts = [json.loads((folder / "verdict" / "verdict.json").read_text()) for folder in folders]
    assert [differences(expected(p), v) for p, v in zip(plans.values(), verdicts, strict=True)] == [[], []]
    assert verdicts[0]["reasons"] == []
    assert {row["verdict"] for row in verdicts[0]["invariants"].values()} == {"pass"}
