"""The task that judges."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from history import remote
from history.errors import HarnessError
from history.events import read_events
from history.folder import RunFolder
from operators.judge import Judge

CONTEXT: Any = {"params": {"judge": True}}


def judge_ends_with(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Replace Spark by a judge with this exit code."""
    fake = types.ModuleType("spark.submit")
    fake.judge = lambda runs: code  # type: ignore[attr-defined]  # attribute of a fake
    monkeypatch.setitem(sys.modules, "spark.submit", fake)


def test_a_passed_run_is_green(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A passed verdict succeeds and records begin and end of the stage."""
    judge_ends_with(monkeypatch, 0)

    assert Judge(task_id="judge", run=str(tmp_path)).execute(CONTEXT) is None
    assert [event.kind for event in read_events(RunFolder(tmp_path).stages)] == ["stage_started", "stage_ended"]


def test_a_campaigns_run_is_not_judged_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Campaigns judge their runs together."""
    judge_ends_with(monkeypatch, 1)
    Judge(task_id="judge", run=str(tmp_path)).execute({"params": {"judge": False}})

    assert not RunFolder(tmp_path).stages.exists()


def test_a_run_in_an_object_store_is_judged_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The judge gets its URL, and no stages are recorded beside it."""
    monkeypatch.setattr(remote, "SCHEMES", ("s3", "fsspec+memory"))
    monkeypatch.chdir(tmp_path)
    judge_ends_with(monkeypatch, 0)
    Judge(task_id="judge", run="fsspec+memory://bucket/runs/a-run").execute(CONTEXT)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("code", "says"), [(1, "Verdict fail: "), (2, "Verdict unknown: ")])
def test_everything_else_is_red(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, says: str) -> None:
    """Any other verdict fails the task without a retry."""
    judge_ends_with(monkeypatch, code)

    with pytest.raises(AirflowFailException, match=rf"{says}.*verdict\.json"):
        Judge(task_id="judge", run=str(tmp_path)).execute(CONTEXT)


def test_a_kill_ends_spark_and_what_it_started() -> None:
    """``on_kill`` ends spark-submit and its driver, which is a grandchild in another session."""
    program = "import subprocess; subprocess.run(['sleep', '60'], start_new_session=True)"
    submit = subprocess.Popen([sys.executable, "-c", f"print(flush=True); {program}"], stdout=subprocess.PIPE)
    assert submit.stdout
    submit.stdout.readline()

    with pytest.raises(HarnessError, match="was stopped before"):
        Judge(task_id="judge", run="/runs/x").on_kill()
    assert submit.wait(10) == -9
    assert submit.stdout.read() == b""  # ends only when the pipe is closed everywhere


def test_the_run_is_a_template_field(tmp_path: Path) -> None:
    """Airflow renders the run's path before ``execute``."""
    step = Judge(task_id="judge", run="{{ params.where }}")
    step.render_template_fields({"params": {"where": str(tmp_path)}})

    assert step.run == str(tmp_path)
