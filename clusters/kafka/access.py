"""Log in to a cluster with the security settings of a client.properties."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider

from clusters.kafka.properties import environment_of, providers_of, read_properties, resolved
from history.errors import BadInput

if TYPE_CHECKING:
    from clusters.kafka.stores import Store

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_OPTION = re.compile(r'([\w.]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s";]+))')
_PEM = re.compile(r"(-----BEGIN [A-Z ]+-----)([^-]*)(-----END [A-Z ]+-----)\s*")
_WHOLE_FILE = re.compile(r"\$\{directory:([^:}]*):([^:}]*)\}")
_JAVA = ("config.providers", "security.", "ssl.", "sasl.")
_TOKEN_LIMIT_S = 10
_RENEW_EARLY_S = 30


class Login(NamedTuple):
    """A SASL login; ``options`` are those of ``sasl.jaas.config``."""

    mechanism: str
    options: Mapping[str, str]
    token_url: str | None = None


class Identity(NamedTuple):
    """A client's certificate chain and private key, as PEM."""

    chain: str
    key: str


class Access:
    """The security settings of a client.properties, for our connections and both client libraries.

    Stores may be PEM, PKCS12 or JKS files, or PEM texts (KIP-651). ``settings`` replace the file's.

    Raises:
        BadInput: an unknown protocol or mechanism, a store that cannot be opened, a login without its options.
    """

    def __init__(self, path: Path, settings: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._written = read_properties(path) if settings is None else settings
        self._settings = resolved(self._written, path)
        self.protocol = self._one_of("security.protocol", PROTOCOLS, "PLAINTEXT")
        self.login = self._login() if self.protocol.startswith("SASL") else None
        self.context: ssl.SSLContext | None = None
        self.authorities: str | None = None
        self.identity: Identity | None = None
        if self.protocol.endswith("SSL"):
            self.authorities, self.identity = self._authorities(), self._identity()
            try:
                self.context = self._context()
            except ssl.SSLError:
                raise BadInput(f"{path}: certificates or key cannot be read, or ssl.key.password is wrong.") from None

    @property
    def environment(self) -> dict[str, str]:
        return environment_of(self._written)

    @property
    def sasl(self) -> str | None:
        return self.login.mechanism if self.login else None

    @property
    def user(self) -> str:
        """Return the principal's name as brokers see it by default."""
        if self.login:
            return self.login.options.get("username") or self.login.options["clientId"]
        if self.identity:
            from cryptography import x509

            return x509.load_pem_x509_certificate(self.identity.chain.encode()).subject.rfc4514_string()
        return "ANONYMOUS"

    @property
    def checks_host(self) -> bool:
        return self._settings.get("ssl.endpoint.identification.algorithm", "https").strip() != ""

    def encrypted(self, sock: socket.socket, host: str) -> socket.socket:
        """Return the socket, with TLS if the protocol has it."""
        return self.context.wrap_socket(sock, server_hostname=host) if self.context else sock

    def conversation(self) -> Any:
        return get_sasl_mechanism(self.sasl)(**self._kafka_python_login())

    def java(self) -> dict[str, str]:
        """Return the settings as written: with references to secrets, and paths relative to the file."""
        written = {name: text for name, text in self._written.items() if name.startswith(_JAVA)}
        return providers_of(written) | written

    def kafka_python(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.context:
            settings["ssl_context"] = self.context
        return settings | self._kafka_python_login()

    def librdkafka(self) -> dict[str, str]:
        """Return librdkafka's settings; stores other than PEM files are texts."""
        settings = {"security.protocol": self.protocol}
        if self.context:
            settings |= self._librdkafka_stores()
        if self.login is None:
            return settings
        settings["sasl.mechanism"], options, token_url = self.login
        if token_url is None:
            return settings | {"sasl.username": options["username"], "sasl.password": options["password"]}
        settings |= {"sasl.oauthbearer.scope": options["scope"]} if "scope" in options else {}
        return settings | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": token_url,
            "sasl.oauthbearer.client.id": options["clientId"],
            "sasl.oauthbearer.client.secret": options["clientSecret"],
        }

    def _librdkafka_stores(self) -> dict[str, str]:
        settings = {} if self.checks_host else {"ssl.endpoint.identification.algorithm": "none"}
        if self._key_password:
            settings["ssl.key.password"] = self._key_password
        chain, key = self.identity or (None, None)
        for part, setting, text in (
            ("ca", "truststore.certificates", self.authorities),
            ("certificate", "keystore.certificate.chain", chain),
            ("key", "keystore.key", key),
        ):
            if file := self._referred_to(setting) or self._pem_file(setting.partition(".")[0]):
                settings[f"ssl.{part}.location"] = str(file)
            elif text:
                settings[f"ssl.{part}.pem"] = text
        return settings

    def _referred_to(self, setting: str) -> Path | None:
        found = _WHOLE_FILE.fullmatch(self._written.get(f"ssl.{setting}", ""))
        return self.path.parent / found[1] / found[2] if found else None

    def _kafka_python_login(self) -> dict[str, Any]:
        if self.login is None:
            return {}
        mechanism, options, token_url = self.login
        if token_url:
            return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": _Tokens(token_url, options)}
        return {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": options["username"],
            "sasl_plain_password": options["password"],
        }

    def _one_of(self, name: str, supported: tuple[str, ...], default: str | None = None) -> str:
        text = self._settings.get(name, default)
        if text is None:
            raise BadInput(f"{self.path}: {name} is missing; {', '.join(supported)} are supported.")
        if text.strip() not in supported:
            raise BadInput(f"{self.path}: {name}={text} is not supported; {', '.join(supported)} are.")
        return text.strip()

    def _login(self) -> Login:
        mechanism = self._one_of("sasl.mechanism", MECHANISMS)
        jaas = self._required("sasl.jaas.config")
        options = {found[1]: _unquoted(found[2] or found[3] or "") for found in _OPTION.finditer(jaas)}
        needed = ("clientId", "clientSecret") if mechanism == "OAUTHBEARER" else ("username", "password")
        if lacking := [name for name in needed if name not in options]:
            raise BadInput(f"{self.path}: sasl.jaas.config has no {' and no '.join(lacking)}.")
        of_tokens = mechanism == "OAUTHBEARER"
        return Login(mechanism, options, self._required("sasl.oauthbearer.token.endpoint.url") if of_tokens else None)

    def _required(self, name: str) -> str:
        if name not in self._settings:
            raise BadInput(f"{self.path}: {name} is missing.")
        return self._settings[name]

    def _authorities(self) -> str | None:
        """Return the trusted certificates as PEM; None: those of the system."""
        if text := self._settings.get("ssl.truststore.certificates"):
            return _blocks(_pem(text), "CERTIFICATE")
        if file := self._pem_file("truststore"):
            return _blocks(file.read_text(), "CERTIFICATE")
        store = self._store("truststore")
        return store.authorities if store else None

    def _identity(self) -> Identity | None:
        key, chain = (self._settings.get(f"ssl.keystore.{part}") for part in ("key", "certificate.chain"))
        if not (key and chain) and (file := self._pem_file("keystore")):
            key = chain = file.read_text()
        if key and chain:
            return Identity(_blocks(_pem(chain), "CERTIFICATE"), _blocks(_pem(key), "KEY"))
        store = self._store("keystore")
        if store and store.identity is None:
            raise BadInput(f"{self.path}: {self._settings['ssl.keystore.location']} has no private key.")
        return store.identity if store else None

    def _pem_file(self, kind: str) -> Path | None:
        """Return a store's path if it is a PEM file."""
        location = self._settings.get(f"ssl.{kind}.location")
        if location is None:
            return None
        file = self.path.parent / location
        try:
            return file if file.read_bytes().lstrip().startswith(b"-----") else None
        except OSError as error:
            raise BadInput(f"{self.path}: ssl.{kind}.location={location} cannot be read: {error.strerror}.") from None

    def _store(self, kind: str) -> Store | None:
        location = self._settings.get(f"ssl.{kind}.location")
        if location is None:
            return None
        from clusters.kafka.stores import read_store

        password, key_password = (self._settings.get(f"ssl.{name}.password") for name in (kind, "key"))
        try:
            return read_store(self.path.parent / location, password or "", key_password)
        except ValueError:
            raise BadInput(
                f"{self.path}: {location} is no PEM, PKCS12 or JKS store, or ssl.{kind}.password is wrong."
            ) from None

    @property
    def _key_password(self) -> str | None:
        return self._settings.get("ssl.key.password") or self._settings.get("ssl.keystore.password")

    def _context(self) -> ssl.SSLContext:
        if self.authorities == "":  # with which Python would trust the system's
            raise BadInput(f"{self.path}: the trust store has no certificate.")
        context = ssl.create_default_context(cadata=self.authorities)
        context.check_hostname = self.checks_host
        if self.identity:
            with os.fdopen(os.memfd_create("identity"), "w") as file:  # Python reads chains from files only
                file.write(self.identity.key + self.identity.chain)
                file.flush()
                context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=self._key_password or "")
        return context


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Fetch tokens by client credentials (RFC 6749, 4.4), and again before they expire."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        super().__init__()
        self._url, self._options = url, options
        self._token, self._until_s = "", 0.0

    def token(self) -> str:
        if time.monotonic() >= self._until_s:
            self._token, seconds = self._fetched()
            self._until_s = time.monotonic() + max(0, seconds - _RENEW_EARLY_S)
        return self._token

    def _fetched(self) -> tuple[str, float]:
        scope = {"scope": self._options["scope"]} if self._options.get("scope") else {}
        form = urllib.parse.urlencode({"grant_type": "client_credentials", **scope}).encode()
        secret = base64.b64encode(f"{self._options['clientId']}:{self._options['clientSecret']}".encode()).decode()
        request = urllib.request.Request(self._url, form, {"Authorization": f"Basic {secret}"})
        try:
            with urllib.request.urlopen(request, timeout=_TOKEN_LIMIT_S) as answer:
                reply = json.load(answer)
            return str(reply["access_token"]), float(reply.get("expires_in", 0))
        except (OSError, ValueError, KeyError) as error:
            raise ConnectionAbortedError(f"{self._url} returned no token: {error}") from error


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _pem(text: str) -> str:
    """Return PEM with the line breaks that a setting on one line has lost."""
    return _PEM.sub(lambda block: "\n".join([block[1], *block[2].split(), block[3], ""]), text.strip())


def _blocks(text: str, kind: str) -> str:
    pattern = rf"-----BEGIN (?:[A-Z]+ )*{kind}-----.*?-----END (?:[A-Z]+ )*{kind}-----\n?"
    return "".join(block.group() for block in re.finditer(pattern, text, re.DOTALL))
