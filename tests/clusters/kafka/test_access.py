"""Tests of clusters.kafka.access."""

from __future__ import annotations

import io
import json
import subprocess
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from clusters.kafka.access import Access
from history.errors import BadInput
from history.java import java_of

JAAS = 'sasl.jaas.config=PlainLoginModule required username="ann" password="s\\\\"3";'
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url=http://127.0.0.1:9/token"


class Pair(NamedTuple):
    """A self-signed certificate and its key, as PEM."""

    certificate: str
    key: str
    p12: bytes


@pytest.fixture(scope="module")
def pair() -> Pair:
    """A certificate for a client."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "client")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    store = pkcs12.serialize_key_and_certificates(
        b"client", key, certificate, None, serialization.BestAvailableEncryption(b"secret")
    )
    return Pair(certificate.public_bytes(pem).decode(), text, store)


def access(folder: Path, *lines: str, files: Mapping[str, str | bytes] | None = None) -> Access:
    """Read settings from a file next to others."""
    for name, content in (files or {}).items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    path = folder / "client.properties"
    path.write_text("\n".join(lines))
    return Access(path)


def test_nothing_set_means_plaintext(tmp_path: Path) -> None:
    """An empty file gives a connection without TLS and login."""
    found = access(tmp_path, "")
    assert (found.protocol, found.sasl, found.librdkafka()) == ("PLAINTEXT", None, {"security.protocol": "PLAINTEXT"})


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_reaches_both_libraries(tmp_path: Path, mechanism: str) -> None:
    """User and password come from sasl.jaas.config, with its escapes."""
    found = access(tmp_path, "security.protocol=SASL_PLAINTEXT", f"sasl.mechanism={mechanism}", JAAS)
    assert found.librdkafka()["sasl.username"] == found.kafka_python()["sasl_plain_username"] == "ann"
    assert found.librdkafka()["sasl.password"] == found.kafka_python()["sasl_plain_password"] == 's"3'


def test_a_token_comes_from_its_endpoint(tmp_path: Path) -> None:
    """OAUTHBEARER uses client credentials."""
    jaas = 'sasl.jaas.config=OAuthBearerLoginModule required clientId="me" clientSecret="s3" scope="kafka";'
    found = access(tmp_path, "security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER", jaas, TOKEN_URL).librdkafka()
    names = ("method", "client.id", "client.secret", "scope")
    assert [found[f"sasl.oauthbearer.{name}"] for name in names] == ["oidc", "me", "s3", "kafka"]


def test_a_token_is_used_until_shortly_before_it_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python's token comes from the endpoint, with id and secret in the header, and is then renewed."""
    jaas = 'sasl.jaas.config=OAuthBearerLoginModule required clientId="me" clientSecret="s3" scope="kafka";'
    found = access(tmp_path, "security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER", jaas, TOKEN_URL)
    provider, requests = found.kafka_python()["sasl_oauth_token_provider"], []

    def answer(request: urllib.request.Request, timeout: float) -> io.BytesIO:
        requests.append((request.full_url, request.data, request.get_header("Authorization")))
        return io.BytesIO(json.dumps({"access_token": f"t{len(requests)}", "expires_in": 300}).encode())

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    tokens = []
    for now_s in (1000.0, 1269.0, 1271.0):
        monkeypatch.setattr("clusters.kafka.access.time", SimpleNamespace(monotonic=lambda now_s=now_s: now_s))
        tokens.append(provider.token())

    assert tokens == ["t1", "t1", "t2"]
    form = b"grant_type=client_credentials&scope=kafka"
    assert requests == [("http://127.0.0.1:9/token", form, "Basic bWU6czM=")] * 2


def test_pem_files_and_texts_are_the_same(tmp_path: Path, pair: Pair) -> None:
    """A store may be a PEM file, or PEM in the settings (KIP-651)."""
    one_line = pair.certificate.replace("\n", " ")
    of_texts = access(
        tmp_path,
        "security.protocol=SSL",
        f"ssl.truststore.certificates={one_line}",
        f"ssl.keystore.certificate.chain={one_line}",
        f"ssl.keystore.key={pair.key.replace(chr(10), ' ')}",
    )
    files = access(
        tmp_path,
        "security.protocol=SSL",
        "ssl.truststore.location=ca.pem",
        "ssl.keystore.location=me.pem",
        files={"ca.pem": pair.certificate, "me.pem": pair.key + pair.certificate},
    )
    assert (of_texts.authorities, of_texts.identity) == (files.authorities, files.identity)
    assert files.context.cert_store_stats()["x509"] == 1
    assert of_texts.librdkafka()["ssl.ca.pem"] == of_texts.librdkafka()["ssl.certificate.pem"] == pair.certificate
    locations = {name: Path(text).name for name, text in files.librdkafka().items() if name.endswith("location")}
    assert locations == {"ssl.ca.location": "ca.pem"} | dict.fromkeys(
        ("ssl.certificate.location", "ssl.key.location"), "me.pem"
    )


@pytest.mark.parametrize(("kind", "key_password"), [("pkcs12", "secret"), ("jks", "secret"), ("jks", "of the key")])
def test_key_stores_are_opened(tmp_path: Path, pair: Pair, kind: str, key_password: str) -> None:
    """PKCS12 and JKS stores give the same chain and key as PEM; a key in JKS may have another password."""
    store = tmp_path / "store"
    store.write_bytes(pair.p12)
    if kind == "jks":
        keytool = str(java_of().home / "bin" / "keytool")
        command = [keytool, "-importkeystore", "-noprompt", "-srckeystore", str(store), "-destkeystore"]
        passwords = ["-srcstorepass", "secret", "-deststorepass", "secret"]
        made = [*command, str(tmp_path / "jks"), "-deststoretype", "JKS", *passwords]
        subprocess.run(made, check=True, capture_output=True, timeout=60)
        if key_password != "secret":
            change = [keytool, "-keypasswd", "-keystore", str(tmp_path / "jks"), "-storepass", "secret", "-alias"]
            change += ["client", "-keypass", "secret", "-new", key_password]
            subprocess.run(change, check=True, capture_output=True, timeout=60)
        store.write_bytes((tmp_path / "jks").read_bytes())
    lines = ("security.protocol=SSL", "ssl.keystore.location=store", "ssl.keystore.password=secret")
    found = access(tmp_path, *lines, f"ssl.key.password={key_password}").librdkafka()
    assert (found["ssl.key.pem"], found["ssl.certificate.pem"]) == (pair.key, pair.certificate)
    if key_password != "secret":
        with pytest.raises(BadInput, match="password is wrong"):
            access(tmp_path, *lines)


def test_an_encrypted_key_needs_its_password(tmp_path: Path, pair: Pair) -> None:
    """Both libraries get the password of an encrypted key; with a wrong one the settings are rejected."""
    encrypted = serialization.load_pem_private_key(pair.key.encode(), None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    store = {"me.pem": pair.certificate + encrypted.decode()}
    lines = ("security.protocol=SSL", "ssl.keystore.location=me.pem")
    found = access(tmp_path, *lines, "ssl.key.password=secret", files=store)

    assert found.context
    assert found.librdkafka()["ssl.key.password"] == "secret"
    for wrong in ("ssl.key.password=x", ""):
        with pytest.raises(BadInput, match=r"key cannot be read, or ssl\.key\.password is wrong"):
            access(tmp_path, *lines, wrong)


def test_a_host_name_need_not_match_if_so_set(tmp_path: Path, pair: Pair) -> None:
    """An empty ssl.endpoint.identification.algorithm ends the check of names, and only that."""
    trust = ("security.protocol=SSL", "ssl.truststore.location=ca.pem")
    unchecked = access(tmp_path, *trust, "ssl.endpoint.identification.algorithm=", files={"ca.pem": pair.certificate})
    assert unchecked.context.check_hostname is False
    assert unchecked.librdkafka()["ssl.endpoint.identification.algorithm"] == "none"
    assert access(tmp_path, *trust).context.check_hostname is True


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["security.protocol=TLS"], "security.protocol=TLS is not supported; PLAINTEXT, SSL"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=GSSAPI"], "sasl.mechanism=GSSAPI is not supported; PLAIN"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=AWS_MSK_IAM"], "AWS_MSK_IAM is not supported"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN"], "sasl.jaas.config is missing"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "sasl.jaas.config=X username=a;"], "has no password"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER", JAAS], "has no clientId and no clientSecret"),
        (["security.protocol=SSL", "ssl.truststore.location=missing"], "missing cannot be read: No such file"),
        (["security.protocol=SSL", "ssl.truststore.location=store"], "store is no PEM, PKCS12 or JKS store, or"),
        (["security.protocol=SSL", "ssl.keystore.location=store", "ssl.keystore.password=x"], "password is wrong"),
        (["security.protocol=SSL", "ssl.truststore.certificates=none"], "the trust store has no certificate"),
        (["security.protocol=SSL", "ssl.keystore.key=x", "ssl.keystore.certificate.chain=x"], "cannot be read, or ssl"),
    ],
)
def test_bad_settings_are_rejected(tmp_path: Path, pair: Pair, lines: list[str], says: str) -> None:
    """The message names the file, the setting and what is supported."""
    with pytest.raises(BadInput, match=says):
        access(tmp_path, *lines, files={"store": pair.p12})
