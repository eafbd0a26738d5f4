"""Runs on clusters of tests/own_cluster.py: their files, and the ways to start them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kafka.admin import ACLOperation

from clusters.paths import ROOT
from clusters.run import experiment
from clusters.run.recorder import record
from commands.app import run_command
from commands.outcome import Outcome
from history.errors import PlimsollError
from history.events import errors_of, read_events
from history.folder import RunFolder
from history.kafka_versions import DEFAULT_RELEASE
from judge.run import one_by_one
from tests.own_cluster import OwnCluster, own_cluster

HOOK = ROOT / "tests" / "hook.py"
VALUES = {"segments": ("{target}",)}  # after the broker
HOOKS = {"kill": "kill", "start": "start", "pause": "pause", "resume": "resume"}
OWN = ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE", "DELETE")
KILL_LEADER: Sequence[dict[str, Any]] = (
    {"kill": "leader of orders-0"},
    {"wait": {"for": {"leader_changed": "orders"}, "limit": "30s"}},
    {"start": "leader of orders-0"},
    {"wait": {"for": {"isr_full": "orders"}, "limit": "60s"}},
)


OTHERS = {"payments", "plimsoll-registry"}  # what a run leaves on ``shared``


@contextmanager
def granted(folder: Path, **settings: Any) -> Iterator[OwnCluster]:
    """Start a cluster with SCRAM and an authorizer; ann has rights on topics of runs alone."""
    with own_cluster(folder, DEFAULT_RELEASE, security="scram", racks=True, **settings) as cluster:
        for operation in OWN:
            cluster.allow("ann", ACLOperation[operation], "plimsoll-", prefixed=True)
        yield cluster


@contextmanager
def shared(folder: Path) -> Iterator[OwnCluster]:
    """Start such a cluster with a topic of others."""
    with granted(folder) as cluster:
        cluster.create_topic("payments", min_insync_replicas="2")
        yield cluster


def described(
    cluster: OwnCluster, folder: Path, hooks: Mapping[str, str] = HOOKS, user: str = "ann", **more: Any
) -> Path:
    """Write a cluster file whose hooks perform these actions of tests/hook.py."""
    settings = cluster.login(user) if cluster.security else {}
    (folder / "client.properties").write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
    document = {
        "bootstrap": cluster.bootstrap,
        "client": "client.properties",
        "hooks": {
            name: {
                "run": [sys.executable, str(HOOK), str(cluster.folder), action, "{broker}", *VALUES.get(name, ())],
                "limit": "2s",
            }
            for name, action in hooks.items()
        },
        "allow": ["kill"],
        **more,
    }
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def scenario(folder: Path, *steps: dict[str, Any], hold: str = "1s") -> Path:
    """Write a scenario of one topic and one producer."""
    document = {
        "name": "own",
        "why": "Break a cluster that somebody else runs.",
        "cluster": {"brokers": 3},
        "topics": {"orders": {"replicas": ["A", "B", "C"], "config": {"min.insync.replicas": 2}}},
        "load": {"topic": "orders", "rate": 200, "record_bytes": 200},
        "phases": [{"load": [{"hold": hold}]}, {"fault": list(steps) or [{"hold": "1s"}]}],
    }
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


# --- commands ------------------------------------------------------------------------------------


def plimsoll(*arguments: str) -> subprocess.Popen[str]:
    """Start a command in a process group of its own."""
    command = [str(ROOT / "plimsoll"), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def result(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Return a command's exit code, the facts in its last line, and what went to stderr."""
    process = plimsoll(*arguments, "--json")
    printed, errors = process.communicate(timeout=400)
    return process.returncode, json.loads(printed.splitlines()[-1]) if printed else {}, errors


def on(file: Path, played: Path, *options: str) -> Outcome:
    """Run a scenario on a cluster by the command in this process; its runs are next to the cluster file."""
    return run_command(["run", str(played), "--cluster", str(file), "--runs", str(file.parent / "runs"), *options])


def cleaned(file: Path) -> list[str]:
    """Return what the command has cleaned up."""
    outcome = run_command(["clean", "--cluster", str(file)])
    assert outcome.code == 0, outcome.error
    return list(outcome.facts["done"])


# --- without Airflow -----------------------------------------------------------------------------


def recorded(file: Path, played: Path) -> tuple[RunFolder, str]:
    """Record a scenario; return the run and its first error, or an empty text."""
    run = experiment.prepare(str(played), kafka="", runs=file.parent / "runs", cluster=file, lease="process")
    try:
        record(run)
    except PlimsollError as error:
        return RunFolder(run), next(iter(errors_of(RunFolder(run))), str(error))
    return RunFolder(run), ""


def verdict_of(run: RunFolder) -> dict[str, Any]:
    """Judge a run in this process, and return its verdict's file."""
    from spark.job import judge_folder  # slow import

    judge_folder(run, lambda *_: one_by_one)
    return dict(json.loads(run.verdict_file.read_text()))


def hooks_of(run: RunFolder) -> list[tuple[str, str]]:
    """Return the hooks that were run, each with its broker."""
    return [(event.detail["name"], event.target) for event in read_events(run.events) if event.kind == "hook"]
