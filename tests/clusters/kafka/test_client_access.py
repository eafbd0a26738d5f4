"""Tests of clusters.kafka.client_access."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from clusters.kafka.client_access import ClientAccess
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


def access(folder: Path, *lines: str, files: Mapping[str, str | bytes] | None = None) -> ClientAccess:
    """Read settings from a file next to others."""
    for name, content in (files or {}).items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    path = folder / "client.properties"
    path.write_text("\n".join(lines))
    return ClientAccess(path, str(java_of().home / "bin" / "keytool"))


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
    assert of_texts.librdkafka() == files.librdkafka()
    assert files.context.cert_store_stats()["x509"] == 1


@pytest.mark.parametrize("kind", ["pkcs12", "jks"])
def test_key_stores_are_opened(tmp_path: Path, pair: Pair, kind: str) -> None:
    """PKCS12 and JKS stores give the same chain and key as PEM."""
    store = tmp_path / "store"
    store.write_bytes(pair.p12)
    if kind == "jks":
        keytool = str(java_of().home / "bin" / "keytool")
        command = [keytool, "-importkeystore", "-noprompt", "-srckeystore", str(store), "-destkeystore"]
        passwords = ["-srcstorepass", "secret", "-deststorepass", "secret"]
        made = [*command, str(tmp_path / "jks"), "-deststoretype", "JKS", *passwords]
        subprocess.run(made, check=True, capture_output=True, timeout=60)
        store.write_bytes((tmp_path / "jks").read_bytes())
    found = access(
        tmp_path, "security.protocol=SSL", "ssl.keystore.location=store", "ssl.keystore.password=secret"
    ).librdkafka()
    assert (found["ssl.key.pem"], found["ssl.certificate.pem"]) == (pair.key, pair.certificate)


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
    ],
)
def test_bad_settings_are_rejected(tmp_path: Path, pair: Pair, lines: list[str], says: str) -> None:
    """The message names the file, the setting and what is supported."""
    with pytest.raises(BadInput, match=says):
        access(tmp_path, *lines, files={"store": pair.p12})
