"""Real clusters: one per runtime for the faults, one per version for the contract of probe and clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusters.live.world import World
from clusters.run import experiment
from history.kafka_versions import CLIENT_RELEASES, DEFAULT_RELEASE

FAULTS = """
name: faults_for_tests
why: A cluster on which every fault is tried.
cluster: {brokers: 3, session_timeout: 6s, config: {replica.lag.time.max.ms: 3000}}
topics:
  orders: {partitions: 1, replicas: [A, B, C], config: {min.insync.replicas: 2}}
  others: {partitions: 1, replicas: [A, B, C]}
load: {topic: orders, rate: 500/s, group: {members: 1}}
phases:
  - none: [{hold: 1s}]
"""
RUNTIMES = ["process", pytest.param("docker", marks=pytest.mark.docker)]
# The oldest in ZooKeeper mode, and the one that a run has by default; every other test runs on 3.9.1.
VERSIONS = [CLIENT_RELEASES[-1], DEFAULT_RELEASE]


def _started(folder: Path, scenario: Path, kafka: str, runtime: str) -> Iterator[Path]:
    run = experiment.prepare(str(scenario), kafka=kafka, runtime=runtime, runs=folder, lease="process")
    with experiment.hold_lease(run):
        try:
            experiment.start_cluster(run)
            yield run
        finally:
            experiment.tear_down(run)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario file with nothing in its phases."""
    path = tmp_path_factory.mktemp("scenario") / "faults.yaml"
    path.write_text(FAULTS)
    return path


def _under_load(folder: Path, scenario: Path, runtime: str) -> Iterator[World]:
    for run in _started(folder, scenario, "3.9.1", runtime):
        experiment.create_topics(run)
        experiment.start_clients(run)
        with World.open(run) as world:
            yield world


@pytest.fixture(scope="module", params=RUNTIMES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, scenario: Path) -> Iterator[World]:
    """A cluster under load, once per runtime; on docker its brokers have two log directories each."""
    if request.param == "docker":
        scenario = tmp_path_factory.mktemp("scenario") / "two_log_dirs.yaml"
        scenario.write_text(FAULTS.replace("brokers: 3,", "brokers: 3, log_dirs: 2,"))
    yield from _under_load(tmp_path_factory.mktemp("runs"), scenario, request.param)


@pytest.fixture(scope="module")
def one_log_dir(tmp_path_factory: pytest.TempPathFactory, scenario: Path) -> Iterator[World]:
    """A cluster under load on docker, whose brokers end with the one log directory that each has."""
    yield from _under_load(tmp_path_factory.mktemp("runs"), scenario, "docker")


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, scenario: Path
) -> Iterator[SimpleNamespace]:
    """Brokers of one version and nothing else: ``brokers`` maps an id to its host:port."""
    for run in _started(tmp_path_factory.mktemp("runs"), scenario, request.param, "process"):
        with World.open(run) as world:
            addresses = {number: str(node.endpoints["CLIENT"]) for number, node in world.servers.brokers.items()}
            yield SimpleNamespace(brokers=addresses)
