"""Log in to a cluster with the security settings of a client.properties."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider

from clusters.kafka.properties import read_properties
from history.errors import BadInput

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_OPTION = re.compile(r'([\w.]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s";]+))')
_PEM = re.compile(r"(-----BEGIN [A-Z ]+-----)([^-]*)(-----END [A-Z ]+-----)\s*")
_JKS = bytes.fromhex("feedfeed")
_KEYTOOL_LIMIT_S = 60
_TOKEN_LIMIT_S = 10
_RENEW_EARLY_S = 30
_NO_PASSWORD = serialization.NoEncryption()


@dataclass(frozen=True)
class Login:
    """A SASL login; ``options`` are those of ``sasl.jaas.config``."""

    mechanism: str
    options: Mapping[str, str]
    token_url: str | None = None


@dataclass(frozen=True)
class Identity:
    """A client's certificate chain and private key, as PEM without a password."""

    chain: str
    key: str


class ClientAccess:
    """The security settings of a client.properties, for our connections and both client libraries.

    Stores may be PEM, PKCS12 or JKS files, or PEM texts (KIP-651). JKS needs ``keytool``.

    Raises:
        BadInput: an unknown protocol or mechanism, a store that cannot be opened, a login without its options.
    """

    def __init__(self, path: Path, keytool: str = "keytool") -> None:
        self.path, self._keytool = path, keytool
        self._settings = read_properties(path)
        self.protocol = self._one_of("security.protocol", PROTOCOLS, "PLAINTEXT")
        self.login = self._login() if self.protocol.startswith("SASL") else None
        self.authorities = self._authorities() if self.encrypted_transport else None
        self.identity = self._identity() if self.encrypted_transport else None

    @property
    def encrypted_transport(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> str | None:
        return self.login.mechanism if self.login else None

    @property
    def user(self) -> str:
        """Return the principal's name as brokers see it by default."""
        if self.login:
            return self.login.options.get("username") or self.login.options["clientId"]
        if self.identity:
            return x509.load_pem_x509_certificate(self.identity.chain.encode()).subject.rfc4514_string()
        return "ANONYMOUS"

    @property
    def checks_host(self) -> bool:
        return self._settings.get("ssl.endpoint.identification.algorithm", "https").strip() != ""

    @cached_property
    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authorities)
        context.check_hostname = self.checks_host
        if self.identity:
            with tempfile.NamedTemporaryFile(
                "w", suffix=".pem"
            ) as file:  # mode 600; Python reads chains from files only
                file.write(self.identity.key + self.identity.chain)
                file.flush()
                context.load_cert_chain(file.name)
        return context

    def encrypted(self, sock: socket.socket, host: str) -> socket.socket:
        """Return the socket, with TLS if the protocol has it."""
        return self.context.wrap_socket(sock, server_hostname=host) if self.encrypted_transport else sock

    def conversation(self) -> Any:
        """Return kafka-python's side of a SASL login."""
        return get_sasl_mechanism(self.sasl)(**self._kafka_python_login())

    def java(self) -> dict[str, str]:
        """Return the security settings in Java's spelling."""
        return {name: text for name, text in self._settings.items() if name.startswith(("security.", "ssl.", "sasl."))}

    def kafka_python(self) -> dict[str, Any]:
        """Return kafka-python's settings."""
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.encrypted_transport:
            settings["ssl_context"] = self.context
        return settings | self._kafka_python_login()

    def librdkafka(self) -> dict[str, str]:
        """Return librdkafka's settings, with stores as PEM."""
        settings = {"security.protocol": self.protocol}
        if self.authorities:
            settings["ssl.ca.pem"] = self.authorities
        if self.encrypted_transport and not self.checks_host:
            settings["ssl.endpoint.identification.algorithm"] = "none"
        if self.identity:
            settings |= {"ssl.certificate.pem": self.identity.chain, "ssl.key.pem": self.identity.key}
        if self.login is None:
            return settings
        settings["sasl.mechanism"] = self.login.mechanism
        options = self.login.options
        if self.login.token_url is None:
            return settings | {"sasl.username": options["username"], "sasl.password": options["password"]}
        scope = {"sasl.oauthbearer.scope": options["scope"]} if "scope" in options else {}
        return (
            settings
            | scope
            | {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": self.login.token_url,
                "sasl.oauthbearer.client.id": options["clientId"],
                "sasl.oauthbearer.client.secret": options["clientSecret"],
            }
        )

    def _kafka_python_login(self) -> dict[str, Any]:
        if self.login is None:
            return {}
        if self.login.token_url:
            return {"sasl_mechanism": self.login.mechanism, "sasl_oauth_token_provider": _Tokens(self)}
        return {
            "sasl_mechanism": self.login.mechanism,
            "sasl_plain_username": self.login.options["username"],
            "sasl_plain_password": self.login.options["password"],
        }

    # --- settings --------------------------------------------------------------------------------

    def _one_of(self, name: str, supported: tuple[str, ...], default: str | None = None) -> str:
        text = self._settings.get(name, default)
        if text is None:
            raise BadInput(f"{self.path}: {name} is missing; {', '.join(supported)} are supported.")
        if text.strip() not in supported:
            raise BadInput(f"{self.path}: {name}={text} is not supported; {', '.join(supported)} are.")
        return text.strip()

    def _login(self) -> Login:
        mechanism = self._one_of("sasl.mechanism", MECHANISMS)
        options = {found[1]: _unquoted(found[2] or found[3] or "") for found in _OPTION.finditer(self._jaas())}
        token_url = self._settings.get("sasl.oauthbearer.token.endpoint.url")
        needed = ("clientId", "clientSecret") if mechanism == "OAUTHBEARER" else ("username", "password")
        if lacking := [name for name in needed if name not in options]:
            raise BadInput(f"{self.path}: sasl.jaas.config has no {' and no '.join(lacking)}.")
        if mechanism == "OAUTHBEARER" and token_url is None:
            raise BadInput(f"{self.path}: sasl.oauthbearer.token.endpoint.url is missing.")
        return Login(mechanism, options, token_url if mechanism == "OAUTHBEARER" else None)

    def _jaas(self) -> str:
        name = "sasl.jaas.config"
        if name not in self._settings:
            raise BadInput(f"{self.path}: {name} is missing.")
        return self._settings[name]

    # --- stores ----------------------------------------------------------------------------------

    def _authorities(self) -> str | None:
        """Return the trusted certificates as PEM; None: those of the system."""
        if text := self._settings.get("ssl.truststore.certificates"):
            return _pem(text)
        if "ssl.truststore.location" not in self._settings:
            return None
        data = self._store("truststore")
        if data.lstrip().startswith(b"-----"):
            return data.decode()
        return "".join(_certificate(entry.certificate) for entry in self._pkcs12("truststore", data).additional_certs)

    def _identity(self) -> Identity | None:
        key, chain = (self._settings.get(f"ssl.keystore.{part}") for part in ("key", "certificate.chain"))
        if key and chain:
            return Identity(_pem(chain), self._plain_key(_pem(key)))
        if "ssl.keystore.location" not in self._settings:
            return None
        data = self._store("keystore")
        if data.lstrip().startswith(b"-----"):
            text = data.decode()
            return Identity("".join(_blocks(text, "CERTIFICATE")), self._plain_key("".join(_blocks(text, "KEY"))))
        store = self._pkcs12("keystore", data)
        if store.key is None or store.cert is None:
            raise BadInput(f"{self.path}: {self._settings['ssl.keystore.location']} has no private key.")
        chain = "".join(_certificate(entry.certificate) for entry in (store.cert, *store.additional_certs))
        return Identity(chain, _key(store.key))

    def _store(self, kind: str) -> bytes:
        location = self._settings[f"ssl.{kind}.location"]
        try:
            return (self.path.parent / location).read_bytes()
        except OSError as error:
            raise BadInput(f"{self.path}: ssl.{kind}.location={location} cannot be read: {error.strerror}.") from None

    def _pkcs12(self, kind: str, data: bytes) -> pkcs12.PKCS12KeyAndCertificates:
        password = self._settings.get(f"ssl.{kind}.password", "")
        try:
            if data.startswith(_JKS):
                data = self._converted(self.path.parent / self._settings[f"ssl.{kind}.location"], password)
            return pkcs12.load_pkcs12(data, password.encode())
        except ValueError:
            where = self._settings[f"ssl.{kind}.location"]
            raise BadInput(
                f"{self.path}: {where} is no PEM, PKCS12 or JKS store, or ssl.{kind}.password is wrong."
            ) from None

    def _converted(self, store: Path, password: str) -> bytes:
        """Return a JKS store as PKCS12; the passwords are passed in the environment."""
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "store.p12"
            command = [self._keytool, "-importkeystore", "-noprompt", "-srckeystore", str(store), "-destkeystore"]
            command += [str(target), "-deststoretype", "PKCS12"]
            for option in ("-srcstorepass:env", "-deststorepass:env"):
                command += [option, "STORE_PASSWORD"]
            if key_password := self._settings.get("ssl.key.password"):
                command += ["-srckeypass:env", "KEY_PASSWORD", "-destkeypass:env", "STORE_PASSWORD"]
            secrets = {"STORE_PASSWORD": password, "KEY_PASSWORD": key_password or password}
            try:
                subprocess.run(command, env=secrets, capture_output=True, timeout=_KEYTOOL_LIMIT_S, check=True)
            except FileNotFoundError:
                raise BadInput(
                    f"{self.path}: {store.name} is a JKS store; {self._keytool}, which opens it, is missing."
                ) from None
            except subprocess.SubprocessError:
                raise ValueError(store) from None
            return target.read_bytes()

    def _plain_key(self, text: str) -> str:
        password = self._settings.get("ssl.key.password") or self._settings.get("ssl.keystore.password")
        try:
            encrypted = "ENCRYPTED" in text
            key = serialization.load_pem_private_key(
                text.encode(), password.encode() if encrypted and password else None
            )
        except (ValueError, TypeError):
            raise BadInput(f"{self.path}: the private key cannot be read, or ssl.key.password is wrong.") from None
        return _key(key)


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Fetch tokens by client credentials (RFC 6749, 4.4), and again before they expire."""

    def __init__(self, access: ClientAccess) -> None:
        super().__init__()
        self._access = access
        self._token, self._until_s = "", 0.0

    def token(self) -> str:
        if time.monotonic() >= self._until_s:
            self._token, seconds = self._fetched()
            self._until_s = time.monotonic() + max(0, seconds - _RENEW_EARLY_S)
        return self._token

    def _fetched(self) -> tuple[str, float]:
        login = self._access.login
        assert login
        assert login.token_url
        form = {"grant_type": "client_credentials", "scope": login.options.get("scope")}
        request = urllib.request.Request(
            login.token_url, urllib.parse.urlencode({key: text for key, text in form.items() if text}).encode()
        )
        request.add_header("Authorization", _basic(login.options["clientId"], login.options["clientSecret"]))
        try:
            with urllib.request.urlopen(request, timeout=_TOKEN_LIMIT_S) as answer:
                reply = json.load(answer)
            return str(reply["access_token"]), float(reply.get("expires_in", 0))
        except (OSError, ValueError, KeyError) as error:
            raise ConnectionAbortedError(f"{login.token_url} returned no token: {error}") from error


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _pem(text: str) -> str:
    """Return PEM with the line breaks that a setting on one line has lost."""
    return _PEM.sub(lambda block: "\n".join([block[1], *block[2].split(), block[3], ""]), text.strip())


def _blocks(text: str, kind: str) -> list[str]:
    pattern = rf"-----BEGIN (?:[A-Z]+ )*{kind}-----.*?-----END (?:[A-Z]+ )*{kind}-----\n?"
    return [block.group() for block in re.finditer(pattern, text, re.DOTALL)]


def _certificate(certificate: Any) -> str:
    return str(certificate.public_bytes(serialization.Encoding.PEM).decode())


def _key(key: Any) -> str:
    return str(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, _NO_PASSWORD).decode())
