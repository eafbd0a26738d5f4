"""Kafka's tools: the node in which each one runs, its arguments, and its error message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusters.kafka.servers import CONTROLLER_ID, Mode, Release, broker_node, metadata_nodes_of
from clusters.kafka.tools import Tools
from clusters.runtimes.nodes import Node
from clusters.scenario.scenario import Cluster
from history.errors import HarnessError
from tests.clusters.fakes import A_JAVA


def cluster_with(**fields: Any) -> Cluster:
    """Return a cluster of two brokers with these fields."""
    return Cluster.model_validate({"brokers": 2, **fields})


CLUSTER = cluster_with()
SCRAM = cluster_with(security={"tls": "mutual", "sasl": "SCRAM-SHA-512"})


class ToolRuntime:
    """A runtime whose nodes run ``act`` and exit; it keeps the content of each argument file."""

    def __init__(self, act: Callable[[list[str]], tuple[int, str]]) -> None:
        self.act, self.started, self.told = act, list[Node](), list[list[str]]()

    def start(self, node: Node) -> None:
        file = Path(node.arguments[-1].removeprefix("@"))
        assert file.stat().st_mode & 0o777 == 0o600
        assert "s3cret" not in str(node)
        self.started.append(node)
        self.told.append([json.loads(line) for line in file.read_text().splitlines()])
        self.status, printed = self.act(self.told[-1])
        node.log.write_text(printed)

    def state(self, _name: str) -> str:
        return "exited"

    def exit_status(self, _name: str) -> int:
        return self.status


def tools(
    work: Path,
    mode: Mode = "kraft",
    cluster: Cluster = CLUSTER,
    act: Callable[[list[str]], tuple[int, str]] = lambda told: (1, " ".join(told)),
) -> tuple[Any, Tools, Node]:
    """Return a runtime, its tools, and the metadata node next to which they run; ``act`` plays each tool."""
    release = Release("3.9.1", Path("/jars"), mode, A_JAVA)
    runtime: Any = ToolRuntime(act)
    node = metadata_nodes_of(release, cluster, ["127.1.1.10"], work)[0]
    node.folder.mkdir()
    (work / "security").mkdir()
    (work / "security" / "password").write_text("s3cret")
    return runtime, Tools(runtime, release, cluster), node


def formatted(told: list[str]) -> tuple[int, str]:
    """Write meta.properties as Kafka's storage tool does, with the controller's id everywhere."""
    settings = dict(line.split("=", 1) for line in Path(told[-1]).read_text().splitlines())
    for folder in settings["log.dirs"].split(","):
        (Path(folder) / "meta.properties").write_text(f"cluster.id=x\nnode.id={settings['node.id']}\n")
    return 0, ""


def test_storage_is_formatted_at_once_and_each_node_keeps_its_id(tmp_path: Path) -> None:
    """One node formats all storage next to the controller, and each node's meta.properties has the node's own id."""
    runtime, opened, controller = tools(tmp_path, act=formatted)
    broker = broker_node(opened.release, cluster_with(log_dirs=2), 1, "127.1.1.11", tmp_path)
    folders = [controller.folder / "data", *(broker.folder / name for name in ("data", "data-2", "metadata"))]
    for folder in folders:
        folder.mkdir(parents=True)
    opened.format_storage([controller], [broker], "an-id")

    ids = [(folder / "meta.properties").read_text().split()[-1] for folder in folders]
    assert ids == [f"node.id={CONTROLLER_ID}", "node.id=1", "node.id=1", "node.id=1"]
    (tool,) = runtime.started
    assert (tool.beside, tool.program) == (controller, A_JAVA.command)
    assert (tool.readable, tool.writable) == ((Path("/jars"), A_JAVA.home), (controller.folder, broker.folder))
    assert [file.name for file in tool.folder.iterdir()] == ["server.log"]


def test_a_link_in_formatted_storage_is_not_followed(tmp_path: Path) -> None:
    """A symbolic link in formatted storage is an error: a build could point it at a file of the user's."""
    (tmp_path / "credentials").write_text(f"node.id={CONTROLLER_ID}\n")
    _, opened, controller = tools(tmp_path, act=lambda _: (0, ""))
    (controller.folder / "data").mkdir()
    (controller.folder / "data" / "meta.properties").symlink_to(tmp_path / "credentials")

    with pytest.raises(HarnessError, match=r"at meta.properties, and links are not followed"):
        opened.format_storage([controller], [], "an-id")


def test_a_tool_that_fails_tells_what_it_printed(tmp_path: Path) -> None:
    """The error of a failed tool has its exit status and output."""
    _, opened, controller = tools(tmp_path, act=lambda _: (1, "No space"))

    with pytest.raises(HarnessError, match=r"kafka\.tools\.StorageTool failed with exit status 1: No space"):
        opened.format_storage([controller], [], "an-id")


def test_scrams_user_is_in_the_storage_from_the_start(tmp_path: Path) -> None:
    """With SCRAM the storage has the brokers' user from the start (KIP-900), and errors hide the password."""
    runtime, opened, controller = tools(tmp_path, cluster=SCRAM)
    with pytest.raises(HarnessError, match="password=") as raised:
        opened.format_storage([controller], [], "an-id")

    assert "s3cret" not in str(raised.value)
    at = runtime.told[0].index("--add-scram")
    assert runtime.told[0][at + 1] == "SCRAM-SHA-512=[name=plimsoll,password=s3cret]"
    assert list(tmp_path.rglob("arguments")) == []


def test_without_scram_the_storage_has_no_user(tmp_path: Path) -> None:
    """Without SCRAM the storage has no user."""
    runtime, opened, controller = tools(tmp_path)
    with pytest.raises(HarnessError):
        opened.format_storage([controller], [], "an-id")

    assert "--add-scram" not in runtime.told[0]


def test_zookeeper_knows_scrams_user_before_the_first_broker(tmp_path: Path) -> None:
    """With SCRAM in ZooKeeper mode, Kafka's ConfigCommand stores the user before the first broker starts."""
    runtime, opened, zookeeper = tools(tmp_path, "zookeeper", SCRAM)
    with pytest.raises(HarnessError, match="ConfigCommand failed") as raised:
        opened.store_user(zookeeper)

    assert "s3cret" not in str(raised.value)
    assert runtime.told[0][-1] == "SCRAM-SHA-512=[password=s3cret]"
    assert runtime.started[0].beside == zookeeper


@pytest.mark.parametrize("cluster", [CLUSTER, cluster_with(security={"sasl": "PLAIN"})])
def test_zookeeper_is_told_of_scrams_users_alone(tmp_path: Path, cluster: Cluster) -> None:
    """Without SCRAM no user is stored in ZooKeeper."""
    runtime, opened, zookeeper = tools(tmp_path, "zookeeper", cluster)
    opened.store_user(zookeeper)

    assert runtime.started == []


@pytest.mark.parametrize(
    ("fields", "flags"),
    [
        ({"elr": True}, ["--feature", "eligible.leader.replicas.version=1"]),
        ({"elr": False}, ["--feature", "eligible.leader.replicas.version=0"]),
        ({"metadata_version": "3.8"}, ["--release-version", "3.8"]),
        ({}, []),
    ],
)
def test_features_are_what_storage_is_formatted_with(tmp_path: Path, fields: dict[str, Any], flags: list[str]) -> None:
    """Storage is formatted with the scenario's features; others keep the version's defaults."""
    runtime, opened, controller = tools(tmp_path, cluster=cluster_with(**fields))
    with pytest.raises(HarnessError):
        opened.format_storage([controller], [], "an-id")

    assert runtime.told[0][2:-4] == flags
