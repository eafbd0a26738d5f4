"""Describe a cluster by a stored connection."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusters.attached.cluster_file import ClusterFile, Described, cluster_of
from clusters.kafka.security import LOGIN_MODULES
from history.errors import BadInput

CLIENT = Path("security", "client.properties")  # in a run's work/
_ENTRIES = sorted(ClusterFile.model_fields.keys() - {"addresses", "client"})
_PEM = {"ca": "truststore.certificates", "certificate": "keystore.certificate.chain", "key": "keystore.key"}


def described(name: str, extra: Any, address: str, login: str, password: str) -> Described:
    """Return a connection's cluster; ``address`` counts if ``extra`` has none.

    In ``extra``, names with a dot are settings of Java's clients or librdkafka, others entries of a cluster file.

    Raises:
        BadInput: brokers are missing, or an entry is wrong; shows no setting's value.
    """
    source = Path(f"connection {name}", "extra")  # rejects relative paths
    if not isinstance(extra, dict):
        raise BadInput(f"{source} is no JSON object.")
    entries = {key: value for key, value in extra.items() if "." not in key}
    if unknown := sorted(entries.keys() - _ENTRIES):
        raise BadInput(
            f"{source} has the unknown entry {unknown[0]}; known: {', '.join(_ENTRIES)}, and settings with a dot."
        )
    settings = {key: str(value) for key, value in extra.items() if "." in key and value is not None}
    servers = settings.pop("bootstrap.servers", address)
    entries.setdefault("bootstrap", [each.strip() for each in servers.split(",") if each.strip()])
    if not entries["bootstrap"]:
        raise BadInput(f"The connection {name} has no brokers; set bootstrap.servers in its extra, or host and port.")
    cluster = cluster_of(entries, source)
    for hook in cluster.hooks.values():
        if "/" in hook.run[0] and not Path(hook.run[0]).is_absolute():
            raise BadInput(f"{source}: the program {hook.run[0]} has no absolute path.")
    if any("${" in text for text in (login, password)):
        raise BadInput(f"{source}: login or password has ${{, which Kafka's clients interpret.")
    in_java = _in_java(settings, login, password)
    if login and not in_java.get("security.protocol", "").startswith("SASL"):
        raise BadInput(f"{source}: a login needs security.protocol, SASL_SSL or SASL_PLAINTEXT.")
    return Described(source, cluster.model_copy(update={"client": CLIENT if in_java else None}), in_java)


def _in_java(given: Mapping[str, str], login: str, password: str) -> dict[str, str]:
    """Return settings in Java's spelling."""
    settings = dict(given)
    for part, java in _PEM.items():
        file, text = (settings.pop(f"ssl.{part}.{form}", "") for form in ("location", "pem"))
        if file or text:
            settings[f"ssl.{java}"] = f"${{directory:{Path(file).parent}:{Path(file).name}}}" if file else text
            settings[f"ssl.{java.partition('.')[0]}.type"] = "PEM"
    if "security.protocol" in settings:
        settings["security.protocol"] = settings["security.protocol"].upper()
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        settings["ssl.endpoint.identification.algorithm"] = ""
    if "sasl.mechanisms" in settings:
        settings["sasl.mechanism"] = settings.pop("sasl.mechanisms")
    user, secret = settings.pop("sasl.username", ""), settings.pop("sasl.password", "")
    module = LOGIN_MODULES.get(settings.get("sasl.mechanism", ""))
    if module and (user := login or user):
        jaas = f"{module} required username={_quoted(user)} password={_quoted(password or secret)};"
        settings.setdefault("sasl.jaas.config", jaas)
    return settings


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
