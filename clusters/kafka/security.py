"""Secure made clusters by TLS and SASL: secrets, brokers' settings, and a client.properties for each node.

KRaft controllers, ZooKeeper and metrics stay plaintext. Settings refer to secrets in files (KIP-651, KIP-421, KIP-614).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from clusters.kafka.certificates import AUTHORITY, issue
from clusters.kafka.properties import render
from history.folder import write_private

USER = "plimsoll"
FOLDER, PASSWORD = "security", "password"
_PROVIDER = {
    "config.providers": "directory",
    "config.providers.directory.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
}
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
}


@dataclass(frozen=True)
class Secrets:
    """A run's keys and password in a folder; ``tls`` (one_way, mutual) or ``sasl`` (a mechanism) may be None."""

    folder: Path
    tls: str | None = None
    sasl: str | None = None

    def create(self, addresses: Mapping[str, str]) -> None:
        """Write the password, and certificate and client.properties of each node (name → address)."""
        self.folder.mkdir(mode=0o700)
        if self.sasl:
            write_private(self.folder / PASSWORD, secrets.token_hex(24))
        if self.tls:
            issue(self.folder, addresses)
        for node in addresses:
            write_private(self.client_file(node), render(self._client_settings(node)))

    def client_file(self, node: str) -> Path:
        return self.folder / f"{node}.properties"

    def password(self) -> str:
        return (self.folder / PASSWORD).read_text()

    def broker_settings(self, node: str, listeners: Iterable[str], plaintext: Iterable[str]) -> dict[str, str]:
        protocols = dict.fromkeys(listeners, self._protocol) | dict.fromkeys(plaintext, "PLAINTEXT")
        settings = {"listener.security.protocol.map": ",".join(f"{name}:{of}" for name, of in protocols.items())}
        settings |= _PROVIDER
        if self.tls:
            settings |= self._trust_store() | self._key_store(node)
            # Without the listener's prefix it would not apply to SASL_SSL (KIP-684).
            client_auth = "required" if self.tls == "mutual" else "none"
            settings |= {f"listener.name.{name.lower()}.ssl.client.auth": client_auth for name in listeners}
        if self.sasl:
            settings |= {
                "sasl.enabled.mechanisms": self.sasl,
                "sasl.mechanism.inter.broker.protocol": self.sasl,
            }
            of_listener = f"{self.sasl.lower()}.sasl.jaas.config"
            settings |= {f"listener.name.{name.lower()}.{of_listener}": self._jaas() for name in listeners}
        return settings

    def _client_settings(self, node: str) -> dict[str, str]:
        settings = {"security.protocol": self._protocol, **_PROVIDER}
        if self.tls:
            settings |= self._trust_store()
        if self.tls == "mutual":
            settings |= self._key_store(node)
        if self.sasl:
            settings |= {"sasl.mechanism": self.sasl, "sasl.jaas.config": self._jaas()}
        return settings

    @property
    def _protocol(self) -> str:
        transport = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{transport}" if self.sasl else transport

    def _trust_store(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / AUTHORITY)}

    def _key_store(self, node: str) -> dict[str, str]:
        key_and_certificate = self._content_of(f"{node}.pem")
        return {
            # Not ssl.keystore.location: for a file, 2.8 requires an encrypted key.
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key_and_certificate,
            "ssl.keystore.certificate.chain": key_and_certificate,
        }

    def _jaas(self) -> str:
        password = f'"{self._content_of(PASSWORD)}"'
        users = f" user_{USER}={password}" if self.sasl == "PLAIN" else ""
        return f'{LOGIN_MODULES[self.sasl or ""]} required username="{USER}" password={password}{users};'

    def _content_of(self, file: str) -> str:
        return f"${{directory:{self.folder}:{file}}}"
