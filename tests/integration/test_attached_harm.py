"""Runs on clusters of others that go wrong: every fault is ended, and no topic remains."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from kafka.admin import ACLOperation

from clusters.paths import ROOT
from clusters.waiting import wait_until
from commands.app import run_command
from history.events import read_events
from history.exit_codes import UNKNOWN
from history.folder import RunFolder
from tests.own_cluster import OwnCluster
from tests.own_runs import (
    HOOKS,
    KILL_LEADER,
    OTHERS,
    cleaned,
    described,
    granted,
    hooks_of,
    plimsoll,
    recorded,
    scenario,
    shared,
    verdict_of,
)

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Three brokers with a topic of others."""
    with shared(tmp_path_factory.mktemp("own")) as started:
        yield started


@pytest.mark.parametrize(
    ("action", "says", "started"),
    [
        ("fail", "every broker answered", {"broker-1"}),
        ("hang", "every broker answered", {"broker-1"}),
        ("lie", "every broker answered", {"broker-1"}),
        ("kill_next", "broker-2 did not answer", {"broker-1", "broker-2"}),
    ],
)
def test_a_hook_without_effect_ends_the_run(
    cluster: OwnCluster, tmp_path: Path, action: str, says: str, started: set[str]
) -> None:
    """It exits with 1, is killed at its limit, does nothing, or kills another broker, which is started again."""
    file = described(cluster, tmp_path, {**HOOKS, "kill": action})
    run, why = recorded(file, scenario(tmp_path, {"kill": "A"}, {"hold": "1s"}))
    assert why == f"HarnessError: The hook kill had no visible effect on broker-1; {says}."
    assert {broker for hook, broker in hooks_of(run) if hook == "start"} == started
    cluster.wait_for_all()
    assert cluster.topics() == OTHERS
    assert verdict_of(run)["verdict"] == "unknown"


def test_a_partition_of_others_that_needs_the_broker_forbids_the_fault(cluster: OwnCluster, tmp_path: Path) -> None:
    """No hook is run, and the sentence names the partition."""
    cluster.create_topic("single", on=[1])
    cluster.allow("ann", ACLOperation.DESCRIBE, "single")
    run, why = recorded(described(cluster, tmp_path), scenario(tmp_path, {"kill": "A"}))
    cluster.delete_topic("single")
    assert "Without brokers 1, partitions of others would be below their min.insync.replicas: single-0" in why
    assert hooks_of(run) == []
    assert any("without DescribeConfigs" in reason for reason in verdict_of(run)["reasons"])
    assert cluster.topics() == OTHERS


# --- crashes -------------------------------------------------------------------------------------

RECORD = "import sys; from pathlib import Path; from tests.own_runs import recorded; recorded(*map(Path, sys.argv[1:]))"


def crash(process: subprocess.Popen[str], runs: Path, moment: Callable[[RunFolder], bool]) -> RunFolder:
    """Kill a command with all its processes but the run's clients, once its run has come to a moment."""

    def come() -> RunFolder | None:
        assert process.poll() is None, process.communicate()
        return next((run for run in map(RunFolder, runs.glob("*")) if moment(run)), None)

    run = wait_until(come, limit_s=200, every_s=0.02, what="the moment")
    for each in [*psutil.Process(process.pid).children(recursive=True), process]:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.communicate()
    return run


def began(stage: str, run: RunFolder) -> bool:
    """Return whether a run has begun a stage."""
    return run.stages.exists() and any(event.step == stage for event in read_events(run.stages))


def is_down(run: RunFolder) -> bool:
    """Return whether a fault has taken effect."""
    return run.events.exists() and any(event.kind == "injected" for event in read_events(run.events))


def check_cleaned(cluster: OwnCluster, file: Path) -> list[str]:
    """Check that a clean leaves no topic of a run, and every broker answers; return what it did."""
    done = cleaned(file)
    cluster.wait_for_all()
    assert cluster.topics() <= OTHERS
    assert cleaned(file) == []
    return done


@pytest.mark.parametrize("moment", [partial(began, "create_topics"), is_down, partial(began, "drain")])
def test_what_a_crash_leaves_is_cleaned(
    cluster: OwnCluster, tmp_path: Path, moment: Callable[[RunFolder], bool]
) -> None:
    """While topics are created, a broker is down, and records are drained."""
    file, played = described(cluster, tmp_path), scenario(tmp_path, *KILL_LEADER)
    process = subprocess.Popen(
        [sys.executable, "-c", RECORD, str(file), str(played)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    crash(process, tmp_path / "runs", moment)
    done = check_cleaned(cluster, file)
    assert any(each.startswith("topic plimsoll-orders-") for each in done) or moment is not is_down
    assert any(each.startswith("start broker-1") for each in done) == (moment is is_down), done


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_what_a_crash_at_any_moment_leaves_is_cleaned(cluster: OwnCluster, tmp_path: Path, seed: int) -> None:
    """A command is killed with its Airflow 5 to 35 s after its start, or as soon as its run has a folder."""
    file, played = described(cluster, tmp_path), scenario(tmp_path, *KILL_LEADER)
    process = plimsoll("run", str(played), "--cluster", str(file), "--runs", str(tmp_path / "runs"))
    end_s = time.monotonic() + random.Random(seed).uniform(5, 35)
    crash(process, tmp_path / "runs", lambda _: time.monotonic() > end_s)
    check_cleaned(cluster, file)


def test_a_cluster_that_deletes_no_topics_keeps_them(tmp_path: Path) -> None:
    """The run's last sentence and that of a clean name them; the verdict stays."""
    with granted(tmp_path, extra={"delete.topic.enable": "false"}) as cluster:
        (case := tmp_path / "case").mkdir()
        file = described(cluster, case)
        run, why = recorded(file, scenario(case))
        (own,) = cluster.topics() - {"plimsoll-registry"}
        assert f"(delete.topic.enable=false), so these remain: {own}; ask its owner" in why
        assert verdict_of(run)["verdict"] == "pass"
        outcome = run_command(["clean", "--cluster", str(file)])
        assert (outcome.code, f"so these remain: {own};" in outcome.error) == (UNKNOWN, True)
