"""Parallel runs: what counts as touched."""

from typing import Any

import pytest

from clusters.scenario.scenario import load_scenario
from history.events import EventLog
from history.folder import RunFolder
from history.manifest import Incarnation, read_manifest
from tests.acceptance.side_by_side import ASKED, OWN, addresses, foreign, restarts, shared, wrong
from tests.reports.sample_run import write_sample_run

RUN: dict[str, Any] = {"scenario": "steady", "exit_code": 0, "verdict": "pass", "touched": []}


def test_four_runs_differ_in_what_they_are() -> None:
    """The four parallel runs differ in version and scenario, and use both runtimes and two checkouts."""
    assert len(ASKED) == len({asked.kafka for asked in ASKED}) == len({asked.scenario for asked in ASKED}) == 4
    assert {asked.runtime for asked in ASKED} == {"docker", "process"}
    assert sum(asked.other for asked in ASKED) == 2
    assert all(load_scenario(asked.scenario).phases for asked in ASKED)


def test_a_start_that_the_run_did_not_make_is_seen(tmp_path) -> None:
    """More starts of a node than the run accounts for are found; a node that it ended once may start twice."""
    folder = RunFolder(write_sample_run(tmp_path / "run"))
    manifest = read_manifest(folder.manifest)
    starts = [
        Incarnation(node="broker-9", incarnation=number, kafka_version="3.9.1", started_ns=number) for number in (1, 2)
    ]
    manifest.model_copy(update={"incarnations": starts}).write(folder.manifest)
    assert restarts(folder) == ["broker-9 was started 2 times"]

    EventLog(folder.events).add("inject", step="kill", target="broker-8, broker-9")
    assert restarts(folder) == []


def test_a_file_of_another_user_is_seen(tmp_path) -> None:
    """A file of another user is found by its owner at any depth."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "events.jsonl").touch()

    assert foreign(tmp_path, OWN) == []
    assert foreign(tmp_path, "bin") == [f"runs is {OWN}'s", f"runs/events.jsonl is {OWN}'s"]


def test_an_address_of_two_runs_is_seen(tmp_path) -> None:
    """An address that two runs share is found, on any listener."""
    folder = RunFolder(write_sample_run(tmp_path / "run"))
    manifest = read_manifest(folder.manifest)
    node = manifest.nodes[0].model_copy(update={"config": {"listeners": "A://10.0.0.1:9092,B://10.0.0.1:9093"}})
    manifest.model_copy(update={"nodes": [node]}).write(folder.manifest)
    first = addresses(folder.manifest)

    assert first == {"10.0.0.1:9092", "10.0.0.1:9093"}
    assert shared([first, {"10.0.0.2:9092"}, {"10.0.0.1:9093"}]) == ["10.0.0.1:9093"]
    assert shared([first, {"10.0.0.2:9092"}]) == []


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"runs": [RUN | {"touched": ["broker-1 was started 2 times"]}]}, ["steady: broker-1 was started 2 times"]),
        ({"runs": [RUN | {"foreign": ["0/events.jsonl is bin's"]}]}, ["steady: 0/events.jsonl is bin's"]),
        ({"runs": [RUN | {"verdict": "fail", "exit_code": 1}]}, ["steady: fail"]),
        ({"runs": [RUN | {"verdict": "fail", "exit_code": 1, "known_bugs": ["KAFKA-14704"]}]}, []),
        ({"runs": [RUN | {"verdict": "unknown", "exit_code": 2}]}, []),
        ({"runs": [RUN | {"exit_code": 2}]}, ["steady ended with 2"]),
        ({"runs": [RUN | {"exit_code": None}]}, ["steady ended with None"]),
        ({"shared": ["10.0.0.1:9092"]}, ["10.0.0.1:9092"]),
        ({"left": ["networks: plimsoll-1"]}, ["networks: plimsoll-1"]),
    ],
)
def test_what_a_row_shows_that_must_not_be(changed, found) -> None:
    """A touched run, a shared address or a leftover is wrong; an unknown run or a known bug is not."""
    assert wrong({"runs": [RUN], "shared": [], "left": [], **changed}) == found
