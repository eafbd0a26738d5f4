"""Nodes as containers on the run's own bridge network; Linux hosts only, nothing is published.

A holder container owns each node's address, so that it outlives the node's restarts; the node joins the
holder's network namespace. Network rules are set by a short-lived helper in the same namespace, so that no
broker needs a capability and a paused one can be reached, too.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import docker
from docker.errors import APIError, ContainerError, DockerException, ImageNotFound, NotFound

from clusters import counters
from clusters.client_libraries import client_libraries
from clusters.nodes import Node
from clusters.paths import CACHE, ROOT, locked
from clusters.runtimes import CAPABILITIES, Limited, NodeState, candidate_prefixes, cgroups
from clusters.waiting import wait_until
from history.errors import BadInput, HarnessError
from history.java import Java

log = logging.getLogger("plimsoll.docker")

RUN_LABEL = "plimsoll.run"
NODE_LABEL = "plimsoll.node"
FREEZE_LIMIT_S = 10.0
CPU_PERIOD_US = 20_000  # Docker's own 100 ms would let a broker with a small quota stand still for most of them
EGRESS_BURST = "64k"  # as large as what the kernel hands over in one piece
HAS_ALLOWANCE = "tc class show dev eth0 | grep -q 'htb 1:1 '"
NETEM_PACKETS = 100_000  # held back at a time; more are dropped
STILL_THERE = "still there"
KAFKA_LIBRARIES = "/opt/kafka/libs"
BASE_IMAGE = "debian:bookworm-slim"
DOCKERFILE = ROOT / "clusters" / "image" / "Dockerfile"


def daemon_answers() -> bool:
    """Whether a Docker daemon can be reached."""
    try:
        client = docker.from_env(timeout=5)
    except DockerException:
        return False
    try:
        return bool(client.ping())
    except DockerException:
        return False
    finally:
        client.close()


def fetch_what_nodes_need(java: Java) -> None:
    """Build the node image and fetch the client libraries where they are missing, so that no start waits for them.

    Raises:
        BadInput: the Java that servers are to run on does not run in the image.
        HarnessError: one of them cannot be had.
    """
    client = docker.from_env(timeout=600)
    try:
        _check_java(client, java)
        client_libraries()
    finally:
        client.close()


class DockerRuntime:
    """The real thing: every fault of the catalogue that the kernel offers."""

    name: Literal["docker"] = "docker"
    capabilities = CAPABILITIES["docker"]

    def __init__(self, run: Path) -> None:
        self._run = run

    @cached_property
    def _docker(self) -> docker.DockerClient:
        return docker.from_env(timeout=60)

    @property
    def _network(self) -> str:
        # Docker's own DNS answers no reverse look-up of a name of more than 63 characters; ZooKeeper's client asks.
        return f"plimsoll-{self._run.name[:15]}-{self._run.name[-4:]}"

    def _container_name(self, name: str) -> str:
        return f"{self._network}-{name}"

    def reserve(self, subnet: str | None) -> str:
        if subnet is not None:
            try:
                network = ipaddress.IPv4Network(subnet if "/" in subnet else f"{subnet}.0/24")
            except ValueError:
                raise BadInput(f"SUBNET={subnet} is no /24 range such as 172.30.7.0/24.") from None
            if network.prefixlen != 24 or not network.is_private or network.is_loopback:
                raise BadInput(f"SUBNET={subnet} is no private /24 range such as 172.30.7.0/24.")
            prefix = str(network.network_address).rpartition(".")[0]
            if not self._create_network(prefix):
                raise BadInput(f"SUBNET={subnet} overlaps a network that is in use; name another range or none.")
            return prefix
        for prefix in candidate_prefixes(self._run, 172, 12):
            if self._create_network(prefix):
                return prefix
        raise HarnessError("64 address ranges were tried and all overlap other networks; run `make clean ALL=1`.")

    def _create_network(self, prefix: str) -> bool:
        pool = docker.types.IPAMPool(subnet=f"{prefix}.0/24", gateway=f"{prefix}.1")
        try:
            self._docker.networks.create(
                self._network,
                driver="bridge",
                ipam=docker.types.IPAMConfig(pool_configs=[pool]),
                labels={RUN_LABEL: str(self._run)},
                internal=True,  # the run's traffic stays on its bridge
            )
        except APIError as error:
            if "overlap" in str(error) or "in use" in str(error):
                return False
            raise HarnessError(f"Docker could not create the network {self._network}: {error}") from error
        return True

    def start(self, node: Node) -> None:
        holder = self._holder(node)
        self._remove(self._container_name(node.name))
        mounts = {str(path): {"bind": str(path), "mode": "ro"} for path in node.readable}
        environment = dict(node.environment)
        program = node.program
        if program == "python":
            program = "python3"
            libraries = client_libraries()
            environment["PYTHONPATH"] = f"{ROOT}:{libraries}"
            for path in (libraries, ROOT / "history", ROOT / "clusters"):
                mounts[str(path)] = {"bind": str(path), "mode": "ro"}
        for path in (node.folder, *node.writable):
            mounts[str(path)] = {"bind": str(path), "mode": "rw"}
        if node.disk_bytes:
            mounts[self._disk_name(node)] = {"bind": str(node.folder / "data"), "mode": "rw"}
        command = ["sh", "-c", 'exec "$@" >>"$LOG" 2>&1', "sh", program, *node.arguments]
        container = self._docker.containers.create(
            node_image(self._docker),
            command,
            name=self._container_name(node.name),
            environment={**environment, "LOG": str(node.log), "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
            network_mode=f"container:{holder}",
            user=f"{os.getuid()}:{os.getgid()}",
            volumes=mounts,
            working_dir=str(node.folder),
            labels={RUN_LABEL: str(self._run), NODE_LABEL: node.name},
            cap_drop=["ALL"],
            # Docker takes this limit at the creation only, and of a device only.
            device_read_bps=[{"Path": block_device(node.folder), "Rate": int(node.disk_read)}]
            if node.disk_read
            else None,
        )
        container.start()

    def _holder(self, node: Node) -> str:
        """The id of the container that owns the node's address, created when it is not there yet."""
        name = f"{self._container_name(node.name)}-net"
        try:
            return str(self._docker.containers.get(name).id)
        except NotFound:
            pass
        if node.disk_bytes:
            self._create_disk(node)
        endpoint = self._docker.api.create_endpoint_config(ipv4_address=node.address)
        holder = self._docker.containers.create(
            node_image(self._docker),
            ["tini", "--", "sleep", "infinity"],
            name=name,
            hostname=node.name,
            network=self._network,
            networking_config={self._network: endpoint},
            labels={RUN_LABEL: str(self._run)},
            cap_drop=["ALL"],
            # A disk in memory lives as long as some container has it.
            volumes={self._disk_name(node): {"bind": "/disk", "mode": "rw"}} if node.disk_bytes else None,
        )
        holder.start()
        if node.disk_bytes:
            self.on_disk(node, "cp -a data/. /disk/")
        return str(holder.id)

    def _disk_name(self, node: Node) -> str:
        return f"{self._container_name(node.name)}-disk"

    def _create_disk(self, node: Node) -> None:
        """Safe to call again: Docker leaves one of that name as it is."""
        self._docker.volumes.create(
            self._disk_name(node),
            driver_opts={
                "type": "tmpfs",
                "device": "tmpfs",
                "o": f"size={node.disk_bytes},uid={os.getuid()},gid={os.getgid()},mode=755",
            },
            labels={RUN_LABEL: str(self._run)},
        )

    def on_disk(self, node: Node, script: str) -> str:
        self._create_disk(node)  # where it is gone the mount would make one without a label, which nobody removes
        return run_script(
            self._docker,
            self._run,
            script,
            network_mode="none",
            user=f"{os.getuid()}:{os.getgid()}",
            volumes={
                self._disk_name(node): {"bind": "/disk", "mode": "rw"},
                str(node.folder): {"bind": str(node.folder), "mode": "rw"},
            },
            working_dir=str(node.folder),
        )

    def _get(self, name: str) -> Any:
        return self._docker.containers.get(self._container_name(name))

    def kill(self, name: str, signal: str) -> None:
        try:
            self._get(name).kill(signal)
        except (NotFound, APIError) as error:
            raise HarnessError(f"{name} cannot be sent {signal}: {error}") from error

    def pause(self, name: str) -> None:
        wait_until(
            lambda: self._is_frozen(name), limit_s=FREEZE_LIMIT_S, every_s=0.02, what=f"the kernel to freeze {name}"
        )

    def _is_frozen(self, name: str) -> bool:
        """Freeze; false when the kernel gave up, as it does while a busy host cannot stop every thread in time."""
        try:
            self._get(name).pause()
        except APIError as error:
            if "unable to freeze" in str(error):
                return False
            raise
        return True

    def resume(self, name: str) -> None:
        self._get(name).unpause()

    def state(self, name: str) -> NodeState:
        try:
            status = self._get(name).status
        except NotFound:
            return "absent"
        if status == "paused":
            return "paused"
        return "running" if status == "running" else "exited"

    def limit_ingress(self, node: Node, senders: list[Node], port: int, bytes_per_s: float | None) -> None:
        # Below the class of the sender's own allowance, where it has one, so that its traffic counts there, too.
        parent = f"parent=1:; {HAS_ALLOWANCE} && parent=1:1; "
        minor = _class_of(node)
        for sender in senders:
            if bytes_per_s is None:
                script = (
                    f"tc filter del dev eth0 parent 1: prio {minor}; tc class del dev eth0 classid 1:{minor}; "
                    "tc class show dev eth0 | grep -q htb || tc qdisc del dev eth0 root; tc qdisc show dev eth0"
                )
            else:
                rate = f"rate {max(int(bytes_per_s * 8), 8)}bit burst 15k"
                script = parent + (
                    f"tc class change dev eth0 parent $parent classid 1:{minor} htb {rate} 2>/dev/null || ("
                    "(tc qdisc show dev eth0 | grep -q 'htb 1:' || tc qdisc add dev eth0 root handle 1: htb default 0)"
                    f" && tc class add dev eth0 parent $parent classid 1:{minor} htb {rate} && "
                    f"tc filter add dev eth0 parent 1: protocol ip prio {minor} u32 match ip dst {node.address}/32 "
                    f"match ip sport {port} 0xffff flowid 1:{minor}) && tc class show dev eth0"
                )
            self._in_namespace(sender, script)

    def delay_ingress(self, node: Node, sender: Node, by_s: float, overtaking: float = 0.0) -> None:
        reorder = f" reorder {overtaking:g}%" if overtaking else ""
        held = f"netem delay {by_s * 1000:g}ms{reorder} limit {NETEM_PACKETS}"
        self._in_namespace(sender, f"tc qdisc add dev eth0 parent 1:{_class_of(node)} {held}")

    def limited(self, node: Node, sender: Node) -> Limited | None:
        shown = self._shown(sender, "tc", "-s", "class", "show", "dev", "eth0", "classid", f"1:{_class_of(node)}")
        counted = re.search(r"Sent (\d+) bytes .*overlimits (\d+) .*\n.*backlog (\S+)", shown)
        if counted is None:
            return None
        waiting = counted[3] != "0b"
        return Limited(passed_bytes=int(counted[1]), held_back=int(counted[2]) + waiting)

    def delayed_bytes(self, node: Node, sender: Node) -> int | None:
        shown = self._shown(sender, "tc", "-s", "qdisc", "show", "dev", "eth0")
        sent = re.search(rf"netem \S+ parent 1:{_class_of(node)} .*\n *Sent (\d+) bytes", shown)
        return int(sent[1]) if sent else None

    def drop_packets(self, node: Node, rule: str, matches: list[str]) -> None:
        commands = [f"-N {rule}", *(f"-A {rule} {match} -j DROP" for match in matches)]
        hooks = [f"-I {hook} -j {rule}" for hook in ("INPUT", "OUTPUT")]
        self._in_namespace(node, " && ".join(f"iptables -w {command}" for command in commands + hooks))

    def dropped_packets(self, node: Node, rule: str) -> int | None:
        return _packets(self._in_namespace(node, f"iptables -w -nvxL {rule} 2>/dev/null || true"))

    def stop_dropping(self, node: Node, rule: str) -> int | None:
        unhook = [f"iptables -w -D {hook} -j {rule}" for hook in ("INPUT", "OUTPUT")]
        count = f"iptables -w -nvxL {rule}"
        script = "; ".join([*unhook, count, f"iptables -w -F {rule}", f"iptables -w -X {rule}"])
        said = self._in_namespace(node, f"{script}; ! iptables -w -S | grep {rule} || echo {STILL_THERE}")
        return None if STILL_THERE in said else _packets(said)

    def limit_egress(self, node: Node, bytes_per_s: float) -> None:
        most = int(bytes_per_s * 8)
        # The leaf has little of its own and borrows the rest, so that a lag's class beside it does not add to the sum.
        script = (
            "tc qdisc add dev eth0 root handle 1: htb default 2 && "
            f"tc class add dev eth0 parent 1: classid 1:1 htb rate {most}bit burst {EGRESS_BURST} && "
            f"tc class add dev eth0 parent 1:1 classid 1:2 htb rate {most // 10}bit ceil {most}bit "
            f"burst {EGRESS_BURST} cburst {EGRESS_BURST}"
        )
        self._in_namespace(node, script)

    def limit_cpu(self, name: str, cpus: float | None, cpu_set: str | None) -> None:
        quota = -1 if cpus is None else int(cpus * CPU_PERIOD_US)
        changes: dict[str, Any] = {"cpu_period": CPU_PERIOD_US, "cpu_quota": quota}
        if cpu_set is not None:
            changes["cpuset_cpus"] = cpu_set
        try:
            self._get(name).update(**changes)
        except (NotFound, APIError) as error:
            raise HarnessError(f"The CPU time of {name} cannot be limited to {cpus} on {cpu_set}: {error}") from error

    def limits(self, node: Node) -> dict[str, Any]:
        pid = self.pid(node.name)
        shown = self._shown(node, "tc", "-s", "class", "show", "dev", "eth0")
        said: dict[str, Any] = {"network": " ".join(shown.split())}
        if pid is not None:
            said |= {**cgroups.cpu_limits(pid), **cgroups.cpu_counters(pid), "disk_read": cgroups.read_limit(pid)}
        return {name: value for name, value in said.items() if value not in (None, "")}

    def pid(self, name: str) -> int | None:
        try:
            return int(self._get(name).attrs["State"]["Pid"]) or None
        except NotFound:
            return None

    def _shown(self, node: Node, *command: str) -> str:
        """What a command without any capability prints in a node's network namespace."""
        shown: Any = self._docker.containers.get(self._holder(node)).exec_run(list(command))
        return str(shown.output.decode())

    def _in_namespace(self, node: Node, script: str) -> str:
        """Run a shell script with NET_ADMIN in a node's network namespace; returns what it printed."""
        mode = f"container:{self._holder(node)}"
        return run_script(self._docker, self._run, script, network_mode=mode, cap_add=["NET_ADMIN"])

    def usage(self, name: str) -> dict[str, float]:
        pid = self.pid(name)
        if pid is None:
            return {}
        return {**counters.of_process(pid), **counters.of_network(pid), **cgroups.cpu_counters(pid)}

    def remove_all(self) -> list[str]:
        try:
            found = self._removals()
        except (DockerException, OSError) as error:  # OSError: what requests raises of a daemon that hangs
            raise HarnessError(
                f"Docker does not say what is left of {self._run.name}; once it answers, run `make clean`: {error}"
            ) from error
        refused = []
        for name, remove in found:
            try:
                remove()
            except NotFound:
                pass  # somebody else was faster
            except APIError as error:
                refused.append(f"{name}: {error}")
        if refused:
            raise HarnessError(f"Docker did not remove all of {self._run.name}; run `make clean`. {'; '.join(refused)}")
        return sorted(name for name, _ in found)

    def _removals(self) -> list[tuple[str, Callable[[], object]]]:
        """All that bears the run's label and how it is removed, in this order."""
        mine: dict[str, Any] = {"label": f"{RUN_LABEL}={self._run}"}
        containers = self._docker.containers.list(all=True, filters=mine, ignore_removed=True)
        # A node goes before the holder whose namespace it shares.
        names = sorted((str(container.name) for container in containers), key=lambda name: name.endswith("-net"))
        others: list[Any] = [*self._docker.networks.list(filters=mine), *self._docker.volumes.list(filters=mine)]
        return [
            *((name, partial(self._remove, name)) for name in names),
            *((str(thing.name), thing.remove) for thing in others),
        ]

    def _remove(self, name: str) -> None:
        try:
            self._docker.containers.get(name).remove(force=True)
        except NotFound:
            pass
        except APIError as error:
            if error.status_code != 409:  # 409: its removal is already under way
                raise


def run_script(client: docker.DockerClient, run: Path, script: str, **how: Any) -> str:
    """Run a shell script in a short-lived container of a run's; returns what it printed."""
    output = client.containers.run(
        node_image(client),
        ["sh", "-c", script],
        cap_drop=["ALL"],
        labels={RUN_LABEL: str(run)},
        remove=True,
        # Of most other drivers, which a host may have as its default, docker-py returns nothing.
        log_config=docker.types.LogConfig(type="json-file"),
        **how,
    )
    return bytes(output).decode()


def _class_of(node: Node) -> int:
    """The minor number of the HTB class, and the priority of its filter, that limits traffic into a broker."""
    return 10 + (node.node_id or 0)  # two digits at the least, so that no allowance's class is meant


def _packets(listed: str) -> int | None:
    """The sum of the packet counters in what iptables lists with -nvx; None where it lists no rule."""
    counts = [int(line.split()[0]) for line in listed.splitlines() if " DROP " in line]
    return sum(counts) if counts else None


def block_device(folder: Path) -> str:
    """The disk on which a folder lies (or will lie), such as ``/dev/sda``.

    Raises:
        BadInput: it lies on none that the kernel could limit.
    """
    number = next(path for path in (folder, *folder.parents) if path.exists()).stat().st_dev
    known = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    disk = known.parent if (known / "partition").exists() else known
    if not disk.exists():
        raise BadInput(
            f"disk_read cannot be limited: {folder} lies on no block device (a network or layered file system?)."
        )
    return f"/dev/{disk.name}"


def runs_with_leftovers() -> set[Path]:
    """The run folders that containers, networks or disks are labelled with."""
    client = docker.from_env(timeout=60)
    try:
        everything = [
            *client.containers.list(all=True, filters={"label": RUN_LABEL}, ignore_removed=True),
            *client.networks.list(filters={"label": RUN_LABEL}),
            *client.volumes.list(filters={"label": RUN_LABEL}),
        ]
        return {Path(_labels(thing)[RUN_LABEL]) for thing in everything}
    finally:
        client.close()


def _labels(thing: Any) -> dict[str, str]:
    found: dict[str, str] = thing.attrs.get("Labels") or thing.attrs["Config"]["Labels"]
    return found


def image_id(reference: str) -> str:
    """The id of an image, which is pulled where it is not there.

    Raises:
        BadInput: no Docker daemon answers, or no registry gave it.
    """
    try:
        client = docker.from_env(timeout=600)
        try:
            found = client.images.get(reference) if _has_image(client, reference) else client.images.pull(reference)
        finally:
            client.close()
    except DockerException as error:
        raise BadInput(f"KAFKA=image:{reference} cannot be had: {' '.join(str(error).split())[:300]}.") from error
    return str((found[0] if isinstance(found, list) else found).id)


def copy_out_of_image(reference: str, identity: str, archive: Path) -> None:
    """Write an image's Kafka libraries to a tar file; nothing of the image is run.

    Raises:
        BadInput: it holds none where Kafka's own images have them.
    """
    client = docker.from_env(timeout=600)
    try:
        container = client.containers.create(identity, ["none"])
        try:
            parts, _ = container.get_archive(KAFKA_LIBRARIES)
            with archive.open("wb") as file:
                file.writelines(parts)
        except NotFound as error:
            raise BadInput(
                f"KAFKA=image:{reference} holds no {KAFKA_LIBRARIES}, where Kafka's own images have it."
            ) from error
        finally:
            container.remove()
    finally:
        client.close()


def node_image(client: docker.DockerClient) -> str:
    """The tag of the node image, built when it is not there yet; the tag changes with the Dockerfile.

    Raises:
        HarnessError: neither a registry nor mmdebstrap can give the base image, or the build failed.
    """
    tag = f"plimsoll-node:{hashlib.sha256(DOCKERFILE.read_bytes()).hexdigest()[:12]}"
    if _has_image(client, tag):
        return tag
    with locked(CACHE / ".image.lock"):
        if not _has_image(client, tag):
            log.info("building the node image, once (about 15 s, or 2 min where no image registry answers)")
            _base_image(client)
            try:
                # The build's own network would be the default bridge, which some hosts do not route.
                client.images.build(path=str(DOCKERFILE.parent), tag=tag, network_mode="host", rm=True, forcerm=True)
            except DockerException as error:
                raise HarnessError(f"The node image could not be built from {DOCKERFILE}: {error}") from error
    return tag


def _check_java(client: docker.DockerClient, java: Java) -> None:
    """One that was built for a newer system's libraries would let every server exit at once."""
    home = str(java.home)
    command, mounts = [java.command, "-version"], {home: {"bind": home, "mode": "ro"}}
    try:
        client.containers.run(node_image(client), command, volumes=mounts, network_mode="none", remove=True)
    except ContainerError as error:
        stderr = error.stderr or b""
        said = (stderr if isinstance(stderr, str) else stderr.decode(errors="replace")).strip().splitlines()
        raise BadInput(
            f"Java {java} does not run in the node image ({said[0] if said else 'it said nothing'}); leave JAVA= out, "
            "or name the folder of a JDK that is built for older systems, such as Temurin's."
        ) from error


def _has_image(client: docker.DockerClient, tag: str) -> bool:
    try:
        client.images.get(tag)
    except ImageNotFound:
        return False
    return True


def _base_image(client: docker.DockerClient) -> None:
    if _has_image(client, BASE_IMAGE):
        return
    try:
        client.images.pull(BASE_IMAGE)
    except DockerException as error:
        if not shutil.which("mmdebstrap"):
            raise HarnessError(
                f"No registry gave {BASE_IMAGE} ({error}); install Debian's mmdebstrap to build it here."
            ) from error
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "base.tar"
            subprocess.run(["mmdebstrap", "--variant=minbase", "bookworm", str(archive)], check=True)
            repository, _, version = BASE_IMAGE.partition(":")
            client.api.import_image(str(archive), repository=repository, tag=version)
