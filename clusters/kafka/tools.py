"""Run Kafka's command-line tools, in nodes without additional rights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clusters.kafka.properties import render
from clusters.kafka.security import USER
from clusters.kafka.servers import ELR, HEADLESS, QUICK_JVM, SCRAM, Release, kraft_config, secrets_of
from clusters.runtimes.nodes import Node, opened
from clusters.runtimes.ports import PORTS
from clusters.runtimes.runtime import Runtime
from clusters.runtimes.tools import run_tool
from clusters.scenario.scenario import Cluster
from history.errors import HarnessError
from history.folder import write_private
from history.java import Java


def tool_node(java: Java, jars: Path, beside: Node, name: str, *arguments: str) -> Node:
    """Return a node that runs a build's program in another's network."""
    folder = beside.folder.parent / name
    folder.mkdir()
    return Node(
        name=name,
        role="tool",
        address=beside.address,
        folder=folder,
        program=java.command,
        arguments=(*QUICK_JVM, HEADLESS, "-cp", f"{jars}/*", *arguments),
        readable=(jars, java.home),
        beside=beside,
    )


@dataclass(frozen=True)
class Tools:
    """Run a cluster's tools; HarnessError has a tool's output."""

    runtime: Runtime
    release: Release
    cluster: Cluster

    def format_storage(self, controllers: Sequence[Node], brokers: Sequence[Node], identity: str) -> None:
        """Format all nodes' storage with one call; then only ``node.id`` in ``meta.properties`` differs."""
        nodes, first = [*controllers, *brokers], controllers[0]
        folders = {folder: node for node in nodes for folder in (*node.log_dirs, node.metadata_dir)}
        together = first.folder / "format.properties"
        together.write_text(
            render(
                {
                    **kraft_config(first, controllers),
                    "process.roles": "broker,controller",
                    "listeners": f"CONTROLLER://:{PORTS['CONTROLLER']},REPLICATION://:{PORTS['REPLICATION']}",
                    "inter.broker.listener.name": "REPLICATION",
                    "log.dirs": ",".join(map(str, folders)),
                }
            )
        )
        password = self._password(first)
        user = ("--add-scram", f"{SCRAM}=[name={USER},password={password}]") if password else ()
        arguments = ("format", *self._features(), *user, "-t", identity, "-c", str(together))
        self._call(first, "kafka.tools.StorageTool", *arguments, writable=tuple(node.folder for node in nodes))
        for folder, node in folders.items():
            _replace_in(node, folder / "meta.properties", f"node.id={first.node_id}", f"node.id={node.node_id}")

    def store_user(self, zookeeper: Node) -> None:
        """Add SCRAM's user to ZooKeeper before brokers log in as it."""
        if password := self._password(zookeeper):
            at = str(zookeeper.endpoints["ZOOKEEPER"])
            user = ("--entity-type", "users", "--entity-name", USER, "--add-config", f"{SCRAM}=[password={password}]")
            self._call(zookeeper, "kafka.admin.ConfigCommand", "--zookeeper", at, "--alter", *user)

    def _call(self, beside: Node, main: str, *arguments: str, writable: tuple[Path, ...] = ()) -> None:
        """Pass arguments in a file: other users can read command lines."""
        tool = tool_node(self.release.java, self.release.jars, beside, main)
        file = tool.folder / "arguments"
        try:
            write_private(file, "".join(f"{_quoted(each)}\n" for each in (main, *arguments)))
            run_tool(self.runtime, replace(tool, arguments=(*tool.arguments, f"@{file}"), writable=writable))
        except HarnessError as error:
            password = self._password(beside)
            raise HarnessError(str(error).replace(password, "***") if password else str(error)) from None
        finally:
            file.unlink(missing_ok=True)

    def _password(self, node: Node) -> str | None:
        secrets = secrets_of(self.cluster, node.folder.parent)
        return secrets.password() if secrets and secrets.sasl == SCRAM else None

    def _features(self) -> list[str]:
        cluster = self.cluster
        flags = ["--release-version", cluster.metadata_version] if cluster.metadata_version else []
        if cluster.elr is not None:
            flags += ["--feature", f"{ELR}={int(cluster.elr)}"]
        return flags


def _replace_in(node: Node, path: Path, old: str, new: str) -> None:
    with opened(node, path, os.O_RDWR) as descriptor, open(descriptor, "r+", closefd=False) as file:
        text = file.read().replace(old, new)
        file.seek(0)
        file.truncate()
        file.write(text)


def _quoted(argument: str) -> str:
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
