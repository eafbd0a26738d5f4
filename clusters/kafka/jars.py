"""Fetch Kafka's jars from Maven Central, each verified against ``jars.lock``."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from clusters.paths import CACHE, locked, staged_folder
from history.errors import BadInput, BadKafka, HarnessError
from history.folder import sha256_of
from history.kafka_versions import DEFAULT_RELEASE, OLDEST, Version
from history.remote import AT_ONCE

log = logging.getLogger("plimsoll.jars")

SHARED = CACHE / "jars"
CENTRAL = "https://repo1.maven.org/maven2"
LOCK = Path(__file__).with_name("jars.lock")
AGENT, AGENT_VERSION = "jmx_prometheus_javaagent", "1.0.1"
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_VERSION = re.compile(r"\d+\.\d+\.\d+([.-][\w.-]+)?")
_SILENCE_S, _LIMIT_S = 30, 300


def version_of(kafka: str) -> Version:
    """Parse a version such as ``3.9.1-SNAPSHOT``.

    Raises:
        BadKafka: it is not a version, or older than 2.8.0.
    """
    if not _VERSION.fullmatch(kafka):
        raise no_version(kafka)
    version = Version.parse(kafka)
    if version < OLDEST:
        raise BadKafka(kafka, f" is too old; {OLDEST} is the oldest that can be observed replica by replica.")
    return version


def is_release(kafka: str) -> bool:
    """Return whether ``--kafka`` looks like a release."""
    return _RELEASE.fullmatch(kafka) is not None


def no_version(kafka: str) -> BadKafka:
    """Return the error for an invalid ``--kafka``."""
    return BadKafka(
        kafka,
        f" is not a version; give a released one from 2.8.0 on, such as {DEFAULT_RELEASE}, a folder or an archive of "
        "jars, or image:<reference>.",
    )


def kafka_jars(version: str) -> Path:
    """Return a release's class path folder, fetched once.

    Raises:
        BadKafka: the lock file has no such version.
        HarnessError: it could not be fetched, or is damaged.
    """
    if not is_release(version):
        raise no_version(version)
    version_of(version)
    if version not in locked_jars():
        raise BadKafka(
            version,
            f": {LOCK.name} has no digests of it; if Maven Central has that release, add them with "
            f"`.venv/bin/python -m clusters.kafka.jars_lock {version}`, else name another one or a folder of jars.",
        )
    return _fetched(version, f"Kafka {version}")


def metrics_agent() -> Path:
    """Return the Prometheus JMX agent's jar, fetched once."""
    folder = _fetched(f"jmx-{AGENT_VERSION}", f"the Prometheus JMX agent {AGENT_VERSION}")
    return folder / f"{AGENT}-{AGENT_VERSION}.jar"


def tools_jars(version: str) -> Path:
    """Return the class path folder of a release's tools, fetched once.

    Raises:
        BadInput: Maven Central has no kafka-tools of that version; some arrive late.
    """
    if not is_release(version):
        raise no_version(version)
    if f"tools-{version}" not in locked_jars():
        raise BadInput(f"client: {version}: {LOCK.name} has no kafka-tools of Kafka {version}; name another release.")
    return _fetched(f"tools-{version}", f"the clients of Kafka {version}")


@cache
def locked_jars() -> dict[str, dict[str, str]]:
    """Return the SHA-256 of jars by path in Maven Central, of each folder in ``.cache/kafka``."""
    locked_by_folder: dict[str, dict[str, str]] = json.loads(LOCK.read_text())
    return locked_by_folder


def _fetched(name: str, what: str) -> Path:
    """Return a folder of the lock file, fetched once.

    Raises:
        HarnessError: a jar differs from the lock file; a broker would report only a missing class.
    """
    folder, jars = CACHE / "kafka" / name, locked_jars()[name]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(SHARED / ".lock"):
            _fetch(folder, jars, what)
    found = {(jar.name, sha256_of(jar)) for jar in folder.glob("*.jar")}
    if differing := {jar for jar, _ in found ^ {(Path(path).name, digest) for path, digest in jars.items()}}:
        raise HarnessError(
            f"{', '.join(sorted(differing))} in {folder} differs from {LOCK.name}; remove that folder, and the next "
            "run fetches it again."
        )
    return folder


def _fetch(folder: Path, jars: dict[str, str], what: str) -> None:
    if folder.is_dir():  # fetched while this process waited
        return
    log.info("fetching %s from Maven Central, once (5 to 40 s)", what)
    with staged_folder(folder) as new, ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda path: _copy(path, jars[path], new), jars))


def add_logging(folder: Path) -> None:
    """Add slf4j's simple binding, of the API's version or major version: without one brokers write no log."""
    api = next(folder.glob("slf4j-api-*.jar")).stem.removeprefix("slf4j-api-")
    line = f"org/slf4j/slf4j-simple/{api.partition('.')[0]}."
    bindings = dict(jar for jars in locked_jars().values() for jar in jars.items() if jar[0].startswith(line))
    if not bindings:
        raise BadInput(f"{LOCK.name} has no slf4j-simple for slf4j-api {api}; use a build with slf4j 1.7 or 2.0.")
    path = max(bindings, key=lambda each: (f"/{api}/" in each, Version.parse(each)))
    with locked(SHARED / ".lock"):
        _copy(path, bindings[path], folder)


def _copy(path: str, digest: str, folder: Path) -> None:
    """Copy a jar, which is fetched once for all folders, into a folder.

    Raises:
        HarnessError: no try brought a file with the digest.
    """
    shared = SHARED / Path(path).name
    if not (shared.is_file() and sha256_of(shared) == digest):
        try:
            _download(f"{CENTRAL}/{path}", digest, shared)
        except (OSError, HTTPException) as error:
            raise HarnessError(
                f"{CENTRAL}/{path} could not be fetched: expected the SHA-256 {digest}, but {error}; let "
                "this host reach Maven Central (docs/install.md describes proxies and certificates), or give --kafka a "
                "folder of jars."
            ) from error
    shutil.copyfile(shared, folder / shared.name)


@retry(
    stop=stop_after_attempt(3),
    wait=wait_exponential(),
    retry=retry_if_exception_type((OSError, HTTPException)),
    reraise=True,
)
def _download(address: str, digest: str, target: Path) -> None:
    end, came, partial = time.monotonic() + _LIMIT_S, hashlib.sha256(), target.with_name(f".{target.name}")
    with urlopen(address, timeout=_SILENCE_S) as answer, partial.open("wb") as file:
        while block := answer.read(1 << 20):
            if time.monotonic() > end:
                raise TimeoutError(f"it took longer than {_LIMIT_S} s")
            file.write(block)
            came.update(block)
    if came.hexdigest() != digest:
        raise HTTPException(f"{partial.stat().st_size} bytes with the SHA-256 {came.hexdigest()} came")
    partial.rename(target)


def jars_digest(jars: Iterable[Path]) -> str:
    """Return the SHA-256 over jars' names and contents."""
    digest = hashlib.sha256()
    for jar in sorted(jars):
        digest.update(jar.name.encode())
        digest.update(bytes.fromhex(sha256_of(jar)))
    return digest.hexdigest()
