"""Keep each node's network namespace across restarts.

A holder container owns it and the address; the node joins it. A short-lived helper in the namespace sets network rules,
so that brokers need no capability and paused ones are reachable.
"""

from __future__ import annotations

from docker.errors import NotFound

from clusters.runtimes.docker.daemon import Daemon, trying
from clusters.runtimes.docker.disks import DockerDisks
from clusters.runtimes.docker.image import NO_NEW_PRIVILEGES, node_image, run_script
from clusters.runtimes.nodes import Node

HOLDER = "-net"  # suffix of its name


class Namespaces:
    """Manage the network namespaces of a run's nodes."""

    def __init__(self, daemon: Daemon, disks: DockerDisks) -> None:
        self._daemon = daemon
        self._disks = disks

    def holder(self, node: Node) -> str:
        """Return the id of the container that owns the node's address; create it if missing."""
        name = f"{self._daemon.container_name(node.name)}{HOLDER}"
        with trying(f"look for the container that holds the address of {node.name}"):
            try:
                return str(self._daemon.client.containers.get(name).id)
            except NotFound:
                pass
        return self._create_holder(node, name)

    def _create_holder(self, node: Node, name: str) -> str:
        client, network = self._daemon.client, self._daemon.network_name
        image = node_image(client)
        if node.disk_bytes:
            self._disks.create(node)
        with trying(f"give {node.name} the address {node.address}"):
            holder = client.containers.create(
                image,
                ["tini", "--", "sleep", "infinity"],
                name=name,
                hostname=node.name,
                network=network,
                networking_config={network: client.api.create_endpoint_config(ipv4_address=node.address)},
                labels=self._daemon.label,
                cap_drop=["ALL"],
                security_opt=NO_NEW_PRIVILEGES,
                # Keeps the disk in memory.
                volumes={self._disks.volume_name(node): {"bind": "/disk", "mode": "rw"}} if node.disk_bytes else None,
            )
            holder.start()
        if node.disk_bytes:
            self._disks.run_script(node, "cp -a data/. /disk/")
        return str(holder.id)

    def run_script(self, node: Node, script: str, what: str) -> str:
        """Run a shell script with NET_ADMIN in a node's namespace; return its output."""
        mode = f"container:{self.holder(node)}"
        client, run = self._daemon.client, self._daemon.run
        return run_script(client, run, script, what, network_mode=mode, cap_add=["NET_ADMIN"])

    def show(self, node: Node, *command: str) -> str:
        """Return a command's output in a node's namespace, run without capabilities."""
        what = f"show the traffic of {node.name}"
        with trying(what):
            holder = self._daemon.client.containers.get(self.holder(node))
        return self._daemon.printed_by(holder, command, what)
