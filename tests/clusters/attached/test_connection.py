"""Clusters that a connection describes: settings of Java and librdkafka, logins, and what is refused."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from clusters.attached.cluster_file import Described, access_of
from clusters.attached.connection import described
from clusters.kafka.access import Access, Login
from clusters.runtimes.ports import Endpoint
from history.errors import BadInput

HOOK = {"run": ["ssh", "{host}", "kill"]}
SECRET = "planted"
LOGS_IN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}


def of(extra: Any, address: str = "b1:9092", login: str = "", secret: str = "") -> Described:
    """Return the cluster of the connection ``staging``."""
    return described("staging", extra, address, login, secret)


def access(found: Described) -> Access:
    """Return its security settings."""
    assert found.access
    return found.access


def test_a_cluster_file_s_entries_are_those_of_a_connection() -> None:
    """Names without a dot are entries of a cluster file; without client settings the cluster is plaintext."""
    hooks = {"kill": HOOK, "start": {"run": ["/opt/start"]}}
    found = of({"allow": ["kill"], "hooks": hooks, "caps": {"partitions": 3}}, "b1:9092")
    file = found.cluster
    assert (file.bootstrap, file.allow, file.caps.partitions) == ([Endpoint("b1", 9092)], ["kill"], 3)
    assert file.hooks["start"].run == ["/opt/start"]
    assert (found.access, file.client) == (None, None)


@pytest.mark.parametrize("servers", [{"bootstrap.servers": "b2:9092, b3:9093"}, {"bootstrap": ["b2:9092", "b3:9093"]}])
def test_extra_s_brokers_come_before_the_host(servers: dict[str, Any]) -> None:
    """They are a text, as Kafka's clients have it, or a list."""
    assert of(servers).cluster.bootstrap == [Endpoint("b2", 9092), Endpoint("b3", 9093)]


@pytest.mark.parametrize(
    ("extra", "login", "secret"),
    [
        (LOGS_IN, "ann", 'a"b\\c'),
        ({**LOGS_IN, "sasl.username": "ann", "sasl.password": 'a"b\\c'}, "", ""),
        ({**LOGS_IN, "sasl.username": "ann", "sasl.password": "old"}, "", 'a"b\\c'),
        (
            {
                "security.protocol": "sasl_plaintext",
                "sasl.mechanisms": "SCRAM-SHA-512",
                "sasl.username": "ann",
                "group.id": "g",
                "enable.auto.commit": True,
            },
            "",
            'a"b\\c',
        ),
    ],
)
def test_a_login_is_that_of_the_connection_or_of_librdkafka(extra: dict[str, Any], login: str, secret: str) -> None:
    """The connection's own fields come first, and signs that JAAS quotes survive."""
    found = access(of(extra, login=login, secret=secret))
    assert found.login == Login("SCRAM-SHA-512", {"username": "ann", "password": 'a"b\\c'})


def test_a_login_in_java_s_spelling_stays() -> None:
    """A connection may have a whole ``sasl.jaas.config``."""
    jaas = 'x required username="ann" password="p";'
    assert access(of({**LOGS_IN, "sasl.jaas.config": jaas})).login == Login(
        "SCRAM-SHA-512", {"username": "ann", "password": "p"}
    )


def test_pem_files_of_librdkafka_are_java_s(tmp_path: Path) -> None:
    """Java's clients get references to the files, librdkafka the files."""
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    settings = of(
        {
            "security.protocol": "ssl",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "ssl.key.pem": "key",
            "ssl.endpoint.identification.algorithm": "none",
        }
    ).settings
    assert settings == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": f"${{directory:{tmp_path}:ca.pem}}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "key",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_settings_are_kept_in_the_runs_work_for_their_owner_alone(tmp_path: Path) -> None:
    """The run's clients read them there; the description that the plan has contains none."""
    found = of({**LOGS_IN}, login="ann", secret=SECRET)
    found.write_settings(tmp_path)
    file = tmp_path / "security" / "client.properties"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    kept = access_of(found.cluster, tmp_path)
    assert kept
    assert (kept.path, kept.login) == (file, access(found).login)
    assert SECRET not in found.cluster.model_dump_json() + repr(found)


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (["b1:9092"], "connection staging/extra is no JSON object."),
        ({"bootstrap.servers": ""}, "The connection staging has no brokers; set bootstrap.servers in its extra, or "),
        ({"bootstrap.servers": "b1"}, "connection staging/extra: bootstrap.0: 'b1' is no address such as "),
        ({"password": SECRET}, "connection staging/extra has the unknown entry password; known: allow, bootstrap, "),
        ({"client": "client.properties"}, "connection staging/extra has the unknown entry client; known: allow, "),
        ({"allow": ["kill"]}, "connection staging/extra: allow: kill needs hooks.kill; add kill: "),
        ({"hooks": {"logs": {"run": ["./logs"]}}}, "connection staging/extra: the program ./logs has no absolute "),
        ({"hooks": {"logs": {"run": "ssh {host}"}}}, "connection staging/extra: hooks.logs: no shell runs hooks; "),
    ],
)
def test_a_wrong_connection_is_one_sentence(extra: Any, sentence: str) -> None:
    """It names the entry, and shows no setting's value."""
    with pytest.raises(BadInput) as refused:
        of(extra)
    assert str(refused.value).startswith(sentence)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("extra", "login", "sentence"),
    [
        ({}, "ann", "a login needs security.protocol, SASL_SSL or SASL_PLAINTEXT."),
        ({**LOGS_IN, "security.protocol": "SSL"}, "ann", "a login needs security.protocol, SASL_SSL or "),
        (LOGS_IN, "", "sasl.jaas.config is missing."),
        (LOGS_IN, "ann${env:HOME}", "login or password has ${, which Kafka's clients interpret."),
        ({**LOGS_IN, "sasl.mechanism": "GSSAPI"}, "ann", "sasl.mechanism=GSSAPI is not supported; PLAIN, "),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "ca.pem"},
            "",
            "ssl.truststore.location=ca.pem cannot be read: No such file or directory.",
        ),
    ],
)
def test_a_wrong_login_is_one_sentence(extra: dict[str, Any], login: str, sentence: str) -> None:
    """Relative paths are rejected, since a connection has no folder."""
    with pytest.raises(BadInput) as refused:
        access(of(extra, login=login, secret=SECRET))
    assert str(refused.value).startswith(f"connection staging/extra: {sentence}")
    assert SECRET not in str(refused.value)
