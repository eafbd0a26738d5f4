"""The network namespace of each node, which outlives the node's restarts.

A holder container owns it, and with it the node's address; the node joins it. Network rules are set by a short-lived
helper in the same namespace, so that no broker needs a capability and a paused one can be reached, too.
"""

from __future__ import annotations

from docker.errors import NotFound

from clusters.runtimes.docker.daemon import Daemon, trying
from clusters.runtimes.docker.disks import DockerDisks
from clusters.runtimes.docker.image import NO_NEW_PRIVILEGES, node_image, run_script
from clusters.runtimes.nodes import Node

HOLDER = "-net"  # how its name ends


class Namespaces:
    """The network namespaces of a run's nodes."""

    def __init__(self, daemon: Daemon, disks: DockerDisks) -> None:
        self._daemon = daemon
        self._disks = disks

    def holder(self, node: Node) -> str:
        """The id of the container that owns the node's address, created when it is not there yet."""
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
                # A disk in memory lives as long as some container has it.
                volumes={self._disks.volume_name(node): {"bind": "/disk", "mode": "rw"}} if node.disk_bytes else None,
            )
            holder.start()
        if node.disk_bytes:
            self._disks.run_script(node, "cp -a data/. /disk/")
        return str(holder.id)

    def run_script(self, node: Node, script: str, what: str) -> str:
        """Run a shell script with NET_ADMIN in a node's namespace, to do ``what``; returns what it printed."""
        mode = f"container:{self.holder(node)}"
        client, run = self._daemon.client, self._daemon.run
        return run_script(client, run, script, what, network_mode=mode, cap_add=["NET_ADMIN"])

    def show(self, node: Node, *command: str) -> str:
        """What a command without any capability prints in a node's namespace."""
        what = f"show the traffic of {node.name}"
        with trying(what):
            holder = self._daemon.client.containers.get(self.holder(node))
        return self._daemon.printed_by(holder, command, what)
