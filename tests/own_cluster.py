"""A cluster that the product did not start: Kafka's main class with its own server.properties, on the loopback."""

from __future__ import annotations

import base64
import json
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import uuid4

from kafka import KafkaProducer
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    NewTopic,
    ResourcePattern,
    ResourceType,
)
from kafka.errors import TopicAlreadyExistsError

from clusters.kafka.access import Access
from clusters.kafka.class_archive import archive_of
from clusters.kafka.connection import Connection
from clusters.kafka.jars import kafka_jars
from clusters.kafka.views import metadata
from clusters.waiting import wait_until
from history.java import java_of
from tests import hook
from tests.authority import Authority

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
HEAP = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info")
START_LIMIT_S = 120.0
USERS = 'user_admin="admin-secret" user_ann="ann-secret"'
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def free_port() -> int:
    """Return a port of the loopback that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@dataclass
class OwnCluster:
    """Brokers 1 to n as processes; with ZooKeeper for 2.8, else in KRaft with combined roles.

    ``security``: "" for plaintext, "plain" or "scram" for SASL_PLAINTEXT with users admin and ann and an authorizer,
    "tls" for SSL, "mutual" for SSL with certificates of the same users and an authorizer. ``extra`` is added to each
    server.properties. ``advertised`` are ports that forward to the brokers' (plaintext only); brokers do not use them.
    """

    folder: Path
    version: str
    brokers: int = 3
    security: str = ""
    racks: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)
    ports: dict[int, int] = field(default_factory=dict)
    advertised: Mapping[int, int] = field(default_factory=dict)
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ports = self.ports or {number: free_port() for number in range(1, self.brokers + 1)}
        self._internal_ports = {number: free_port() for number in self.advertised}
        self._metadata_ports = {number: free_port() for number in range(self.brokers + 1)}  # 0: ZooKeeper's
        self.jars = kafka_jars(self.version)
        self.zookeeper: subprocess.Popen[bytes] | None = None
        self.authority = Authority()

    @property
    def _over_tls(self) -> bool:
        return self.security in ("tls", "mutual")

    @property
    def with_zookeeper(self) -> bool:
        return self.version.startswith("2.")

    @property
    def bootstrap(self) -> list[str]:
        return [f"{self.host(number)}:{port}" for number, port in (self.advertised or self.ports).items()]

    def host(self, _: int) -> str:
        """Return the name at which a broker answers."""
        return "localhost"

    def file(self, client: Mapping[str, str] | None = None, **more: object) -> Path:
        """Write a cluster file, and a client.properties if there are settings; return its path."""
        lines = [] if "bootstrap" in more else [f"bootstrap: [{', '.join(self.bootstrap)}]"]
        if client:
            (self.folder / "client.properties").write_text("".join(f"{k}={v}\n" for k, v in client.items()))
            lines.append("client: client.properties")
        lines += [f"{name}: {value}" for name, value in more.items()]
        path = self.folder / "mine.yaml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def login(self, user: str = "ann", password: str | None = None) -> dict[str, str]:
        """Return a user's client settings; files are beside the client.properties."""
        if self._over_tls:
            trusted = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"}
            own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": f"{user}.pem"}
            return trusted | (own if self.security == "mutual" else {})
        module = SCRAM if self.security == "scram" else PLAIN
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": self._mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password or f"{user}-secret"}";',
        }

    # --- processes -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything, and wait until each broker answers."""
        if self.with_zookeeper:
            self.zookeeper = self._java(
                self._zookeeper_file(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zookeeper"
            )
            wait_until(lambda: _is_open(self._metadata_ports[0]), limit_s=START_LIMIT_S, what="ZooKeeper")
        if self._over_tls:
            (self.folder / "ca.pem").write_text(self.authority.certificate)
            for name in ("broker", "admin", "ann"):
                (self.folder / f"{name}.pem").write_text(self.authority.issue(name))
        if self.with_zookeeper and self.security == "scram":
            self._add_scram_users()
        elif not self.with_zookeeper:
            self._format()
        for number in self.ports:
            self.start_broker(number)
        self.wait_for_all()

    def start_broker(self, number: int) -> None:
        self.processes[number] = self._java(self._server_file(number), "kafka.Kafka", f"broker-{number}")

    def wait_for_all(self) -> None:
        """Wait until every broker knows all brokers."""

        def all_known(number: int) -> bool:
            with Connection(self.host(number), self.ports[number], 5.0, access=access) as connection:
                return len(metadata(connection, []).brokers) == self.brokers

        access = self._admin_access()
        for number in self.ports:
            wait_until(partial(all_known, number), limit_s=START_LIMIT_S, what=f"broker {number}", ignoring=(OSError,))

    def wait_until_unlisted(self, number: int) -> None:
        """Wait until no other broker lists this one."""
        port = next(port for other, port in self.ports.items() if other != number)
        with Connection("localhost", port, 5.0, access=self._admin_access()) as connection:
            wait_until(
                lambda: number not in metadata(connection, []).brokers,
                limit_s=START_LIMIT_S,
                what=f"the end of broker {number}'s session",
            )

    def _admin_access(self) -> Access:
        properties = self.folder / "admin.properties"
        settings = self.login("admin") if self.security else {}
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return Access(properties)

    def send(self, number: int, sent: signal.Signals) -> None:
        self.processes[number].send_signal(sent)

    def kill(self, number: int) -> None:
        self.send(number, signal.SIGKILL)
        self.processes[number].wait()

    def stop(self) -> None:
        for process in [*self.processes.values(), *([self.zookeeper] if self.zookeeper else [])]:
            process.kill()
            process.wait()
        for number in self.ports:  # those that hooks have started
            hook.send(self.folder, str(number), "SIGKILL")

    def tool(self, main: str, *arguments: str) -> str:
        """Run one of Kafka's tools as admin, and return what it printed."""
        command = self._command(main, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_LIMIT_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def create_topic(self, name: str, partitions: int = 1, on: list[int] | None = None, **config: str) -> None:
        """Create a topic on these brokers, else on all; settings have underscores for dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        replicas = dict.fromkeys(range(partitions), on or list(self.ports))
        topic = NewTopic(name, -1, -1, replica_assignments=replicas, topic_configs=settings)
        with self.admin() as admin:
            wait_until(
                lambda: admin.create_topics([topic]) or True,
                limit_s=START_LIMIT_S,
                what=f"the creation of {name}",
                ignoring=(TopicAlreadyExistsError,),  # ZooKeeper's deletion of one before may go on
            )

    def topics(self) -> set[str]:
        """Return the names of all topics that are not Kafka's own."""
        with self.admin() as admin:
            return {name for name in admin.list_topics() if not name.startswith("__")}

    def produce(self, topic: str, records: int) -> None:
        """Write records, and wait until all are acknowledged."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", **self._admin_access().kafka_python())
        for number in range(records):
            producer.send(topic, str(number).encode())
        producer.close()

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        with self.admin() as admin:
            admin.delete_topics([name])
            wait_until(lambda: name not in admin.list_topics(), limit_s=START_LIMIT_S, what=f"the end of {name}")

    def make_anew(self, name: str) -> None:
        """Delete a topic and create it again."""
        self.delete_topic(name)
        self.create_topic(name)

    def allow(self, user: str, operation: ACLOperation, topic: str, *, prefixed: bool = False) -> None:
        """Grant a right on a topic, or on all with a prefix."""
        kind = ACLResourcePatternType.PREFIXED if prefixed else ACLResourcePatternType.LITERAL
        pattern = ResourcePattern(ResourceType.TOPIC, topic, kind)
        principal = f"User:CN={user}" if self.security == "mutual" else f"User:{user}"
        with self.admin() as admin:
            admin.create_acls([ACL(principal, "*", operation, ACLPermissionType.ALLOW, pattern)])

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        """Return a client of the super user."""
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap, **self._admin_access().kafka_python())
        try:
            yield client
        finally:
            client.close()

    # --- files ---------------------------------------------------------------------------------

    @property
    def _mechanism(self) -> str:
        return "SCRAM-SHA-512" if self.security == "scram" else "PLAIN"

    def _command(self, main: str, *arguments: str) -> list[str]:
        """Return a command that maps the classes that a run of ours has archived, if there was one."""
        java = java_of()
        archive = archive_of(self.jars, java, "zookeeper" if self.with_zookeeper else "kraft")
        mapped = [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []
        return [java.command, *HEAP, *mapped, "-cp", f"{self.jars}/*", main, *arguments]

    def _java(self, file: Path, main: str, name: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            command = self._command(main, str(file))
            process = subprocess.Popen(command, stdout=log, stderr=log)
        (self.folder / f"{name}.json").write_text(json.dumps({"command": command, "pid": process.pid}))  # for hooks
        return process

    def _zookeeper_file(self) -> Path:
        path = self.folder / "zookeeper.properties"
        path.write_text(
            f"dataDir={self.folder}/zookeeper\nclientPort={self._metadata_ports[0]}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\n"
        )
        return path

    def _server_file(self, number: int) -> Path:
        path = self.folder / f"server-{number}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in self._settings(number).items()))
        return path

    def _settings(self, number: int) -> dict[str, str]:
        protocol = "SSL" if self._over_tls else "SASL_PLAINTEXT" if self.security else "PLAINTEXT"
        settings = {
            "listeners": f"CLIENTS://127.0.0.1:{self.ports[number]}",
            "advertised.listeners": f"CLIENTS://localhost:{self.ports[number]}",
            "inter.broker.listener.name": "CLIENTS",
            "listener.security.protocol.map": f"CLIENTS:{protocol},CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder / f"data-{number}"),
            "offsets.topic.replication.factor": str(self.brokers),
            "offsets.topic.num.partitions": "1",
            "auto.create.topics.enable": "false",
        }
        if self.racks:
            settings["broker.rack"] = f"rack-{number}"
        settings |= self._zookeeper_settings(number) if self.with_zookeeper else self._kraft_settings(number)
        return settings | self._forwarded(number, settings) | self._security() | dict(self.extra)

    def _forwarded(self, number: int, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the settings with which only clients connect to the advertised ports."""
        if not self.advertised:
            return {}
        internal = f"INTERNAL://127.0.0.1:{self._internal_ports[number]}"
        return {
            "listeners": f"{settings['listeners']},{internal}",
            "advertised.listeners": f"CLIENTS://localhost:{self.advertised[number]},{internal}",
            "inter.broker.listener.name": "INTERNAL",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }

    def _zookeeper_settings(self, number: int) -> dict[str, str]:
        return {"broker.id": str(number), "zookeeper.connect": f"127.0.0.1:{self._metadata_ports[0]}"}

    def _kraft_settings(self, number: int) -> dict[str, str]:
        settings = {
            "node.id": str(number),
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(
                f"{each}@127.0.0.1:{self._metadata_ports[each]}" for each in self.ports
            ),
        }
        return settings | {
            "listeners": f"CLIENTS://127.0.0.1:{self.ports[number]},CONTROLLER://127.0.0.1:{self._metadata_ports[number]}"
        }

    def _security(self) -> dict[str, str]:
        if not self.security:
            return {}
        authorizer = (
            "kafka.security.authorizer.AclAuthorizer"
            if self.with_zookeeper
            else "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        )
        rights = {
            "authorizer.class.name": authorizer,
            "super.users": "User:admin;User:CN=admin;User:CN=broker;User:ANONYMOUS",
        }
        return rights | (self._tls() if self._over_tls else self._sasl())

    def _tls(self) -> dict[str, str]:
        stores = {"keystore": "broker.pem", "truststore": "ca.pem"}
        settings = {f"ssl.{store}.type": "PEM" for store in stores}
        settings |= {f"ssl.{store}.location": str(self.folder / name) for store, name in stores.items()}
        return settings | {"ssl.client.auth": "required" if self.security == "mutual" else "none"}

    def _sasl(self) -> dict[str, str]:
        users = USERS if self.security == "plain" else ""
        module = SCRAM if self.security == "scram" else PLAIN
        jaas = f'{module} required username="admin" password="admin-secret" {users};'
        return {
            "sasl.enabled.mechanisms": self._mechanism,
            "sasl.mechanism.inter.broker.protocol": self._mechanism,
            f"listener.name.clients.{self._mechanism.lower()}.sasl.jaas.config": jaas,
        }

    def _format(self) -> None:
        """Format the first broker's storage; the others' copies differ in the ids alone."""
        first, *others = self.ports
        scram = []
        if self.security == "scram":
            for user in ("admin", "ann"):
                scram += ["--add-scram", f"SCRAM-SHA-512=[name={user},password={user}-secret]"]
        self.tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._server_file(first)), *scram)
        for number in others:
            copy = self.folder / f"data-{number}"
            shutil.copytree(self.folder / f"data-{first}", copy)
            new_id = base64.urlsafe_b64encode(uuid4().bytes)[:22].decode()
            ids = (copy / "meta.properties").read_text().replace(f"node.id={first}", f"node.id={number}")
            (copy / "meta.properties").write_text(re.sub("(?<=directory.id=).*", new_id, ids))

    def _add_scram_users(self) -> None:
        for user in ("admin", "ann"):
            self.tool(
                "kafka.admin.ConfigCommand",
                *("--zookeeper", f"127.0.0.1:{self._metadata_ports[0]}", "--alter", "--entity-type", "users"),
                *("--entity-name", user, "--add-config", f"SCRAM-SHA-512=[password={user}-secret]"),
            )


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def own_cluster(folder: Path, version: str, **settings: object) -> Iterator[OwnCluster]:
    """Start a cluster, and stop it at the end."""
    with ExitStack() as ending:
        cluster = OwnCluster(folder, version, **settings)  # type: ignore[arg-type]  # passed on as they are
        ending.callback(cluster.stop)
        cluster.start()
        yield cluster
