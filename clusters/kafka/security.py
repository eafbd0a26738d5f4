"""TLS and SASL, said once: what brokers, client libraries and our own connections are told.

All listeners of the brokers (REPLICATION, CLIENT, PROBE) are secured alike. KRaft's controllers, ZooKeeper and the
exporter of metrics stay plaintext. No setting holds a secret: brokers read keys (PEM, KIP-651) and the password from
files by themselves (KIP-421, KIP-614). It runs inside the client nodes, too.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kafka.net.sasl import get_sasl_mechanism

USER = "plimsoll"
FOLDER = "security"  # below the run's work/
AUTHORITY, PASSWORD = "authority.pem", "password"
_KAFKA_PYTHON = ("sasl_mechanism", "sasl_plain_username", "sasl_plain_password")
_PROVIDER = {
    "config.providers": "directory",
    "config.providers.directory.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
}
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class Access:
    """How one node gets into a secured cluster, or lets others in; ``folder`` holds what it shows for that.

    ``tls`` is one_way or mutual, ``sasl`` a mechanism; one of them may be None.
    """

    node: str
    folder: str
    tls: str | None = None
    sasl: str | None = None

    @property
    def protocol(self) -> str:
        """Kafka's name of it: SSL, SASL_SSL or SASL_PLAINTEXT."""
        transport = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{transport}" if self.sasl else transport

    @property
    def authority(self) -> Path:
        """The certificate by which others are known."""
        return Path(self.folder) / AUTHORITY

    @property
    def identity(self) -> Path:
        """The node's own key and certificate."""
        return Path(self.folder) / f"{self.node}.pem"

    def password(self) -> str:
        return (Path(self.folder) / PASSWORD).read_text()

    def write_password(self, password: str) -> None:
        file = Path(self.folder) / PASSWORD
        file.touch(mode=0o600)
        file.write_text(password)

    # --- what each is told -----------------------------------------------------------------------

    def broker_settings(self, listeners: Iterable[str], plaintext: Iterable[str]) -> dict[str, str]:
        """A broker's settings; where a secret belongs stands where it is read from."""
        protocols = dict.fromkeys(listeners, self.protocol) | dict.fromkeys(plaintext, "PLAINTEXT")
        settings = {"listener.security.protocol.map": ",".join(f"{name}:{of}" for name, of in protocols.items())}
        settings |= _PROVIDER
        if self.tls:
            settings |= self._stores()
            # Without the listener's name it would not hold for SASL_SSL (KIP-684).
            asked_for = "required" if self.tls == "mutual" else "none"
            settings |= {f"listener.name.{name.lower()}.ssl.client.auth": asked_for for name in listeners}
        if self.sasl:
            settings |= {
                "sasl.enabled.mechanisms": self.sasl,
                "sasl.mechanism.inter.broker.protocol": self.sasl,
            }
            of_listener = f"{self.sasl.lower()}.sasl.jaas.config"
            settings |= {f"listener.name.{name.lower()}.{of_listener}": self._jaas() for name in listeners}
        return settings

    def java(self) -> dict[str, str]:
        """The settings of a client of Kafka's own."""
        settings = {"security.protocol": self.protocol, **_PROVIDER}
        if self.tls:
            settings |= self._stores()
        if self.sasl:
            settings |= {"sasl.mechanism": self.sasl, "sasl.jaas.config": self._jaas()}
        return settings

    def _stores(self) -> dict[str, str]:
        """The node's own key and certificate, and whom it trusts."""
        return {
            # Not as ssl.keystore.location: of a file, 2.8 wants the key to be encrypted.
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": self._content_of(self.identity.name),
            "ssl.keystore.certificate.chain": self._content_of(self.identity.name),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }

    def _jaas(self) -> str:
        """Who this node is to others and, for PLAIN, whom a broker lets in; SCRAM's users are in the metadata."""
        password = f'"{self._content_of(PASSWORD)}"'
        users = f" user_{USER}={password}" if self.sasl == "PLAIN" else ""
        return f'{_LOGIN_MODULES[self.sasl or ""]} required username="{USER}" password={password}{users};'

    def _content_of(self, file: str) -> str:
        return f"${{directory:{self.folder}:{file}}}"

    def kafka_python(self) -> dict[str, Any]:
        """The settings of kafka-python."""
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.tls:
            settings["ssl_context"] = self.context
        return settings | self._login(*_KAFKA_PYTHON)

    def librdkafka(self) -> dict[str, str]:
        """The settings of librdkafka."""
        settings = {"security.protocol": self.protocol}
        if self.tls:
            settings["ssl.ca.location"] = str(self.authority)
        if self.tls == "mutual":
            settings |= {"ssl.certificate.location": str(self.identity), "ssl.key.location": str(self.identity)}
        return settings | self._login("sasl.mechanism", "sasl.username", "sasl.password")

    def _login(self, mechanism: str, username: str, password: str) -> dict[str, str]:
        return {mechanism: self.sasl, username: USER, password: self.password()} if self.sasl else {}

    # --- our own connections -----------------------------------------------------------------------

    @cached_property
    def context(self) -> ssl.SSLContext:
        """Trusts the run's authority alone, and wants certificates to name the address that was called."""
        context = ssl.create_default_context(cafile=self.authority)
        if self.tls == "mutual":
            context.load_cert_chain(self.identity)
        return context

    def encrypted(self, sock: socket.socket, host: str) -> socket.socket:
        """The same connection, by TLS where that is asked for.

        Raises:
            OSError: there is no agreement, or none in the socket's time.
        """
        return self.context.wrap_socket(sock, server_hostname=host) if self.tls else sock

    def conversation(self) -> Any:
        """The client's half of a new SASL exchange (RFC 4616, RFC 5802): kafka-python's ``SaslMechanism``."""
        return get_sasl_mechanism(self.sasl)(**self._login(*_KAFKA_PYTHON))
