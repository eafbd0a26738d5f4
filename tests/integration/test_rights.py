"""A running cluster's rights and listeners, and that no text of a scenario is run by a shell."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.kafka.builds import Build, build_of
from clusters.live.world import World
from clusters.run import experiment
from clusters.runtimes.docker.daemon import RUN_LABEL
from clusters.runtimes.docker.runtime import DockerRuntime
from history.java import Java, java_of
from history.manifest import read_manifest

MARKER = "plimsoll-was-here"
TOLD_TO_SHELLS = [f"; touch {MARKER}", f"$(touch {MARKER})", f"`touch {MARKER}`", f"' && touch {MARKER} #"]
TEXT = " ".join(TOLD_TO_SHELLS)
NET_ADMIN = 1 << 12
# All variables of a container, without any of the host's.
ENVIRONMENT = {"PATH", "LC_ALL", "LOG", "HOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH"}
# Text with shell commands in free-text fields that a broker starts with (test_scenario.py has all).
SCENARIO = {
    "name": "rights",
    "why": TEXT,
    "cluster": {
        "brokers": 1,
        "jvm_flags": [
            "-XX:TieredStopAtLevel=1",
            f"-Dtold=$(touch${{IFS}}{MARKER})",
            f"-Dagain=`touch${{IFS}}{MARKER}`",
        ],
        "config": {"broker.rack": TEXT, "told.to.nobody": TEXT, "offsets.topic.replication.factor": 1},
        "allow_unknown": ["told.to.nobody"],
        "disks": {"A": "256MB"},
    },
    "topics": {"orders": {"replicas": ["A"]}},
    "load": {"topic": "orders", "rate": "50/s"},
    "phases": [{TEXT: [{"hold": "100ms"}]}, {TOLD_TO_SHELLS[0]: [{"hold": "100ms"}]}],
}


@pytest.fixture(
    scope="module",
    params=[pytest.param("process", marks=pytest.mark.slow), pytest.param("docker", marks=pytest.mark.docker)],
)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A broker under load during a scenario whose texts are shell commands, once per runtime."""
    told = dict(SCENARIO)
    if request.param == "process":
        told["cluster"] = {name: value for name, value in SCENARIO["cluster"].items() if name != "disks"}  # type: ignore[attr-defined]
    folder = tmp_path_factory.mktemp("rights")
    (folder / "rights.yaml").write_text(yaml.safe_dump(told))
    run = experiment.prepare(
        str(folder / "rights.yaml"),
        kafka="3.9.1",
        runtime=request.param,
        runs=folder / "runs",
        lease="process",
        labels={"told": TEXT},
    )
    with experiment.hold_lease(run):
        try:
            experiment.start_cluster(run)
            experiment.create_topics(run)
            experiment.start_clients(run)
            for number in range(len(SCENARIO["phases"])):  # type: ignore[arg-type]
                experiment.run_phase(run, number)
            with World.open(run) as opened:
                yield opened
        finally:
            experiment.tear_down(run)


def docker_runtime(world: World) -> DockerRuntime:
    """Return the world's Docker runtime, for tests on Docker alone."""
    if not isinstance(world.runtime, DockerRuntime):
        pytest.fail("this test is for Docker")
    return world.runtime


def containers(world: World) -> list[dict[str, Any]]:
    """Return Docker's description of every container of the run."""
    client, mine = docker_runtime(world)._daemon.client, {"label": f"{RUN_LABEL}={world.folder.path}"}
    return [container.attrs for container in client.containers.list(all=True, filters=mine, ignore_removed=True)]


on_docker = pytest.mark.parametrize(
    "world", [pytest.param("docker", marks=pytest.mark.docker)], indirect=True, scope="module"
)
pytestmark = pytest.mark.cluster


def test_no_text_of_a_scenario_is_run(world: World) -> None:
    """A scenario's text is recorded verbatim in the manifest, and runs no command on the host or in a node."""
    manifest = read_manifest(world.folder.manifest)
    assert manifest.scenario["why"] == TEXT
    assert manifest.labels["told"] == TEXT
    assert [node.config["broker.rack"] for node in manifest.brokers] == [TEXT]

    places = [world.folder.path, Path.cwd(), Path.home(), Path("/tmp")]
    assert list(world.folder.path.rglob(MARKER)) == []
    assert [place for place in places if (place / MARKER).exists()] == []
    if isinstance(world.runtime, DockerRuntime):
        looked = [_exec(world, "broker-1", "find", place, "-maxdepth", "1", "-name", MARKER) for place in ("/", "/tmp")]
        assert looked == ["", ""]


def _exec(world: World, node: str, *command: str) -> str:
    done = docker_runtime(world)._daemon.container(node).exec_run(list(command), stderr=False)
    return str(done.output.decode().strip())


@on_docker
def test_no_container_has_rights_over_the_host(world: World) -> None:
    """Containers have no privilege, capability, host namespace, Docker socket, device or published port.

    Their processes run as the user who started the run.
    """
    found = containers(world)
    assert len(found) > 4

    for attrs in found:
        host, name = attrs["HostConfig"], attrs["Name"]
        assert not host["Privileged"], name
        assert not host["CapAdd"], name
        assert host["CapDrop"] == ["ALL"], name
        assert "no-new-privileges:true" in host["SecurityOpt"], name
        assert "host" not in (host["PidMode"], host["IpcMode"], host["NetworkMode"], host["UTSMode"]), name
        assert not host["PortBindings"], name
        assert not any((attrs["NetworkSettings"]["Ports"] or {}).values()), name
        assert not host["Devices"], name
        assert {each.partition("=")[0] for each in attrs["Config"]["Env"]} <= ENVIRONMENT, name
        sources = [mount.get("Source", "") for mount in attrs["Mounts"]]
        assert not [source for source in sources if source.endswith(".sock") or source in ("/", "/etc", "/proc")], name
    status = _exec(world, "broker-1", "cat", "/proc/1/status")
    assert {name: _of_status(status, name) for name in ("CapEff", "CapBnd", "NoNewPrivs")} == {
        "CapEff": 0,
        "CapBnd": 0,
        "NoNewPrivs": 1,
    }
    assert status.split("Uid:")[1].split()[0] == str(os.getuid())


def _of_status(status: str, name: str) -> int:
    return int(status.partition(f"{name}:")[2].split(maxsplit=1)[0], 16)


@on_docker
def test_a_helper_has_net_admin_and_is_gone_again(world: World) -> None:
    """A helper in a node's namespace has NET_ADMIN alone and no socket; one at a disk has no capability."""
    runtime, broker = docker_runtime(world), world.servers.node(1)
    before = {attrs["Id"] for attrs in containers(world)}
    script = "cat /proc/self/status; ls /var/run/docker.sock /run/docker.sock 2>/dev/null; true"

    beside = runtime._namespaces.run_script(broker, script, "look at its rights")
    at_disk = runtime.disks.run_script(broker, script)

    assert [_of_status(said, name) for said in (beside, at_disk) for name in ("CapEff", "CapBnd")] == [
        *(NET_ADMIN, NET_ADMIN),
        *(0, 0),
    ]
    assert "docker.sock" not in beside + at_disk
    assert {attrs["Id"] for attrs in containers(world)} == before


@on_docker
def test_containers_listen_on_the_runs_own_bridge_alone(world: World) -> None:
    """A server has the loopback and an address on the run's internal bridge; its clients reach no other network."""
    runtime = docker_runtime(world)
    for node in world.servers.nodes:
        shown = runtime._namespaces.show(node, "ip", "-o", "-4", "address")
        addresses = {line.split()[3].partition("/")[0] for line in shown.splitlines()}
        assert addresses == {"127.0.0.1", node.address}
    (network,) = runtime._daemon.client.networks.list(filters={"label": f"{RUN_LABEL}={world.folder.path}"})
    assert network.attrs["Internal"]
    every = containers(world)
    beside = {f"container:{name}" for attrs in every for name in (attrs["Id"], attrs["Name"].removeprefix("/"))}
    assert {attrs["HostConfig"]["NetworkMode"] for attrs in every} <= {network.name, "none", *beside}


# Writes a file of the user's as soon as it runs a class path, and records its runs in the node's folder.
UNTRUSTED = """#!/bin/sh
case "$*" in *-cp*) touch {marker} 2>/dev/null; echo "$*" >>ran.txt;; esac
exec "${{0%/*}}/real" "$@"
"""


@pytest.mark.docker
@pytest.mark.parametrize(
    ("cluster", "tools"),
    [
        ({"jvm": "fast_start"}, {"kafka.tools.StorageTool", "class-archive"}),
        (
            {"mode": "zookeeper", "security": {"sasl": "SCRAM-SHA-512"}, "jvm": "production"},
            {"kafka.admin.ConfigCommand"},
        ),
    ],
)
def test_the_build_under_test_runs_in_nodes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: dict[str, Any], tools: set[str]
) -> None:
    """Servers and all tools of the build under test run in nodes, and cannot reach the user's files."""
    marker, java = tmp_path / MARKER, _untrusted_java(tmp_path)
    monkeypatch.setattr("clusters.run.prepare.java_of", lambda _: java)
    monkeypatch.setattr("clusters.run.prepare.build_of", lambda kafka: _copied(build_of(kafka), tmp_path / "jars"))
    (tmp_path / "small.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "small",
                "why": "An untrusted build.",
                "cluster": {"brokers": 1, "config": {"offsets.topic.replication.factor": 1}, **cluster},
                "topics": {"orders": {"replicas": ["A"]}},
                "phases": [{"none": [{"hold": "100ms"}]}],
            }
        )
    )
    run = experiment.prepare(
        str(tmp_path / "small.yaml"), kafka="3.9.1", runtime="docker", runs=tmp_path / "runs", lease="process"
    )
    with experiment.hold_lease(run):
        try:
            experiment.start_cluster(run)
            ran = {file.parent.name for file in (run / "work").glob("*/ran.txt")}
        finally:
            experiment.tear_down(run)

    assert not marker.exists()
    assert ran == {"broker-1", "zookeeper" if "mode" in cluster else "controller", *tools}


def _untrusted_java(folder: Path) -> Java:
    trusted, home = java_of(), folder / "java"
    shutil.copytree(trusted.home, home, symlinks=True)
    (home / "bin" / "java").rename(home / "bin" / "real")
    (home / "bin" / "java").write_text(UNTRUSTED.format(marker=folder / MARKER))
    (home / "bin" / "java").chmod(0o755)
    return trusted.model_copy(update={"home": home})


def _copied(build: Build, jars: Path) -> Build:
    """Return the build with copied jars, without class archives."""
    if not jars.exists():
        shutil.copytree(build.jars, jars, ignore=shutil.ignore_patterns("*.jsa"))
    return build.model_copy(update={"jars": jars})
