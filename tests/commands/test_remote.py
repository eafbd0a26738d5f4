"""A run that workers recorded and judged is concluded from its folder in the object store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import remote
from commands.outcome import Outcome
from history.exit_codes import FAIL, PASS, UNKNOWN

LOG = "Airflow's log: http://airflow/log"
LATER = f"The verdict is valid, but a task failed. {LOG}"


class _Airflow:
    def log(self, dag_id: str, run_id: str) -> str:
        return "http://airflow/log"

    def returned(self, dag_id: str, run_id: str, task_id: str) -> str:
        return "/runs/r1"


def concluded(store: Path, verdict: str, *, succeeded: bool) -> Outcome:
    """Return the outcome of a run with this verdict."""
    folder = store / "runs" / "r1" / "verdict"
    folder.mkdir(parents=True)
    (folder / "verdict.json").write_text(json.dumps({"verdict": verdict, "sentence": "So.", "invariants": {}}))
    airflow: Any = _Airflow()
    return remote._concluded(airflow, "steady", "steady-1", str(store), "steady", succeeded=succeeded)


@pytest.mark.parametrize(
    ("verdict", "succeeded", "code", "error"),
    [
        ("pass", True, PASS, ""),
        ("pass", False, UNKNOWN, LATER),
        ("unknown", False, UNKNOWN, LOG),
        ("fail", False, FAIL, ""),
    ],
)
def test_a_red_judge_is_no_failed_task(tmp_path: Path, verdict: str, succeeded: bool, code: int, error: str) -> None:
    """The task judge is red unless the verdict is pass; only a red DAG run with a pass had another failed task."""
    found = concluded(tmp_path, verdict, succeeded=succeeded)

    assert (found.code, found.error) == (code, error)
    assert found.lines == ["So.", f"run: {tmp_path / 'runs' / 'r1'}", f"verdict: {verdict}"]
