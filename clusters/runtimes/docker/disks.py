"""A node's own disk: a volume in memory, of a size of its own."""

from __future__ import annotations

import os

from clusters.runtimes.docker.daemon import Daemon, trying
from clusters.runtimes.docker.image import run_script
from clusters.runtimes.nodes import Node


class DockerDisks:
    """The disks of a run's nodes. One in memory lives as long as some container has it."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def volume_name(self, node: Node) -> str:
        return f"{self._daemon.container_name(node.name)}-disk"

    def create(self, node: Node) -> None:
        """Safe to call again: Docker leaves one of that name as it is."""
        with trying(f"make a disk of {node.disk_bytes} bytes for {node.name}"):
            self._daemon.client.volumes.create(
                self.volume_name(node),
                driver_opts={
                    "type": "tmpfs",
                    "device": "tmpfs",
                    "o": f"size={node.disk_bytes},uid={os.getuid()},gid={os.getgid()},mode=755",
                },
                labels=self._daemon.label,
            )

    def run_script(self, node: Node, script: str) -> str:
        self.create(node)  # where it is gone the mount would make one without a label, which nobody removes
        return run_script(
            self._daemon.client,
            self._daemon.run,
            script,
            f"reach the disk of {node.name}",
            network_mode="none",
            user=f"{os.getuid()}:{os.getgid()}",
            volumes={
                self.volume_name(node): {"bind": "/disk", "mode": "rw"},
                str(node.folder): {"bind": str(node.folder), "mode": "rw"},
            },
            working_dir=str(node.folder),
        )
