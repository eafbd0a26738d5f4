"""Secrets of made clusters: brokers' settings, and what clients read from their client.properties."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from confluent_kafka import Producer

from clusters.kafka.access import Access
from clusters.kafka.security import USER, Secrets

LISTENERS = ("CLIENT", "PROBE")


def created(folder: Path, tls: str | None, sasl: str | None) -> Secrets:
    """Return the secrets of a run with a broker and a producer."""
    folder.mkdir(exist_ok=True)
    made = Secrets(folder / "security", tls, sasl)
    made.create({"broker-1": "127.0.0.1", "p1": "127.0.0.2"})
    return made


def access(folder: Path, tls: str | None, sasl: str | None) -> Access:
    """Return the producer's access to such a run."""
    return Access(created(folder, tls, sasl).client_file("p1"))


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
    settings = Secrets(tmp_path, tls, sasl).broker_settings("broker-1", LISTENERS, plaintext=["CONTROLLER"])

    protocols = f"CLIENT:{protocol},PROBE:{protocol},CONTROLLER:PLAINTEXT"
    assert settings["listener.security.protocol.map"] == protocols
    assert {settings.get(f"listener.name.{name.lower()}.ssl.client.auth") for name in LISTENERS} == {client_auth}
    assert settings.get("sasl.mechanism.inter.broker.protocol") == sasl


@pytest.mark.parametrize(("sasl", "users"), [("PLAIN", True), ("SCRAM-SHA-512", False)])
def test_brokers_read_secrets_from_their_files(tmp_path: Path, sasl: str, users: bool) -> None:
    """Broker settings refer to secret files and contain no secret; they list users for PLAIN, not for SCRAM."""
    made = created(tmp_path, "mutual", sasl)
    settings = made.broker_settings("broker-1", LISTENERS, plaintext=())
    jaas = settings[f"listener.name.client.{sasl.lower()}.sasl.jaas.config"]

    assert f'password="${{directory:{made.folder}:password}}"' in jaas
    assert settings["ssl.keystore.key"] == f"${{directory:{made.folder}:broker-1.pem}}"
    assert (f"user_{USER}=" in jaas) is users
    assert made.password() not in str(settings)
    assert made.password() not in repr(made)


def test_java_clients_read_secrets_from_their_files(tmp_path: Path) -> None:
    """Settings of Java clients refer to secret files and contain no secret."""
    found = access(tmp_path, "mutual", "SCRAM-SHA-512")
    folder, settings = found.path.parent, found.java()

    assert (settings["security.protocol"], settings["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert f'password="${{directory:{folder}:password}}";' in settings["sasl.jaas.config"]
    assert settings["ssl.keystore.key"] == f"${{directory:{folder}:p1.pem}}"
    assert settings["config.providers"] == "directory"
    assert (folder / "password").read_text() not in str(settings)


@pytest.mark.parametrize(("tls", "missing"), [("one_way", {"ssl.keystore.key", "sasl.mechanism"}), (None, {"ssl."})])
def test_a_client_has_what_its_protocol_needs(tmp_path: Path, tls: str | None, missing: set[str]) -> None:
    """Without mutual TLS a client shows no certificate; without SASL it has no login."""
    settings = access(tmp_path, tls, None if tls else "PLAIN").java()

    assert [name for name in settings if name.startswith(tuple(missing))] == []


def test_secrets_are_their_owners_alone(tmp_path: Path) -> None:
    """Only the owner can read the folder, the password, keys and client settings."""
    folder = created(tmp_path, "mutual", "PLAIN").folder
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {name for name, mode in modes.items() if mode != 0o600} == {"authority.pem"}
    assert {"password", "p1.pem", "p1.properties"} <= modes.keys()


@pytest.mark.parametrize("tls", [None, "one_way", "mutual"])
@pytest.mark.parametrize("sasl", [None, "PLAIN", "SCRAM-SHA-512"])
def test_librdkafka_takes_its_settings(tmp_path: Path, tls: str | None, sasl: str | None) -> None:
    """librdkafka accepts its settings, including certificate and key, at construction."""
    found = access(tmp_path, tls, sasl)
    settings = found.librdkafka()

    assert Producer(settings) is not None
    assert ("ssl.ca.location" in settings) is (tls is not None)
    assert ("ssl.key.location" in settings) is (tls == "mutual")
    assert "PRIVATE KEY" not in str(settings)
    assert settings.get("sasl.password") == ((found.path.parent / "password").read_text() if sasl else None)


def test_kafka_python_is_told_by_its_own_names(tmp_path: Path) -> None:
    """kafka-python gets its settings under its own names; its TLS context trusts only the run's authority."""
    found = access(tmp_path, "one_way", "SCRAM-SHA-512")
    settings = found.kafka_python()

    (authority,) = settings.pop("ssl_context").get_ca_certs()
    assert authority["subject"] == ((("commonName", "authority"),),)
    assert settings == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": USER,
        "sasl_plain_password": (found.path.parent / "password").read_text(),
    }


def test_a_conversation_begins_by_the_mechanisms_rules(tmp_path: Path) -> None:
    """PLAIN starts with user and password (RFC 4616), SCRAM with user and nonce (RFC 5802)."""
    plain, scram = (access(tmp_path / sasl, None, sasl) for sasl in ("PLAIN", "SCRAM-SHA-512"))
    password = (plain.path.parent / "password").read_text()

    assert plain.conversation().auth_bytes().split(b"\0")[1:] == [USER.encode(), password.encode()]
    assert scram.conversation().auth_bytes().startswith(f"n,,n={USER},r=".encode())
