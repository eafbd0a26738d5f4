"""Clusters that the product did not start are watched through the command, as a person would."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kafka.admin import ACLOperation

from clusters.paths import ROOT
from clusters.waiting import wait_until
from evidence.silences import MAX_SILENCE_S
from history.folder import RunFolder
from history.java import java_of
from history.kafka_versions import CLIENT_RELEASES, DEFAULT_RELEASE
from tests.authority import DAY, Authority
from tests.own_cluster import OwnCluster, free_port, own_cluster

pytestmark = pytest.mark.cluster
CUT_S = MAX_SILENCE_S + 1  # a run of ours would be unknown


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


def in_state(line: dict[str, Any], state: str) -> bool:
    """Return whether all partitions are in this state."""
    return all(each["state"] == state for each in line["partitions"])


def ended(process: subprocess.Popen[str], lines: Iterator[dict[str, Any]]) -> tuple[RunFolder, dict[str, Any]]:
    """End a watch that passes; return its folder and verdict."""
    process.send_signal(signal.SIGINT)
    *_, last = lines
    assert process.wait(120) == 0, process.stderr and process.stderr.read()
    assert (last["verdict"], last["exit_code"]) == ("pass", 0)
    assert Path(last["page"]).is_file()
    run = RunFolder(Path(last["run"]))
    return run, json.loads(run.verdict_file.read_text())


def test_a_user_with_read_watches_a_broker_die_and_return(cluster: OwnCluster, tmp_path: Path) -> None:
    """The lines show the silent replica; Ctrl-C seals and judges; the verdict names its evidence."""
    process = watch(cluster.file(cluster.login()), tmp_path, "orders", "--json")
    lines = lines_of(process)
    assert next(line for line in lines if in_state(line, "healthy"))
    cluster.kill(2)
    silent = next(line for line in lines if any(each["state"] != "healthy" for each in line["partitions"]))
    assert {replica["broker_id"] for replica in silent["partitions"][0]["replicas"] if replica["error"]} == {2}
    cluster.start_broker(2)
    assert next(line for line in lines if in_state(line, "healthy"))
    _, verdict = ended(process, lines)
    assert "the offsets of every replica and the brokers' metadata" in verdict["sentence"]
    assert "lost_write" in verdict["not_judged"]
    assert any("Broker 2 did not answer" in reason for reason in verdict["reasons"])


def test_a_broker_that_is_down_at_the_start_is_watched_once_it_returns(cluster: OwnCluster, tmp_path: Path) -> None:
    """The cluster does not list it then; its replicas are silent, without offsets, until its first answer."""
    cluster.kill(3)
    cluster.wait_until_unlisted(3)
    process = watch(cluster.file(cluster.login()), tmp_path, "orders", "--json")
    lines = lines_of(process)
    line = next(line for line in lines if line["partitions"][0]["replicas"][2]["error"])
    replica = line["partitions"][0]["replicas"][2]
    assert (replica["broker_id"], replica["error"], replica["log_end_offset"]) == (3, "unreachable", None)
    cluster.start_broker(3)
    assert next(line for line in lines if in_state(line, "healthy"))
    for _ in range(5):  # samples that can be judged
        next(lines)
    run, verdict = ended(process, lines)
    assert any("Broker 3 did not answer for" in why and "from the start on" in why for why in verdict["reasons"])
    assert "hanging_transaction" in verdict["not_judged"]
    rows = pq.read_table(run.table("replicas")).to_pylist()
    errors = [row["error"] for row in sorted(rows, key=lambda row: row["sent_ns"]) if row["broker_id"] == 3]
    assert (errors[0], errors[-1]) == ("unreachable", None)


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


# --- networks ----------------------------------------------------------------------------------


class Forwards:
    """A port for each broker that forwards to it; a cut network accepts connections and forwards nothing."""

    def __init__(self, cluster: OwnCluster) -> None:
        self._servers = {number: socket.create_server(("127.0.0.1", 0)) for number in cluster.ports}
        self.addresses = {number: f"127.0.0.1:{server.getsockname()[1]}" for number, server in self._servers.items()}
        self.whole = threading.Event()
        self.whole.set()
        for number, server in self._servers.items():
            threading.Thread(target=self._forward, args=(server, cluster.ports[number]), daemon=True).start()

    def file(self, cluster: OwnCluster) -> Path:
        """Write a cluster file with these addresses only."""
        mapped = ", ".join(f"{number}: '{address}'" for number, address in self.addresses.items())
        return cluster.file(cluster.login(), bootstrap=f"['{self.addresses[1]}']", addresses=f"{{{mapped}}}")

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self.whole.set()

    def _forward(self, server: socket.socket, port: int) -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                broker = socket.create_connection(("127.0.0.1", port))
                for source, target in ((client, broker), (broker, client)):
                    threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError), target:
            while data := source.recv(65_536):
                self.whole.wait()
                target.sendall(data)


@pytest.fixture
def forwards(cluster: OwnCluster) -> Iterator[Forwards]:
    """Forward a port to each broker."""
    with closing(Forwards(cluster)) as forwards:
        yield forwards


def test_forwarded_ports_are_used_for_brokers(cluster: OwnCluster, forwards: Forwards, tmp_path: Path) -> None:
    """With addresses for each broker id the advertised ones are not used."""
    process = watch(forwards.file(cluster), tmp_path, "orders", "--json", "--seconds", "4")
    *_, last = lines_of(process)
    assert process.wait(120) == 0
    manifest = json.loads((Path(last["run"]) / "manifest.json").read_text())
    assert {node["address"] for node in manifest["nodes"]} == set(forwards.addresses.values())


def test_a_network_that_is_cut_is_a_silence(cluster: OwnCluster, forwards: Forwards, tmp_path: Path) -> None:
    """The lines show silent leaders, then all again; the verdict names what was not seen."""
    process = watch(forwards.file(cluster), tmp_path, "orders", "--json")
    lines = lines_of(process)
    assert next(line for line in lines if in_state(line, "healthy"))
    forwards.whole.clear()
    cut_s = time.monotonic()
    silent = next(line for line in lines if in_state(line, "leader_silent"))
    assert {replica["error"] for each in silent["partitions"] for replica in each["replicas"]} == {"timeout"}
    assert next(line for line in lines if time.monotonic() - cut_s > CUT_S)
    forwards.whole.set()
    assert next(line for line in lines if in_state(line, "healthy"))
    _, verdict = ended(process, lines)
    unseen = [reason for reason in verdict["reasons"] if "its replicas were not judged then" in reason]
    assert [reason.partition(" for ")[0] for reason in unseen] == [f"Broker {n} did not answer" for n in (1, 2, 3)]
    assert all(float(reason.partition(" for ")[2].partition(" s")[0]) >= CUT_S for reason in unseen)


# --- topics ------------------------------------------------------------------------------------


def test_a_topic_that_is_made_anew_is_no_violation(cluster: OwnCluster, tmp_path: Path) -> None:
    """Its offsets start again; the lines say so, and the verdict judges the first topic only."""
    cluster.create_topic("again")
    cluster.allow("ann", ACLOperation.READ, "again")
    cluster.produce("again", 100)
    process = watch(cluster.file(cluster.login()), tmp_path, "again", "orders", "--json")
    lines = lines_of(process)
    for _ in range(5):  # samples that can be judged
        assert next(line for line in lines if line["partitions"][0]["log_end_offset"] == 100)
    cluster.make_anew("again")
    line = next(line for line in lines if line["partitions"][0]["state"] == "made_anew")
    assert {each["state"] for each in line["partitions"][1:]} == {"healthy"}
    run, verdict = ended(process, lines)
    assert "The topic again was deleted and made anew during the watch" in verdict["reasons"][0]
    rows = pq.read_table(run.table("replicas")).to_pylist()
    offsets = {row["log_end_offset"] for row in rows if row["topic"] == "again" and row["error"] is None}
    assert offsets == {100}


# --- TLS, and other releases -------------------------------------------------------------------


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """A broker of 3.9 that speaks TLS and has a certificate for localhost."""
    with own_cluster(tmp_path_factory.mktemp("tls"), "3.9.1", brokers=1, security="tls") as started:
        started.create_topic("orders")
        yield started


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "JKS"])
def test_a_cluster_is_watched_over_tls(encrypted: OwnCluster, tmp_path: Path, kind: str) -> None:
    """The user's authority is in a trust store of any kind."""
    process = watch(encrypted.file(trusting(encrypted.folder, kind)), tmp_path, "orders", "--json", "--seconds", "3")
    *_, last = lines_of(process)
    assert process.wait(120) == 0
    assert last["verdict"] == "pass"


def test_an_unknown_authority_is_rejected(encrypted: OwnCluster, tmp_path: Path) -> None:
    """The certificate is sound, but of another authority."""
    (encrypted.folder / "other.pem").write_text(Authority().certificate)
    settings = encrypted.login() | {"ssl.truststore.location": "other.pem"}
    assert "presents a certificate that is not trusted" in refusal(encrypted.file(settings), tmp_path)


def test_an_expired_certificate_is_rejected(encrypted: OwnCluster, tmp_path: Path) -> None:
    """Its authority is trusted."""
    with _expired(encrypted) as address:
        sentence = refusal(encrypted.file(encrypted.login(), bootstrap=f"['{address}']"), tmp_path)
    assert f"{address} presents a certificate that is not trusted: certificate has expired" in sentence


@contextmanager
def _expired(cluster: OwnCluster) -> Iterator[str]:
    """Terminate TLS with an expired certificate."""
    chain = cluster.folder / "expired.pem"
    chain.write_text(cluster.authority.issue("broker", expires=-DAY))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                with suppress(OSError), client:
                    context.wrap_socket(client, server_side=True)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"localhost:{server.getsockname()[1]}"


def trusting(folder: Path, kind: str) -> dict[str, str]:
    """Return client settings with a trust store of this kind."""
    settings = {"security.protocol": "SSL", "ssl.truststore.type": kind, "ssl.truststore.location": "ca.pem"}
    if kind == "PEM":
        return settings
    keytool = [str(java_of().home / "bin" / "keytool"), "-importcert", "-noprompt", "-alias", "ca", "-file", "ca.pem"]
    store = ["-keystore", f"ca.{kind}", "-storetype", kind, "-storepass", "secret"]
    subprocess.run([*keytool, *store], cwd=folder, check=True, capture_output=True)
    return settings | {"ssl.truststore.location": f"ca.{kind}", "ssl.truststore.password": "secret"}


def test_a_user_with_a_certificate_watches(tmp_path: Path) -> None:
    """The certificate's subject is the user that rights name; without a certificate nothing is reached."""
    folder = tmp_path / "own"
    folder.mkdir()
    with own_cluster(folder, DEFAULT_RELEASE, brokers=2, security="mutual") as started:
        started.create_topic("orders")
        assert "User:CN=ann --operation Read" in refusal(started.file(started.login()), tmp_path / "none")
        nameless = {name: text for name, text in started.login().items() if "keystore" not in name}
        assert "The cluster cannot be reached" in refusal(started.file(nameless), tmp_path / "none")
        started.allow("ann", ACLOperation.READ, "orders")
        process = watch(started.file(started.login()), tmp_path / "runs", "orders", "--json", "--seconds", "4")
        *_, last = lines_of(process)
        assert process.wait(120) == 0
    assert last["verdict"] == "pass"


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
        assert set(admin.list_topics()) - {"orders", "secrets", "again"} == set()
