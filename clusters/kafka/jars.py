"""Fetch Kafka's jars from Maven Central, with pyspark's Ivy."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import subprocess
import warnings
import zipfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from clusters.paths import CACHE, aside, locked
from history.errors import BadInput, HarnessError
from history.folder import replacing
from history.java import java_of
from history.kafka_versions import DEFAULT_RELEASE, OLDEST, Version

log = logging.getLogger("plimsoll.jars")

AGENT, AGENT_VERSION = "jmx_prometheus_javaagent", "1.0.1"
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_VERSION = re.compile(r"\d+\.\d+\.\d+([.-][\w.-]+)?")
# Ivy reports "not found" also for failed access; then its output has one of these.
_UNREACHABLE = ("SERVER ERROR", "Server access error", "Host ")


def version_of(kafka: str) -> Version:
    """Parse a version such as ``3.9.1-SNAPSHOT``.

    Raises:
        BadInput: it is not a version, or older than 2.8.0.
    """
    if not _VERSION.fullmatch(kafka):
        raise no_version(kafka)
    version = Version.parse(kafka)
    if version < OLDEST:
        raise BadInput(f"KAFKA={kafka} is too old; {OLDEST} is the oldest that can be observed replica by replica.")
    return version


def is_release(kafka: str) -> bool:
    """Return whether ``KAFKA=`` looks like a release."""
    return _RELEASE.fullmatch(kafka) is not None


def no_version(kafka: str) -> BadInput:
    """Return the error for an invalid ``KAFKA=``."""
    return BadInput(
        f"KAFKA={kafka} is not a version; give a released one from 2.8.0 on, such as {DEFAULT_RELEASE}, a folder or an "
        "archive of jars, or image:<reference>."
    )


def kafka_jars(version: str) -> Path:
    """Return a release's class path folder, fetched once.

    Raises:
        BadInput: Maven Central has no such version.
        HarnessError: it could not be fetched, or is damaged.
    """
    if not is_release(version):
        raise no_version(version)
    version_of(version)
    folder = CACHE / "kafka" / version
    with locked(CACHE / "kafka" / f".{version}.lock"):
        if not folder.is_dir():
            _fetch(version, folder)
    return _whole(folder)


def metrics_agent() -> Path:
    """Return the Prometheus JMX agent's jar, fetched once."""
    folder = CACHE / "kafka" / f"jmx-{AGENT_VERSION}"
    with locked(CACHE / "kafka" / f".{folder.name}.lock"):
        if not folder.is_dir():
            log.info("fetching the Prometheus JMX agent %s from Maven Central, once", AGENT_VERSION)
            with aside(folder) as new:
                _retrieve("io.prometheus.jmx", AGENT, AGENT_VERSION, new)
    return _whole(folder) / f"{AGENT}-{AGENT_VERSION}.jar"


def tools_jars(version: str) -> Path:
    """Return the class path folder of a release's tools, fetched once.

    Raises:
        BadInput: Maven Central has no kafka-tools of that version; some arrive late.
    """
    if not is_release(version):
        raise no_version(version)
    folder = CACHE / "kafka" / f"tools-{version}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / "kafka" / f".{folder.name}.lock"):
        if not folder.is_dir():
            log.info("fetching the clients of Kafka %s from Maven Central, once", version)
            try:
                with aside(folder) as new:
                    _retrieve("org.apache.kafka", "kafka-tools", version, new)
            except BadInput:
                raise BadInput(
                    f"client: {version}: Maven Central has no kafka-tools of Kafka {version}; name another release."
                ) from None
    return _whole(folder)


def _whole(folder: Path) -> Path:
    """Return the folder: a broker reports a damaged jar only as a missing class.

    Raises:
        HarnessError: a jar is not a zip archive.
    """
    if damaged := [jar.name for jar in sorted(folder.glob("*.jar")) if not zipfile.is_zipfile(jar)]:
        raise HarnessError(
            f"{', '.join(damaged)} in {folder} cannot be read as a jar; remove that folder, and the "
            "next run fetches it again."
        )
    return folder


def jars_digest(jars: Iterable[Path]) -> str:
    """Return the SHA-256 over jars' names and contents."""
    digest = hashlib.sha256()
    for jar in sorted(jars):
        digest.update(jar.name.encode())
        digest.update(hashlib.sha256(jar.read_bytes()).digest())
    return digest.hexdigest()


def _fetch(version: str, folder: Path) -> None:
    log.info("fetching Kafka %s from Maven Central, once (5 to 40 s)", version)
    with aside(folder) as new:
        _retrieve("org.apache.kafka", "kafka_2.13", version, new)
        add_logging(new)


def add_logging(folder: Path) -> None:
    """Add slf4j's simple binding: without one brokers write no log."""
    api = next(folder.glob("slf4j-api-*.jar"))
    _retrieve("org.slf4j", "slf4j-simple", api.stem.removeprefix("slf4j-api-"), folder)


def _without_pom(cache: Path) -> list[str]:
    """Remove modules without a pom, for which Ivy would never fetch dependencies; return them."""
    found = [file for file in cache.glob("*/*/ivy-*.xml") if b'default="true"' in file.read_bytes()]
    for file in found:
        file.with_name(f"ivydata-{file.stem.removeprefix('ivy-')}.properties").unlink(missing_ok=True)
        file.unlink()
    return [f"{file.parent.parent.name}:{file.parent.name}:{file.stem.removeprefix('ivy-')}" for file in found]


def _trusted() -> list[str]:
    """Return the JVM flag to trust Python's authorities (SSL_CERT_FILE)."""
    file = os.environ.get("SSL_CERT_FILE")
    if not file:
        return []
    from cryptography.hazmat.primitives.serialization import NoEncryption
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
    from cryptography.utils import CryptographyDeprecationWarning
    from cryptography.x509 import load_pem_x509_certificates

    bundle = Path(file).read_bytes()
    store = CACHE / "java" / f"trusted-{hashlib.sha256(bundle).hexdigest()[:12]}.p12"
    if not store.is_file():
        store.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(category=CryptographyDeprecationWarning, action="ignore"):  # old serial numbers
            certificates = load_pem_x509_certificates(bundle)
        named = [PKCS12Certificate(certificate, b"%d" % n) for n, certificate in enumerate(certificates)]
        with replacing(store) as partial:
            partial.write_bytes(serialize_java_truststore(named, NoEncryption()))
    return [f"-Djavax.net.ssl.trustStore={store}"]


def _retrieve(organisation: str, module: str, version: str, folder: Path) -> None:
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise HarnessError("pyspark, whose Ivy fetches the jars, is not installed; run `make setup`.")
    (ivy,) = (Path(pyspark.origin).parent / "jars").glob("ivy-*.jar")
    with locked(CACHE / ".ivy.lock"):  # a half-done fetch looks like a missing pom
        done = subprocess.run(
            [
                *(java_of().command, *_trusted(), "-jar", str(ivy)),
                *("-dependency", organisation, module, version, "-confs", "default"),
                *("-cache", str(CACHE / "ivy"), "-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        half = _without_pom(CACHE / "ivy")
    if half:
        raise HarnessError(f"The pom of {', '.join(half)} did not arrive from Maven Central; try again.")
    if done.returncode == 0 and list(folder.glob(f"{module}-{version}.jar")):
        return
    output = done.stdout + done.stderr
    broken = [line.strip() for line in output.splitlines() if any(sign in line for sign in _UNREACHABLE)]
    if "not found" in output and not broken:
        raise BadInput(f"KAFKA={version}: Maven Central has no {organisation}:{module}:{version}.")
    why = broken[0] if broken else output[-800:].strip()
    raise HarnessError(
        f"Ivy could not fetch {organisation}:{module}:{version}: {why}; let this host reach Maven Central "
        "(docs/install.md describes proxies and certificates), or give KAFKA= a folder of jars."
    )
