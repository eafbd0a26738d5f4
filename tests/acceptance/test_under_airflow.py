"""Airflow's troubles, and what counts as wrong."""

import socket
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from service.airflow import ADDRESS, free_port
from tests.acceptance import under_airflow
from tests.acceptance.under_airflow import TROUBLES, Bed, phase_task, wrong

NAME = "a task is marked as failed"
ROW: dict[str, Any] = {"name": NAME, "state": "failed", "verdict": "unknown", "whole": False, "left": []}


def test_only_what_airflow_gets_over_may_end_well() -> None:
    """Only the control, and a scheduler or a database that comes back during the task, end in success."""
    fine = [trouble.name for trouble in TROUBLES if trouble.state == "success"]

    assert fine == ["nothing is wrong", "the scheduler is killed", "the database goes away for 15 s"]
    assert {trouble.state for trouble in TROUBLES} == {"success", "failed"}


def test_the_trouble_comes_in_the_phase_in_which_the_leader_is_away() -> None:
    """The trouble starts in the scenario's second phase, in which the leader is down."""
    assert phase_task().name == "phase_2_the_leader_dies"


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"state": "success"}, ["the DAG run ended as success"]),
        ({"left": ["ports: 9092"]}, ["ports: 9092"]),
        ({"verdict": "pass"}, ["an incomplete record passed"]),
        ({"verdict": "pass", "whole": True}, []),
    ],
)
def test_what_must_not_be(changed: dict[str, Any], found: list[str]) -> None:
    """An unexpected end, leftovers, and a pass on half of the evidence are wrong."""
    assert wrong(ROW | changed) == found


def test_a_free_port_has_a_free_neighbour() -> None:
    """A free port's next port is free, too, since pages are served there."""
    port = free_port()
    for each in (port, port + 1):
        socket.create_server((ADDRESS, each)).close()


@pytest.mark.parametrize("others", [0, 1])
def test_the_run_that_is_judged_is_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    """The judged run is the only one; a second run in the folder raises an error."""
    for number in range(1 + others):
        (tmp_path / f"run-{number}").mkdir()
        (tmp_path / f"run-{number}" / "manifest.json").touch()
    monkeypatch.setattr(under_airflow, "judged", lambda run: {"whole": run.name == "run-0"})
    bed: Any = SimpleNamespace(runs=tmp_path)

    with pytest.raises(ValueError, match="too many values") if others else nullcontext():
        assert Bed.judged(bed) == {"whole": True}
