"""Run nodes as containers, with every fault that the kernel supports."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path
from typing import Literal

import docker
import psutil
from docker.errors import APIError, NotFound

from clusters.paths import ROOT
from clusters.runtimes import cgroups, counters
from clusters.runtimes.addresses import candidate_prefixes
from clusters.runtimes.client_libraries import CLIENT_PACKAGES, client_libraries
from clusters.runtimes.docker.daemon import Daemon, trying
from clusters.runtimes.docker.disks import DockerDisks
from clusters.runtimes.docker.image import NO_NEW_PRIVILEGES, node_image
from clusters.runtimes.docker.limits import DockerLimits, block_device, pid_of
from clusters.runtimes.docker.namespaces import Namespaces
from clusters.runtimes.docker.network import DockerNetwork
from clusters.runtimes.docker.removal import remove_container, remove_everything
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import NodeState
from clusters.waiting import wait_until
from history.errors import BadInput, HarnessError

NODE_LABEL = "plimsoll.node"
PAUSE_LIMIT_S = 10.0


class DockerRuntime:
    """Run a run's nodes as Docker containers."""

    name: Literal["docker"] = "docker"

    def __init__(self, run: Path) -> None:
        self._daemon = Daemon(run)
        self.disks = DockerDisks(self._daemon)
        self._namespaces = Namespaces(self._daemon, self.disks)
        self.network = DockerNetwork(self._namespaces)
        self.resource_limits = DockerLimits(self._daemon, self._namespaces)

    def reserve(self, subnet: str | None) -> str:
        if subnet is not None:
            prefix = _private_prefix(subnet)
            if found := host_network(prefix):
                raise BadInput(f"--subnet={subnet} overlaps {found}; name another range or none.")
            if not self._create_network(prefix):
                raise BadInput(f"--subnet={subnet} overlaps a network that is in use; name another range or none.")
            return prefix
        for prefix in candidate_prefixes(self._daemon.run, 172, 12):
            if not host_network(prefix) and self._create_network(prefix):
                return prefix
        raise HarnessError("64 address ranges were tried and all overlap other networks; run `make clean ALL=1`.")

    def _create_network(self, prefix: str) -> bool:
        """Create the network; return False if another has the range."""
        name = self._daemon.network_name
        pool = docker.types.IPAMPool(subnet=f"{prefix}.0/24", gateway=f"{prefix}.1")
        with trying(f"create the network {name}"):
            try:
                self._daemon.client.networks.create(
                    name,
                    driver="bridge",
                    ipam=docker.types.IPAMConfig(pool_configs=[pool]),
                    labels=self._daemon.label,
                    internal=True,  # the run's traffic stays on its bridge
                )
            except APIError as error:
                if "overlap" in str(error) or "in use" in str(error):
                    return False
                raise
        return True

    def start(self, node: Node) -> None:
        holder = self._namespaces.holder(node.beside or node)
        remove_container(self._daemon, self._daemon.container_name(node.name))
        mounts = {str(path): {"bind": str(path), "mode": "ro"} for path in node.readable}
        environment = {"LC_ALL": "C.UTF-8", **node.environment}  # else Java cannot open non-ASCII paths
        program = node.program
        if program == "python":
            program = "python3"
            libraries = client_libraries()
            environment["PYTHONPATH"] = f"{ROOT}:{libraries}"
            for path in (libraries, *(ROOT / package for package in CLIENT_PACKAGES)):
                mounts[str(path)] = {"bind": str(path), "mode": "ro"}
        for path in (node.folder, *node.writable):
            mounts[str(path)] = {"bind": str(path), "mode": "rw"}
        if node.disk_bytes:
            mounts[self.disks.volume_name(node)] = {"bind": str(node.folder / "data"), "mode": "rw"}
        disk = block_device(node.folder) if node.disk_read else None
        image = node_image(self._daemon.client)
        with trying(f"start {node.name}"):
            container = self._daemon.client.containers.create(
                image,
                ["sh", "-c", 'exec "$@" >>"$LOG" 2>&1', "sh", program, *node.arguments],
                name=self._daemon.container_name(node.name),
                environment={**environment, "LOG": str(node.log), "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
                network_mode=f"container:{holder}",
                user=f"{os.getuid()}:{os.getgid()}",
                volumes=mounts,
                working_dir=str(node.folder),
                labels={**self._daemon.label, NODE_LABEL: node.name},
                cap_drop=["ALL"],
                security_opt=NO_NEW_PRIVILEGES,
                use_config_proxy=False,  # the user's Docker may know a proxy's password
                # Docker sets this limit only at creation, and per device.
                device_read_bps=[{"Path": disk, "Rate": int(node.disk_read)}] if disk and node.disk_read else None,
            )
            container.start()

    def kill(self, name: str, signal: str) -> None:
        with trying(f"send {signal} to {name}"):
            self._daemon.container(name).kill(signal)

    def pause(self, name: str) -> None:
        with trying(f"pause {name}"):
            wait_until(
                lambda: self._is_paused(name), limit_s=PAUSE_LIMIT_S, every_s=0.02, what=f"the kernel to pause {name}"
            )

    def _is_paused(self, name: str) -> bool:
        """Pause; return False if a busy host did not stop every thread in time."""
        try:
            self._daemon.container(name).pause()
        except APIError as error:
            if "unable to freeze" in str(error):
                return False
            raise
        return True

    def resume(self, name: str) -> None:
        with trying(f"resume {name}"):
            self._daemon.container(name).unpause()

    def state(self, name: str) -> NodeState:
        with trying(f"tell the state of {name}"):
            try:
                status = self._daemon.container(name).status
            except NotFound:
                return "absent"
        if status == "paused":
            return "paused"
        return "running" if status == "running" else "exited"

    def exit_status(self, name: str) -> int | None:
        with trying(f"tell how {name} ended"):
            try:
                state = self._daemon.container(name).attrs["State"]
            except NotFound:
                return None
        return int(state["ExitCode"]) if state["Status"] == "exited" else None

    def usage(self, name: str) -> dict[str, float]:
        pid = pid_of(self._daemon, name)
        if pid is None:
            return {}
        return {**counters.of_process(pid), **counters.of_network(pid), **cgroups.cpu_counters(pid)}

    def remove_all(self) -> list[str]:
        return remove_everything(self._daemon)


def host_network(prefix: str) -> str:
    """Return the host's network and interface that overlap a range, or empty; Docker checks only its own networks."""
    wanted = ipaddress.IPv4Network(f"{prefix}.0/24")
    for interface, addresses in psutil.net_if_addrs().items():
        for each in addresses:
            if each.family == socket.AF_INET and each.netmask:
                network = ipaddress.IPv4Network(f"{each.address}/{each.netmask}", strict=False)
                if network.overlaps(wanted):
                    return f"{network}, in use by {interface}"
    return ""


def _private_prefix(subnet: str) -> str:
    """Return the first three bytes of a private /24 range, given as ``172.30.7`` or ``172.30.7.0/24``."""
    try:
        network = ipaddress.IPv4Network(subnet if "/" in subnet else f"{subnet}.0/24")
    except ValueError:
        raise BadInput(f"--subnet={subnet} is no /24 range such as 172.30.7.0/24.") from None
    if network.prefixlen != 24 or not network.is_private or network.is_loopback:
        raise BadInput(f"--subnet={subnet} is no private /24 range such as 172.30.7.0/24.")
    return str(network.network_address).rpartition(".")[0]
