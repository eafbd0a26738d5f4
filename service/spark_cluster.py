"""Start and end a standalone Spark cluster on this host (``plimsoll spark-cluster``).

A master and two workers of the installed pyspark run in network namespaces with their own addresses, as if on three
hosts. The bridge is in the master's namespace, where the host's forwarding rules (Docker sets DROP) do not apply. Names
are ``NAMESPACES`` and six characters of the folder's hash. Every process in these namespaces belongs to the cluster.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import shutil
import socket
import subprocess
import urllib.request
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from clusters.paths import CACHE
from clusters.runtimes.addresses import HOST, candidate_prefixes
from clusters.waiting import wait_until
from history.commands import run_command
from history.errors import BadInput, HarnessError, remove_each
from history.java import spark_java_home
from service.processes import kill, lives
from spark.environment import NAME as UNPACKED

FOLDER = CACHE / "spark-cluster"
WORKERS = 2
PORT = 7077
_WEB_PORT = 8080
_WORKER_MEMORY = "2g"
NAMESPACES = "plimsoll-spark-"
_UP_LIMIT_S = 60.0
_DOWN_LIMIT_S = 10.0


class SparkCluster(NamedTuple):
    """A running cluster; ``host_address`` is the host's in its network."""

    master: str
    page: str
    host_address: str
    worker_addresses: list[str]


def up(folder: Path = FOLDER) -> SparkCluster:
    """Start a folder's cluster unless it runs; ``folder`` keeps logs and work.

    Raises:
        BadInput: this user or host cannot make network namespaces.
        HarnessError: it did not start, and was removed.
    """
    check_possible()
    if running := _running(folder):
        return running
    down(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cluster = _placed(_free_prefix(folder))
    try:
        _connect(folder, cluster)
        _start(folder, cluster)
        _await_workers(cluster, folder)
    except BaseException:
        down(folder)
        raise
    _state_file(folder).write_text(json.dumps(cluster._asdict()))
    return cluster


def down(folder: Path = FOLDER) -> bool:
    """End a folder's cluster with its executors and network; return whether any of it existed. Logs stay."""
    removed = _remove([name for name in _namespaces() if name.startswith(_prefix(folder))])
    for unpacked in folder.glob(f"worker-*/app-*/*/{UNPACKED}"):
        shutil.rmtree(unpacked, ignore_errors=True)
    _state_file(folder).unlink(missing_ok=True)
    return bool(removed)


def remove_leftovers(*, everything: bool) -> list[str]:
    """Remove clusters without a process, or (``everything``) all.

    Raises:
        NotRemoved: some could not be removed; the others were.
    """
    names = _namespaces() if os.geteuid() == 0 else []  # only root can remove them
    clusters = {name[: len(NAMESPACES) + 6] for name in names}
    of_cluster = {cluster: [name for name in names if name.startswith(cluster)] for cluster in sorted(clusters)}
    return remove_each(
        partial(_remove_cluster, cluster, parts, everything=everything) for cluster, parts in of_cluster.items()
    )


def _remove_cluster(cluster: str, namespaces: list[str], *, everything: bool) -> list[str]:
    is_left = everything or not any(map(_processes, namespaces))
    return [cluster] if is_left and _remove(namespaces) else []


def check_possible() -> None:
    """Raise BadInput if this user or host cannot make network namespaces."""
    if os.geteuid() != 0:
        raise BadInput("A Spark cluster needs root for its network namespaces; use sudo.")
    if not shutil.which("ip"):
        raise BadInput("A Spark cluster needs the command ip (Debian: iproute2).")


def _prefix(folder: Path) -> str:
    return NAMESPACES + hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:6]


def _master(folder: Path) -> str:
    return f"{_prefix(folder)}-master"


def _worker(folder: Path, number: int) -> str:
    return f"{_prefix(folder)}-worker-{number}"


def _host_link(namespace: str) -> str:
    """Return the host's end of its link to the bridge, of at most 15 characters."""
    return f"plimsoll-{namespace.removeprefix(NAMESPACES)[:6]}"


def _placed(prefix: str) -> SparkCluster:
    master, *workers = (f"{prefix}.{HOST + number}" for number in range(1 + WORKERS))
    return SparkCluster(f"spark://{master}:{PORT}", f"http://{master}:{_WEB_PORT}", f"{prefix}.1", workers)


def _free_prefix(folder: Path) -> str:
    """Return the first three bytes of a /24 range without a route on this host."""
    # The default route is not a network of this host.
    routed = [route["dst"] for route in _asked("-4", "route", "show", "table", "all") if route["dst"] != "default"]
    taken = [ipaddress.IPv4Network(destination, strict=False) for destination in routed]
    for prefix in candidate_prefixes(folder, 10, 200):
        if not any(ipaddress.IPv4Network(f"{prefix}.0/24").overlaps(network) for network in taken):
            return prefix
    raise HarnessError("64 address ranges were tried and all overlap other networks; run plimsoll clean --all.")


def _connect(folder: Path, cluster: SparkCluster) -> None:
    """Make the namespaces, the bridge, and its links to host and workers."""
    master, host = _master(folder), _host_link(_master(folder))
    address = cluster.master.removeprefix("spark://").partition(":")[0]
    _ip("netns", "add", master)
    _ip("-n", master, "link", "set", "lo", "up")
    _ip("-n", master, "link", "add", "bridge", "type", "bridge")
    _ip("-n", master, "address", "add", f"{address}/24", "dev", "bridge")
    _ip("-n", master, "link", "set", "bridge", "up")
    _ip("link", "add", host, "type", "veth", "peer", "name", "host", "netns", master)
    _ip("address", "add", f"{cluster.host_address}/24", "dev", host)
    _ip("link", "set", host, "up")
    _plug(master, "host")
    for number, worker_address in enumerate(cluster.worker_addresses, 1):
        worker, port = _worker(folder, number), f"worker-{number}"
        _ip("netns", "add", worker)
        _ip("-n", worker, "link", "set", "lo", "up")
        _ip("-n", worker, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", master)
        _ip("-n", worker, "address", "add", f"{worker_address}/24", "dev", "eth0")
        _ip("-n", worker, "link", "set", "eth0", "up")
        _plug(master, port)


def _plug(master: str, port: str) -> None:
    _ip("-n", master, "link", "set", port, "master", "bridge")
    _ip("-n", master, "link", "set", port, "up")


def _ip(*arguments: str) -> str:
    done = run_command(["ip", *arguments], 60)
    if done.returncode:
        raise HarnessError(f"ip {' '.join(arguments)} failed: {done.stderr.strip() or 'nothing printed'}.")
    return done.stdout


def _asked(*arguments: str) -> list[dict[str, Any]]:
    """Return the parsed output of ``ip``."""
    listed: list[dict[str, Any]] = json.loads(_ip("-json", *arguments) or "[]")
    return listed


def _namespaces() -> list[str]:
    if not shutil.which("ip"):
        return []
    return sorted(each["name"] for each in _asked("netns", "list") if each["name"].startswith(NAMESPACES))


def _start(folder: Path, cluster: SparkCluster) -> None:
    address = cluster.master.removeprefix("spark://").partition(":")[0]
    _launch(
        _master(folder),
        address,
        folder / "master.log",
        "org.apache.spark.deploy.master.Master",
        *("--host", address, "--port", str(PORT), "--webui-port", str(_WEB_PORT)),
    )
    # A worker without a master retries only after 10 s.
    wait_until(partial(_answers, cluster), limit_s=_UP_LIMIT_S, what=f"Spark's master at {cluster.master}")
    cores = max(1, (os.cpu_count() or 1) // WORKERS)
    for number, worker_address in enumerate(cluster.worker_addresses, 1):
        _launch(
            _worker(folder, number),
            worker_address,
            folder / f"worker-{number}.log",
            "org.apache.spark.deploy.worker.Worker",
            *("--host", worker_address, "--cores", str(cores), "--memory", _WORKER_MEMORY),
            *("--work-dir", str(folder / f"worker-{number}"), cluster.master),
        )


def _launch(namespace: str, address: str, log: Path, *spark_class: str) -> None:
    from spark.submit import SPARK_HOME  # heavy

    environment = {
        "PATH": os.environ["PATH"],  # no project variable: executors have what the application sends
        "HOME": "/nonexistent",
        "JAVA_HOME": str(spark_java_home()),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": address,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.interval=300 -Dspark.worker.cleanup.appDataTtl=600",  # s
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # three share this host
    }
    with log.open("wb") as file:
        subprocess.Popen(
            ["ip", "netns", "exec", namespace, str(SPARK_HOME / "bin" / "spark-class"), *spark_class],
            env=environment,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # outlives its command
        )


def _answers(cluster: SparkCluster) -> bool:
    host, _, port = cluster.master.removeprefix("spark://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def _await_workers(cluster: SparkCluster, folder: Path) -> None:
    wait_until(
        partial(_has_all_workers, cluster),
        limit_s=_UP_LIMIT_S,
        every_s=0.2,
        what=f"{WORKERS} workers to register at {cluster.master}",
        last_seen=lambda: f"{len(_alive(cluster))} of them; its logs are in {folder}",
    )


def _has_all_workers(cluster: SparkCluster) -> bool:
    return sorted(_alive(cluster)) == sorted(cluster.worker_addresses)


def _alive(cluster: SparkCluster) -> list[str]:
    """Return the addresses of the workers that the master counts as alive."""
    try:
        with urllib.request.urlopen(f"{cluster.page}/json/", timeout=2) as answer:
            workers = json.load(answer)["workers"]
    except (OSError, ValueError):
        return []
    return [worker["host"] for worker in workers if worker["state"] == "ALIVE"]


def _running(folder: Path) -> SparkCluster | None:
    """Return a folder's cluster if it runs with all workers."""
    try:
        cluster = SparkCluster(**json.loads(_state_file(folder).read_text()))
    except FileNotFoundError:
        return None
    return cluster if _has_all_workers(cluster) else None


def _remove(namespaces: list[str]) -> list[str]:
    """End all processes of namespaces and delete these with their links."""
    wait_until(partial(_have_ended, namespaces), limit_s=_DOWN_LIMIT_S, what="Spark's processes to end")
    links = {link["ifname"] for link in _asked("link", "show")} if namespaces else set()
    for link in {_host_link(name) for name in namespaces} & links:
        _ip("link", "delete", link)
    for name in namespaces:
        _ip("netns", "delete", name)
    return namespaces


def _have_ended(namespaces: list[str]) -> bool:
    """Kill the processes; return whether there were none, because a worker may have started an executor meanwhile."""
    found = [process for name in namespaces for process in _processes(name) if lives(process)]
    kill(found)
    return not found


def _processes(namespace: str) -> list[psutil.Process]:
    found = []
    for pid in _ip("netns", "pids", namespace).split():
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(int(pid)))
    return found


def _state_file(folder: Path) -> Path:
    return folder / "cluster.json"
