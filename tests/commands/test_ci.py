"""The files that a command writes for a CI system."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from clusters.run import experiment
from commands import ci, runs
from commands.main import main
from commands.outcome import Outcome
from history.errors import BadInput, HarnessError
from history.folder import RunFolder
from history.results.cases import Case
from tests.junit_schema import outcomes

RUN = ["run", "steady", "--kafka", "3.9.1"]
GONE = Case("runs", "r1", "fail", "5 records are gone.")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests may themselves run in a step of GitHub Actions."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def ends(monkeypatch: pytest.MonkeyPatch, outcome: Outcome | BaseException) -> None:
    """Let the command ``run`` end with this outcome."""

    def record_and_judge(*_: object, **__: object) -> Outcome:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr(runs, "record_and_judge", record_and_judge)


@pytest.mark.parametrize(
    ("end", "code", "found"),
    [
        (Outcome(0, facts={"sentence": "All held."}), 0, {"plimsoll/plimsoll run": "pass"}),
        (Outcome(1, cases=[GONE]), 1, {"plimsoll/plimsoll run": "fail", "runs/r1": "fail"}),
        (Outcome(2), 2, {"plimsoll/plimsoll run": "unknown"}),
        (BadInput("No such Kafka."), 3, {"plimsoll/plimsoll run": "unknown"}),
        (HarnessError("No jars."), 2, {"plimsoll/plimsoll run": "unknown"}),
        (KeyboardInterrupt(), 130, {"plimsoll/plimsoll run": "unknown"}),
        (ZeroDivisionError("x"), 2, {"plimsoll/plimsoll run": "unknown"}),
    ],
)
def test_junit_says_what_the_exit_code_says(
    end: Outcome | BaseException, code: int, found: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JUnit file agrees with the exit code: only a pass has neither failure nor error. Its folder is created."""
    ends(monkeypatch, end)
    file = tmp_path / "results" / "junit.xml"

    assert main([*RUN, "--junit", str(file)]) == code
    assert outcomes(file.read_text()) == found


def test_a_summary_is_written_and_appended_where_github_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A summary is written, and appended to the file of GitHub's step summary."""
    ends(monkeypatch, Outcome(1, facts={"run": tmp_path / "r1", "sentence": "5 are gone."}, cases=[GONE]))
    step, file = tmp_path / "step.md", tmp_path / "summary.md"
    step.write_text("an earlier step\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))

    assert main([*RUN, "--summary", str(file)]) == 1
    assert file.read_text().startswith(f"### plimsoll run: fail\n\n5 are gone.\n\n- run: `{tmp_path / 'r1'}`\n")
    assert step.read_text() == f"an earlier step\n{file.read_text()}\n"


def test_a_file_that_cannot_be_written_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unwritable file is rejected before anything starts, and an earlier command's file is removed first."""
    ends(monkeypatch, AssertionError("it started"))
    assert main([*RUN, "--junit", str(tmp_path)]) == 3
    assert capsys.readouterr().err.startswith(f"--junit={tmp_path} cannot be written: ")

    seen: list[bool] = []
    old = tmp_path / "junit.xml"
    old.touch()
    monkeypatch.setattr(runs, "record_and_judge", lambda *_, **__: seen.append(old.exists()) or Outcome())
    assert main([*RUN, "--junit", str(old)]) == 0
    assert (seen, old.exists()) == ([False], True)


def test_a_stream_is_written_and_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe or an open file descriptor is written to and not replaced; a closed descriptor is rejected."""
    ends(monkeypatch, Outcome())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as reader, (tmp_path / "out.md").open("w") as out:
        assert main([*RUN, "--junit", str(pipe), "--summary", f"/dev/fd/{out.fileno()}"]) == 0
        assert outcomes(reader.read()) == {"plimsoll/plimsoll run": "pass"}
    assert (tmp_path / "out.md").read_text().startswith("### plimsoll run: pass")
    assert pipe.is_fifo()

    ends(monkeypatch, AssertionError("it started"))
    assert main([*RUN, "--junit", "/dev/fd/98765"]) == 3
    assert "--junit=/dev/fd/98765 cannot be written: " in capsys.readouterr().err


def test_a_link_to_a_file_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A symbolic link stays, and its target is rewritten."""
    ends(monkeypatch, Outcome())
    file, link = tmp_path / "results.xml", tmp_path / "junit.xml"
    file.write_text("an earlier command's")
    link.symlink_to(file)

    assert main([*RUN, "--junit", str(link)]) == 0
    assert link.is_symlink()
    assert outcomes(file.read_text()) == {"plimsoll/plimsoll run": "pass"}


def test_what_cannot_be_written_in_any_locale_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the summary has characters that cannot be encoded, the exit code is 2 (unknown)."""
    ends(monkeypatch, Outcome())
    monkeypatch.setattr(ci, "markdown", lambda _: "half of a pair: \ud800")

    assert main([*RUN, "--summary", str(tmp_path / "summary.md")]) == 2
    assert "The result for CI could not be written: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_pass_that_cannot_be_written_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the CI files cannot be written, a pass becomes unknown and a failure stays."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "such" / "folder"))
    for code, told in ((0, 2), (1, 1)):
        ends(monkeypatch, Outcome(code))
        assert main(RUN) == told
        assert "The result for CI could not be written: " in capsys.readouterr().err


def test_a_command_without_verdict_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command without a verdict writes no CI files and rejects their options."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    monkeypatch.setattr(experiment, "reap", lambda **_: [])

    assert main(["scenarios"]) == 0
    assert main(["scenarios", "--junit", "x.xml"]) == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("verdict", "of_i2"), [("fail", "fail"), ("pass", "skipped"), ("unknown", "skipped")])
def test_a_run_has_a_case_for_each_invariant(verdict: str, of_i2: str, tmp_path: Path) -> None:
    """Each invariant is a case: a violation fails only if the run fails, and an unchecked invariant is skipped."""
    run = RunFolder(tmp_path / "r1")
    run.verdict.mkdir(parents=True)
    invariants = {
        "I1": {"verdict": "pass", "reason": None},
        "I2": {"verdict": "fail", "reason": "first violation on orders-0"},
        "I3": {"verdict": "unknown", "reason": "nothing could be checked"},
    }
    run.verdict_file.write_text(json.dumps({"verdict": verdict, "sentence": "So it is.", "invariants": invariants}))

    assert [(case.group, case.name, case.outcome) for case in runs.cases_of(run, "steady")] == [
        ("invariants.steady", "I1", "pass"),
        ("invariants.steady", "I2", of_i2),
        ("invariants.steady", "I3", "skipped"),
    ]
    assert runs.cases_of(RunFolder(tmp_path / "unjudged"), "steady") == []


def test_of_several_runs_each_has_its_own_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In ``judge`` of several runs each run is a case, and a run without a verdict is unknown."""
    (tmp_path / "r1" / "verdict").mkdir(parents=True)
    RunFolder(tmp_path / "r1").verdict_file.write_text(json.dumps({"verdict": "pass", "sentence": "All held."}))
    monkeypatch.setattr("spark.submit.judge", lambda _: 2)
    monkeypatch.setattr("spark.submit.run_folders", lambda given: [RunFolder(each) for each in given])
    monkeypatch.setattr("campaigns.site.publish", lambda _: None)

    judged = runs.judge_again([tmp_path / "r1", tmp_path / "r2"])
    assert [(case.name, case.outcome) for case in judged.cases] == [("r1", "pass"), ("r2", "unknown")]
