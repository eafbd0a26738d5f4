"""Hooks run real programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from clusters.attached.cluster_file import ClusterFile
from clusters.attached.hooks import OUTPUT_BYTES, Hooks, capabilities
from clusters.waiting import wait_until
from history.errors import HarnessError
from history.events import EventLog, read_events


def described(down: str = "until_start", **hooks: Any) -> ClusterFile:
    """Return a cluster with these hooks."""
    return ClusterFile.model_validate({"bootstrap": ["b1:9092"], "down": down, "hooks": hooks})


def hooks_in(folder: Path, run: list[str], **more: Any) -> Hooks:
    """Return hooks of which ``logs`` is a program."""
    file = described(logs={"run": run, **more})
    return Hooks(file, folder / "hooks", EventLog(folder / "events.jsonl"))


def test_a_hook_gets_its_arguments_as_they_are(tmp_path: Path) -> None:
    """Spaces, quotes and dollars reach the program unchanged; the event has all that a reader needs."""
    hooks = hooks_in(tmp_path, ["printf", "%s|", "{broker} on {host}", "$HOME; 'x'", "{rack}"])
    ran = hooks.run("logs", 2, host="b2", rack=None)
    begun, event = read_events(tmp_path / "events.jsonl")

    assert (ran.exit_code, ran.output) == (0, tmp_path / "hooks" / "1-logs-2.txt")
    assert ran.output.read_text() == "2 on b2|$HOME; 'x'||"
    assert (begun.kind, begun.target) == ("hook", "broker-2")
    assert begun.detail == {
        "name": "logs",
        "values": {"host": "b2", "rack": ""},
        "arguments": ["printf", "%s|", "2 on b2", "$HOME; 'x'", ""],
    }
    assert (event.kind, event.target) == ("hook_ended", "broker-2")
    assert event.detail == {
        "name": "logs",
        "exit_code": 0,
        "seconds": round(ran.seconds, 3),
        "file": "1-logs-2.txt",
        "bytes": 20,
    }


def test_a_failing_hook_raises_nothing(tmp_path: Path) -> None:
    """Its exit code and both streams are recorded; the next hook has the next number."""
    hooks = hooks_in(tmp_path, ["sh", "-c", "echo out; echo err >&2; exit 7"])

    assert [hooks.run("logs", 1, host="b1").exit_code for _ in range(2)] == [7, 7]
    assert sorted(each.name for each in (tmp_path / "hooks").iterdir()) == ["1-logs-1.txt", "2-logs-1.txt"]
    assert (tmp_path / "hooks" / "2-logs-1.txt").read_text() == "out\nerr\n"


def test_a_program_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    """The sentence names hook and program."""
    with pytest.raises(HarnessError, match=r"hooks.logs: no-such-program cannot be started: No such file"):
        hooks_in(tmp_path, ["no-such-program"]).run("logs", 1, host="b1")
    with pytest.raises(HarnessError, match=r"hooks.logs: echo cannot be started: embedded null byte"):
        hooks_in(tmp_path, ["echo", "\0"]).run("logs", 1, host="b1")


def test_a_hook_is_killed_with_its_children_at_the_limit(tmp_path: Path) -> None:
    """It has no exit code then; what it printed before is there."""
    ran = hooks_in(tmp_path, ["sh", "-c", "sleep 600 & echo $!; wait"], limit=1).run("logs", 1, host="b1")
    child = int(ran.output.read_text())

    assert ran.exit_code is None
    wait_until(lambda: not is_alive(child), limit_s=10, what="the end of the child")


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_that_a_hook_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    """A start hook may leave a broker that has its output open; it is not killed either."""
    ran = hooks_in(tmp_path, ["sh", "-c", "sleep 600 & echo $!"]).run("logs", 1, host="b1")
    child = int(ran.output.read_text())

    try:
        assert (ran.exit_code, is_alive(child)) == (0, True)
    finally:
        os.kill(child, 9)


def test_a_long_output_is_cut_and_counted(tmp_path: Path) -> None:
    """The file has the first megabyte, the event the whole size."""
    ran = hooks_in(tmp_path, ["head", "-c", "1000001", "/dev/zero"]).run("logs", 1, host="b1")
    _, event = read_events(tmp_path / "events.jsonl")

    assert (ran.output.stat().st_size, event.detail["bytes"]) == (OUTPUT_BYTES, 1_000_001)


def test_a_hook_sees_few_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of ssh, kubectl and AWS, and what its entry names; no other secrets, and no input."""
    monkeypatch.setattr(
        os, "environ", {"PATH": os.environ["PATH"], "AWS_PROFILE": "p", "TOKEN": "t", "AIRFLOW_HOME": "a", "HOME": "h"}
    )
    hooks = hooks_in(tmp_path, ["sh", "-c", "cat; env"], environment=["TOKEN", "NOT_SET"])
    names = {line.partition("=")[0] for line in hooks.run("logs", 1).output.read_text().splitlines()}

    assert names - {"PWD", "SHLVL", "_"} == {"PATH", "HOME", "AWS_PROFILE", "TOKEN"}


@pytest.mark.parametrize(
    ("down", "names", "possible"),
    [
        ("until_start", [], set()),
        ("until_start", ["pause", "resume"], {"pause"}),
        ("until_start", ["kill", "start", "logs"], {"kill", "start", "logs"}),
        ("restarts_itself", ["kill"], {"kill", "start"}),
        ("until_start", ["disconnect", "reconnect", "segments"], {"disconnect", "segments"}),
    ],
)
def test_hooks_are_capabilities(down: str, names: list[str], possible: set[str]) -> None:
    """Brokers that return by themselves can be started, too."""
    assert capabilities(described(down, **{name: {"run": ["x"]} for name in names})) == possible | {"owner"}
