"""Configure TLS and SASL for brokers, client libraries and our own connections.

KRaft controllers, ZooKeeper and metrics stay plaintext. Brokers read secrets from files (KIP-651, KIP-421, KIP-614).
Client nodes use this module, too.
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
FOLDER = "security"
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
    """A node's credentials; ``tls`` (one_way, mutual) or ``sasl`` (a mechanism) may be None."""

    node: str
    folder: str
    tls: str | None = None
    sasl: str | None = None

    @property
    def protocol(self) -> str:
        transport = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{transport}" if self.sasl else transport

    @property
    def authority(self) -> Path:
        return Path(self.folder) / AUTHORITY

    @property
    def identity(self) -> Path:
        return Path(self.folder) / f"{self.node}.pem"

    def password(self) -> str:
        return (Path(self.folder) / PASSWORD).read_text()

    def write_password(self, password: str) -> None:
        file = Path(self.folder) / PASSWORD
        file.touch(mode=0o600)
        file.write_text(password)

    def broker_settings(self, listeners: Iterable[str], plaintext: Iterable[str]) -> dict[str, str]:
        protocols = dict.fromkeys(listeners, self.protocol) | dict.fromkeys(plaintext, "PLAINTEXT")
        settings = {"listener.security.protocol.map": ",".join(f"{name}:{of}" for name, of in protocols.items())}
        settings |= _PROVIDER
        if self.tls:
            settings |= self._stores()
            # Without the listener's prefix it would not apply to SASL_SSL (KIP-684).
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
        settings = {"security.protocol": self.protocol, **_PROVIDER}
        if self.tls:
            settings |= self._stores()
        if self.sasl:
            settings |= {"sasl.mechanism": self.sasl, "sasl.jaas.config": self._jaas()}
        return settings

    def _stores(self) -> dict[str, str]:
        return {
            # Not ssl.keystore.location: for a file, 2.8 requires an encrypted key.
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": self._content_of(self.identity.name),
            "ssl.keystore.certificate.chain": self._content_of(self.identity.name),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }

    def _jaas(self) -> str:
        password = f'"{self._content_of(PASSWORD)}"'
        users = f" user_{USER}={password}" if self.sasl == "PLAIN" else ""
        return f'{_LOGIN_MODULES[self.sasl or ""]} required username="{USER}" password={password}{users};'

    def _content_of(self, file: str) -> str:
        return f"${{directory:{self.folder}:{file}}}"

    def kafka_python(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.tls:
            settings["ssl_context"] = self.context
        return settings | self._login(*_KAFKA_PYTHON)

    def librdkafka(self) -> dict[str, str]:
        settings = {"security.protocol": self.protocol}
        if self.tls:
            settings["ssl.ca.location"] = str(self.authority)
        if self.tls == "mutual":
            settings |= {"ssl.certificate.location": str(self.identity), "ssl.key.location": str(self.identity)}
        return settings | self._login("sasl.mechanism", "sasl.username", "sasl.password")

    def _login(self, mechanism: str, username: str, password: str) -> dict[str, str]:
        return {mechanism: self.sasl, username: USER, password: self.password()} if self.sasl else {}

    @cached_property
    def context(self) -> ssl.SSLContext:
        """Trust only the run's authority, and check addresses."""
        context = ssl.create_default_context(cafile=self.authority)
        if self.tls == "mutual":
            context.load_cert_chain(self.identity)
        return context

    def encrypted(self, sock: socket.socket, host: str) -> socket.socket:
        return self.context.wrap_socket(sock, server_hostname=host) if self.tls else sock

    def conversation(self) -> Any:
        return get_sasl_mechanism(self.sasl)(**self._login(*_KAFKA_PYTHON))
