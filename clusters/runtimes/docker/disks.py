"""Give a node its own disk: a volume in memory."""

from __future__ import annotations

import os

from clusters.runtimes.docker.daemon import Daemon, trying
from clusters.runtimes.docker.image import run_script
from clusters.runtimes.nodes import Node


class DockerDisks:
    """Manage the disks of a run's nodes; a disk exists while a container mounts it."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def volume_name(self, node: Node) -> str:
        return f"{self._daemon.container_name(node.name)}-disk"

    def create(self, node: Node) -> None:
        """Create a disk; Docker keeps an existing one."""
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
        self.create(node)  # else the mount could create one without a label, which is never removed
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
