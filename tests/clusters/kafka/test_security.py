"""TLS and SASL settings of brokers and client libraries."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from confluent_kafka import Producer

from clusters.kafka.certificates import issue
from clusters.kafka.security import USER, Access

LISTENERS = ("CLIENT", "PROBE")


def access(folder: Path, tls: str | None, sasl: str | None) -> Access:
    """Return a broker's access with the password ``s3cret``."""
    found = Access("broker-1", str(folder), tls, sasl)
    found.write_password("s3cret")
    return found


@pytest.mark.parametrize(
    ("tls", "sasl", "protocol", "client_auth"),
    [
        ("one_way", None, "SSL", "none"),
        ("mutual", None, "SSL", "required"),
        ("mutual", "PLAIN", "SASL_SSL", "required"),
        (None, "SCRAM-SHA-512", "SASL_PLAINTEXT", None),
    ],
)
def test_every_listener_of_a_broker_is_secured_alike(
    tmp_path: Path, tls: str | None, sasl: str | None, protocol: str, client_auth: str | None
) -> None:
    """All listeners of a broker have the same security, except those listed as plaintext."""
    settings = access(tmp_path, tls, sasl).broker_settings(LISTENERS, plaintext=["CONTROLLER"])

    protocols = f"CLIENT:{protocol},PROBE:{protocol},CONTROLLER:PLAINTEXT"
    assert settings["listener.security.protocol.map"] == protocols
    assert {settings.get(f"listener.name.{name.lower()}.ssl.client.auth") for name in LISTENERS} == {client_auth}
    assert settings.get("sasl.mechanism.inter.broker.protocol") == sasl


@pytest.mark.parametrize(("sasl", "users"), [("PLAIN", True), ("SCRAM-SHA-512", False)])
def test_brokers_read_secrets_from_their_files(tmp_path: Path, sasl: str, users: bool) -> None:
    """Broker settings refer to secret files and contain no secret; they list users for PLAIN, not for SCRAM."""
    found = access(tmp_path, "mutual", sasl)
    settings = found.broker_settings(LISTENERS, plaintext=())
    jaas = settings[f"listener.name.client.{sasl.lower()}.sasl.jaas.config"]

    assert f'password="${{directory:{tmp_path}:password}}"' in jaas
    assert settings["ssl.keystore.key"] == f"${{directory:{tmp_path}:broker-1.pem}}"
    assert (f"user_{USER}=" in jaas) is users
    assert "s3cret" not in str(settings)
    assert "s3cret" not in repr(found)


def test_java_clients_read_secrets_from_their_files(tmp_path: Path) -> None:
    """Settings of Java clients refer to secret files and contain no secret."""
    settings = access(tmp_path, "mutual", "SCRAM-SHA-512").java()

    assert (settings["security.protocol"], settings["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert f'password="${{directory:{tmp_path}:password}}";' in settings["sasl.jaas.config"]
    assert settings["ssl.keystore.key"] == f"${{directory:{tmp_path}:broker-1.pem}}"
    assert settings["config.providers"] == "directory"
    assert "s3cret" not in str(settings)
    assert Access("broker-1", str(tmp_path), tls="one_way").java().keys().isdisjoint({"sasl.mechanism"})


def test_the_password_is_its_owners_alone(tmp_path: Path) -> None:
    """Only the owner can read the password file."""
    found = access(tmp_path, None, "PLAIN")

    assert found.password() == "s3cret"
    assert stat.S_IMODE((tmp_path / "password").stat().st_mode) == 0o600


@pytest.mark.parametrize("tls", [None, "one_way", "mutual"])
@pytest.mark.parametrize("sasl", [None, "PLAIN", "SCRAM-SHA-512"])
def test_librdkafka_takes_its_settings(tmp_path: Path, tls: str | None, sasl: str | None) -> None:
    """librdkafka accepts its settings, including certificate and key, at construction."""
    issue(tmp_path, {"broker-1": "127.0.0.1"})
    settings = access(tmp_path, tls, sasl).librdkafka()

    assert Producer(settings) is not None
    assert ("ssl.key.location" in settings) is (tls == "mutual")
    assert settings.get("sasl.password") == ("s3cret" if sasl else None)


def test_kafka_python_is_told_by_its_own_names(tmp_path: Path) -> None:
    """kafka-python gets its settings under its own names; its TLS context trusts only the run's authority."""
    issue(tmp_path, {"broker-1": "127.0.0.1"})
    settings = access(tmp_path, "one_way", "SCRAM-SHA-512").kafka_python()

    (authority,) = settings.pop("ssl_context").get_ca_certs()
    assert authority["subject"] == ((("commonName", "authority"),),)
    assert settings == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": USER,
        "sasl_plain_password": "s3cret",
    }


def test_a_conversation_begins_by_the_mechanisms_rules(tmp_path: Path) -> None:
    """PLAIN starts with user and password (RFC 4616), SCRAM with user and nonce (RFC 5802)."""
    plain, scram = (access(tmp_path, None, sasl).conversation() for sasl in ("PLAIN", "SCRAM-SHA-512"))

    assert plain.auth_bytes().split(b"\0")[1:] == [USER.encode(), b"s3cret"]
    assert scram.auth_bytes().startswith(f"n,,n={USER},r=".encode())
