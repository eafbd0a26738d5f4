"""Starts that fail half-way: the quick ones with the real command, and what counts as wrong in a row."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from history.events import EventLog
from history.folder import RunFolder
from tests.acceptance import starts
from tests.acceptance.start_cases import CONTROLS, STARTS, Start
from tests.acceptance.starts import ADVICE, attempt, kept, row, sentence, wrong

START = Start("x", ":", "disk is full; make room")
KEPT: dict[str, Any] = {
    "injected": ["kill broker-1"],
    "healed": ["kill broker-1"],
    "clients": {"producer": True, "prober": True},
    "sealed": True,
    "verdict": "unknown",
}
ROW: dict[str, Any] = {"exit_code": 2, "sentence": "The disk is full; make room.", "stderr": "", "left": []}


def has_namespaces() -> bool:
    """Return whether this user can create the namespaces in which starts fail."""
    overlay = "lowerdir=/usr,upperdir=/mnt/upper,workdir=/mnt/work"
    mounts = f"mount -t tmpfs x /mnt && mkdir /mnt/upper /mnt/work && mount -t overlay -o {overlay} x /usr"
    tried = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--mount-proc", "sh", "-c", mounts]
    return os.getuid() == 0 and subprocess.run(tried, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_namespaces(), reason="this user makes no namespaces")
@pytest.mark.parametrize("start", [start for start in STARTS if start.is_quick], ids=lambda start: start.name)
def test_a_start_that_fails_says_what_to_do_and_leaves_nothing(start: Start) -> None:
    """A start without a port, lock, disk space, network or Python venv gives advice and leaves no file."""
    found = attempt(start)

    assert (found["exit_code"], wrong(start, found)) == (start.code, []), found["stderr"]


def test_names_are_unique() -> None:
    """A start's name is unique, since a row is found by it."""
    assert len({start.name for start in STARTS}) == len(STARTS)


def test_a_control_is_told_by_its_name() -> None:
    """A control passes without a message; every other start gives advice."""
    assert {start.name for start in STARTS if start.says == "^$"} == CONTROLS
    assert {"nothing is wrong", "a full /dev/shm"} < CONTROLS
    advice = re.compile(rf"; \w|{ADVICE[:-1]}$")
    assert [start.name for start in STARTS if start.name not in CONTROLS and not advice.search(start.says)] == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, []),
        ({"exit_code": 1}, ["exit code 1 instead of 2"]),
        ({"exit_code": None}, ["exit code None instead of 2"]),
        ({"sentence": "The disk is full."}, ["its sentence does not match 'disk is full; make room'"]),
        ({"sentence": "The disk is full; make room. " + ADVICE}, []),
        ({"sentence": "The disk is full; make room"}, ["its sentence ends without a full stop"]),
        ({"sentence": "The disk is full; make room " + ADVICE}, ["its sentence ends without a full stop"]),
        ({"sentence": "It broke.\nThe disk is full; make room."}, [r"its sentence has '\n' in it"]),
        ({"stderr": "Traceback (most recent call last):"}, ["a traceback"]),
        ({"left": ["links: br0"]}, ["links: br0"]),
    ],
)
def test_what_is_wrong_with_a_row(change: dict[str, Any], complaint: list[str]) -> None:
    """Each wrong value of a row has its own complaint."""
    assert wrong(START, ROW | change) == complaint


def test_what_a_run_names_it_may_keep() -> None:
    """A started run keeps its folder; a rejected one keeps none, and no other file may remain."""
    folder, other = "files: /mnt/world/runs/20261125-a", "files: /tmp/plimsoll-x"

    assert row(START, 2, "[00:01] x\nrun: /mnt/world/runs/20261125-a\n", "", [folder, other])["left"] == [other]
    assert row(START, 2, "", "", [folder, other])["left"] == [folder, other]
    shared = ["files: /srv/.cache/kafka/.4.3.1.lock", "files: /tmp/plimsoll.host"]
    assert row(START, 2, "", "", [*shared, "files: /tmp/plimsoll.host2"])["left"] == ["files: /tmp/plimsoll.host2"]


@pytest.mark.parametrize(("runtime", "processes"), [("docker", {"a run's"}), ("process", {"a run's", "any other"})])
def test_the_host_is_looked_at_like_a_world_of_its_own(
    monkeypatch: pytest.MonkeyPatch, runtime: Any, processes: set[str]
) -> None:
    """The host is inspected like a separate world; of the host's processes only a run's are included."""
    found = {"rules": {"-A INPUT"}, "temporary": {"x"}, "processes": {"a run's"}}
    monkeypatch.setattr(starts, "inventory", lambda: found)
    monkeypatch.setattr(starts, "files", lambda: {"/tmp/x"})
    monkeypatch.setattr(starts, "processes", lambda: {"a run's", "any other"})

    looked = starts.looked(replace(START, runtime=runtime))
    assert looked == {"rules": {"-A INPUT"}, "files": {"/tmp/x"}, "processes": processes}


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("", ""),
        ("fetching Kafka 4.3.1, once\nThe disk is full.\n", "The disk is full."),
        ("warning: no Docker.\nERROR: none\nIt cannot be fetched.\nmake: *** [x] Error 3\n", "It cannot be fetched."),
        ("It cannot be fetched.\nmake[1]: *** [x] Error 3\n", "It cannot be fetched."),  # below another make
        ("The disk is full.\nMake room.\n", "The disk is full.\nMake room."),
        (f"It broke.\n{ADVICE} Airflow's log: /x/airflow.log\n", f"It broke. {ADVICE}"),
        ("Airflow's log: /x/airflow.log\n", "Airflow's log: /x/airflow.log"),
    ],
)
def test_the_sentence_is_what_is_left_without_the_lines_beside_it(stderr: str, said: str) -> None:
    """The sentence is stderr without progress, log and make lines; a second sentence is one too many."""
    assert sentence(stderr) == said


def events_of(run: Path, *told: dict[str, Any]) -> RunFolder:
    """Return a run with exactly these events."""
    run.mkdir()
    for each in told:
        EventLog(RunFolder(run).events).add(**each)
    return RunFolder(run)


LEADER = {"step": "kill", "target": "broker-1"}
BROKE = {"kind": "error", "phase": "it dies", "why": "The disk is full."}
INJECTED = {"kind": "injected", "phase": "it dies", "effect_verified": True, **LEADER}
HEALED = {"kind": "healed", "phase": "it dies", "recovery_verified": True, **LEADER}


@pytest.mark.parametrize(
    ("events", "healed"),
    [
        ([INJECTED, HEALED, BROKE], ["kill broker-1"]),
        ([INJECTED, HEALED | {"recovery_verified": False}, BROKE], []),
        ([INJECTED, BROKE, HEALED | {"phase": "later"}], []),
    ],
)
def test_what_a_run_kept_that_broke_amid_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[dict[str, Any]], healed: list[str]
) -> None:
    """A run that broke during a fault reports only its own phase, and counts only verified recoveries as healed."""
    monkeypatch.setattr(starts, "judged", lambda _: {"verdict": "unknown"})
    before = INJECTED | {"phase": "before", "target": "broker-2"}
    run = events_of(tmp_path / "run", before, *events)
    run.clients.mkdir()
    for name, clean in (("prober", "false"), ("producer", "true")):
        (run.clients / f"{name}.json").write_text(f'{{"clean": {clean}}}')

    found = {"injected": ["kill broker-1"], "healed": healed, "clients": {"prober": False, "producer": True}}
    assert kept(run.path) == {**found, "sealed": False, "verdict": "unknown"}
    run.seal()
    assert kept(run.path)["sealed"]


@pytest.mark.parametrize(
    ("runs", "complaint"),
    [
        ([KEPT], []),
        ([], ["it kept 0 runs"]),
        ([KEPT | {"injected": []}], ["no active fault"]),
        ([KEPT | {"healed": []}], ["kill broker-1 was not healed"]),
        ([KEPT | {"clients": {}}], ["no stopped client"]),
        ([KEPT | {"clients": {"producer": False, "prober": True}}], ["producer did not end cleanly"]),
        ([KEPT | {"sealed": False}], ["its record is not sealed"]),
        ([KEPT | {"verdict": "pass"}], ["its verdict is pass"]),
    ],
)
def test_a_run_that_breaks_amid_a_fault_heals_it_and_keeps_its_record(
    runs: list[dict[str, Any]], complaint: list[str]
) -> None:
    """A run that breaks during a fault heals it and keeps its record; other starts have no such requirement."""
    assert wrong(replace(START, is_amid_fault=True), ROW | {"kept": runs}) == complaint
    assert wrong(START, ROW | {"kept": runs}) == []
