"""A cluster that the product did not start, each broker in a container on a bridge, so that each can be cut off."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters.runtimes.addresses import candidate_prefixes
from clusters.runtimes.docker.daemon import connected
from clusters.runtimes.docker.image import node_image
from clusters.runtimes.docker.runtime import host_network
from history.java import java_of
from tests.own_cluster import HEAP, OwnCluster

PORT, CONTROLLER_PORT = 9092, 9093
CONTROLLER = 3  # the only one, so that a cut between the others affects replication alone
QUICK = {"replica.lag.time.max.ms": "2000", "broker.session.timeout.ms": "6000"}


def docker(*arguments: str) -> str:
    """Run Docker's command, and return what it printed."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass
class ContainerCluster(OwnCluster):
    """Brokers 1 to 3 in KRaft mode; ``prefix`` is the first three bytes of their addresses."""

    image: str = ""
    prefix: str = ""
    name: str = ""

    def host(self, number: int) -> str:
        return f"{self.prefix}.{number + 10}"

    def container(self, number: object) -> str:
        return f"{self.name}-{number}"

    def hooks(self) -> dict[str, Any]:
        """Return hooks that set routes in a broker's network namespace, as docs/own-cluster-recipes.md has them."""
        verbs = {"disconnect": "replace", "reconnect": "del"}
        return {
            name: {"run": ["docker", *self._route("{broker}", verb, "{peer_host}")]} for name, verb in verbs.items()
        }

    def reconnect(self, number: int, peer: int) -> None:
        """End a cut that a hook has not ended."""
        docker(*self._route(str(number), "del", self.host(peer)))

    def _route(self, number: str, verb: str, address: str) -> list[str]:
        namespace = f"--network=container:{self.container(number)}"
        return ["run", "--rm", namespace, "--cap-add=NET_ADMIN", self.image, "ip", "route", verb, "blackhole", address]

    def start_broker(self, number: int) -> None:
        mounts = {str(path): mode for path, mode in ((java_of().home, "ro"), (self.jars, "ro"), (self.folder, "rw"))}
        arguments = [f"--volume={Path(path).resolve()}:{path}:{mode}" for path, mode in mounts.items()]
        java = [str(java_of().home / "bin" / "java"), *HEAP, "-cp", f"{self.jars}/*", "kafka.Kafka"]
        docker(
            *("run", "--detach", f"--name={self.container(number)}", f"--user={os.getuid()}:{os.getgid()}"),
            *(f"--network={self.name}", f"--ip={self.host(number)}", *arguments, self.image),
            *(*java, str(self._server_file(number))),
        )

    def stop(self) -> None:
        docker("rm", "--force", *(self.container(number) for number in self.ports))

    def _settings(self, number: int) -> dict[str, str]:
        listeners = {"CLIENTS": PORT} | ({"CONTROLLER": CONTROLLER_PORT} if number == CONTROLLER else {})
        return super()._settings(number) | {
            "process.roles": "broker,controller" if number == CONTROLLER else "broker",
            "controller.quorum.voters": f"{CONTROLLER}@{self.host(CONTROLLER)}:{CONTROLLER_PORT}",
            "listeners": ",".join(f"{name}://{self.host(number)}:{port}" for name, port in listeners.items()),
            "advertised.listeners": f"CLIENTS://{self.host(number)}:{PORT}",
            **QUICK,
        }


@contextmanager
def container_cluster(folder: Path, version: str) -> Iterator[ContainerCluster]:
    """Start a cluster on a bridge of its own, and remove both at the end."""
    with connected() as client:
        image = node_image(client)
    ports = dict.fromkeys((1, 2, 3), PORT)
    name = f"others-{secrets.token_hex(3)}"
    with ExitStack() as ending:
        prefix = next(prefix for prefix in candidate_prefixes(folder, 172, 12) if not host_network(prefix))
        docker("network", "create", "--internal", f"--subnet={prefix}.0/24", name)
        ending.callback(docker, "network", "rm", name)
        cluster = ContainerCluster(folder, version, ports=ports, image=image, prefix=prefix, name=name)
        ending.callback(cluster.stop)
        cluster.start()
        yield cluster
