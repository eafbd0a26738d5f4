"""Clusters that the product did not start are watched through the command, as a person would."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ACLOperation

from clusters.paths import ROOT
from clusters.waiting import wait_until
from history.folder import RunFolder
from history.kafka_versions import CLIENT_RELEASES, DEFAULT_RELEASE
from tests.own_cluster import OwnCluster, free_port, own_cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Three brokers with SCRAM and an authorizer; ann may read orders, and nothing else."""
    with own_cluster(tmp_path_factory.mktemp("own"), DEFAULT_RELEASE, security="scram", racks=True) as started:
        started.create_topic("orders", 2, min_insync_replicas="2")
        started.create_topic("secrets")
        started.allow("ann", ACLOperation.READ, "orders")
        yield started


def watch(file: Path, runs: Path, *options: str) -> subprocess.Popen[str]:
    """Start the command."""
    command = [str(ROOT / "plimsoll"), "watch", "--cluster", str(file), "--runs", str(runs), *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ), start_new_session=True
    )


def refusal(file: Path, runs: Path, topic: str = "orders") -> str:
    """Return the one sentence with which the command rejects a watch that leaves nothing behind."""
    done = watch(file, runs, topic)
    _, sentence = done.communicate(timeout=120)
    assert (done.returncode, sentence.count("\n")) == (3, 1), sentence
    assert not list(runs.glob("*"))
    return sentence


def lines_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield the lines of JSON that a watch prints."""
    assert process.stdout
    for line in process.stdout:
        yield json.loads(line)


def test_a_user_with_read_watches_a_broker_die_and_return(cluster: OwnCluster, tmp_path: Path) -> None:
    """The lines show the silent replica; Ctrl-C seals and judges; the verdict names its evidence."""
    process = watch(cluster.file(cluster.login()), tmp_path, "orders", "--json")
    lines = lines_of(process)
    assert next(line for line in lines if all(each["state"] == "healthy" for each in line["partitions"]))
    cluster.kill(2)
    silent = next(line for line in lines if any(each["state"] != "healthy" for each in line["partitions"]))
    assert {replica["broker_id"] for replica in silent["partitions"][0]["replicas"] if replica["error"]} == {2}
    cluster.start_broker(2)
    assert next(line for line in lines if all(each["state"] == "healthy" for each in line["partitions"]))
    process.send_signal(signal.SIGINT)
    *_, last = lines
    assert process.wait(120) == 0, process.stderr and process.stderr.read()
    assert (last["verdict"], last["exit_code"]) == ("pass", 0)
    verdict = json.loads(RunFolder(Path(last["run"])).verdict_file.read_text())
    assert "the offsets of every replica and the brokers' metadata" in verdict["sentence"]
    assert "lost_write" in verdict["not_judged"]
    assert Path(last["page"]).is_file()


def test_a_missing_right_is_named_with_the_command_that_grants_it(cluster: OwnCluster, tmp_path: Path) -> None:
    """Without DESCRIBE and READ nothing is recorded."""
    sentence = refusal(cluster.file(cluster.login()), tmp_path, "secrets")
    assert "kafka-acls.sh" in sentence
    assert "--allow-principal User:ann --operation Read --topic secrets" in sentence


def test_describe_alone_does_not_suffice(cluster: OwnCluster, tmp_path: Path) -> None:
    """The offsets of replicas need READ."""
    cluster.allow("ann", ACLOperation.DESCRIBE, "secrets")
    assert "may not read the topic 'secrets'" in refusal(cluster.file(cluster.login()), tmp_path, "secrets")


@pytest.mark.parametrize(
    ("login", "says"),
    [
        ({"password": "wrong"}, "rejects the login"),
        ({"user": "nobody"}, "rejects the login"),
        (None, "check security.protocol"),
    ],
)
def test_a_wrong_login_is_rejected(
    cluster: OwnCluster, tmp_path: Path, login: dict[str, str] | None, says: str
) -> None:
    """A wrong password, an unknown user, and a client without a login."""
    settings = cluster.login(**login) if login is not None else {"security.protocol": "PLAINTEXT"}
    sentence = refusal(cluster.file(settings), tmp_path)
    assert "The cluster cannot be reached." in sentence
    assert says in sentence


def test_an_unreachable_cluster_is_rejected(tmp_path: Path) -> None:
    """The sentence names each address with its reason."""
    file = tmp_path / "mine.yaml"
    file.write_text(f"bootstrap: ['localhost:{free_port()}', 'missing.invalid:9092']")
    sentence = refusal(file, tmp_path / "runs")
    assert "Connection refused" in sentence
    assert "the host name cannot be resolved" in sentence


def test_forwarded_ports_are_used_for_brokers(cluster: OwnCluster, tmp_path: Path) -> None:
    """With addresses for each broker id the advertised ones are not used."""
    with _forwarded(cluster) as addresses:
        mapped = ", ".join(f"{number}: '{address}'" for number, address in addresses.items())
        file = cluster.file(cluster.login(), bootstrap=f"['{addresses[1]}']", addresses=f"{{{mapped}}}")
        process = watch(file, tmp_path, "orders", "--json", "--seconds", "4")
        *_, last = lines_of(process)
        assert process.wait(120) == 0
    manifest = json.loads((Path(last["run"]) / "manifest.json").read_text())
    assert {node["address"] for node in manifest["nodes"]} == set(addresses.values())


@contextmanager
def _forwarded(cluster: OwnCluster) -> Iterator[dict[int, str]]:
    """Forward a port to each broker."""
    servers = {number: socket.create_server(("127.0.0.1", 0)) for number in cluster.ports}
    for number, server in servers.items():
        threading.Thread(target=_forward, args=(server, cluster.ports[number]), daemon=True).start()
    try:
        yield {number: f"127.0.0.1:{server.getsockname()[1]}" for number, server in servers.items()}
    finally:
        for server in servers.values():
            server.close()


def _forward(server: socket.socket, port: int) -> None:
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            broker = socket.create_connection(("127.0.0.1", port))
            for source, target in ((client, broker), (broker, client)):
                threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError), target:
        while data := source.recv(65_536):
            target.sendall(data)


def test_the_oldest_release_is_watched(tmp_path: Path) -> None:
    """Kafka 2.8 with ZooKeeper shows its replicas, too."""
    folder = tmp_path / "own"
    folder.mkdir()
    with own_cluster(folder, CLIENT_RELEASES[-1], brokers=2) as started:
        started.create_topic("orders")
        process = watch(started.file(), tmp_path / "runs", "orders", "--json", "--seconds", "4")
        *_, last = lines_of(process)
        assert process.wait(120) == 0
    assert last["verdict"] == "pass"


def test_a_watch_that_is_killed_leaves_a_folder_without_a_seal(cluster: OwnCluster, tmp_path: Path) -> None:
    """Nothing else is left, here or on the cluster."""
    process = watch(cluster.file(cluster.login()), tmp_path, "orders", "--json")
    next(lines_of(process))
    os.killpg(process.pid, signal.SIGKILL)
    wait_until(lambda: process.poll() is not None, limit_s=30, what="the end of the watch")
    (run,) = tmp_path.iterdir()
    assert not RunFolder(run).is_sealed
    with cluster.admin() as admin:
        assert set(admin.list_topics()) - {"orders", "secrets"} == set()
