"""Resolve ``--kafka``: a released version, a folder or archive of jars, or an image."""

from __future__ import annotations

import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from clusters.kafka.jars import (
    add_logging,
    is_release,
    jars_digest,
    kafka_jars,
    no_version,
    version_of,
)
from clusters.paths import CACHE, is_file, is_folder, locked, staged_folder
from history.errors import BadKafka
from history.folder import sha256_of
from history.kafka_versions import DEFAULT_RELEASE
from history.scratch import scratch

IMAGE = "image:"
OWN = "own-"
_ARCHIVES = (".tgz", ".tar.gz", ".tar")
_SERVER = re.compile(r"kafka_2\.1[23]-\d[\w.-]*\.jar")
_CLIENTS = re.compile(r"kafka-clients-(\d[\w.-]*)\.jar")
_NO_CLASSES = re.compile(r"-(sources|javadoc|scaladoc|test|test-sources)\.jar$")
# slf4j picks any of several bindings; the run parses the lines of slf4j-simple.
_BINDINGS = ("log4j-slf4j", "logback-classic", "slf4j-jdk14", "slf4j-log4j12", "slf4j-nop", "slf4j-reload4j")


class Build(BaseModel):
    """A Kafka that can be started; a release's ``origin`` is None."""

    model_config = ConfigDict(frozen=True)

    version: str
    jars: Path
    origin: str | None = None
    commit: str = ""


def reported_version(kafka: str) -> str:
    """Return a version, folder, archive or image's version without fetching a release."""
    if is_release(kafka):
        version_of(kafka)
        return kafka
    return build_of(kafka).version


def build_of(kafka: str) -> Build:
    """Return the build of ``--kafka``, with its class path in ``.cache/kafka``.

    Raises:
        BadKafka: it is not a Kafka, or older than 2.8.0.
        HarnessError: a part could not be fetched.
    """
    if kafka.startswith(IMAGE):
        return _of_image(kafka)
    if is_release(kafka):
        return Build(version=kafka, jars=kafka_jars(kafka))
    path = _path(kafka)
    if is_folder(path):
        return _of_folder(kafka, path)
    if is_file(path):
        return _of_archive(kafka, path)
    if not (kafka.endswith(_ARCHIVES) or "/" in kafka):
        raise no_version(kafka)
    raise BadKafka(
        kafka, f": there is no such folder or archive; name one, or a released version such as {DEFAULT_RELEASE}."
    )


def has_class(jars: Path, name: str) -> bool:
    """Return whether a jar of the folder has the class."""
    entry = f"{name.replace('.', '/')}.class"
    for jar in sorted(jars.glob("*.jar")):
        with zipfile.ZipFile(jar) as archive:
            if entry in archive.NameToInfo:
                return True
    return False


def _path(kafka: str) -> Path:
    try:
        return Path(kafka).expanduser()
    except RuntimeError:
        return Path(kafka)


def _of_folder(kafka: str, folder: Path) -> Build:
    if folder.resolve().parent == (CACHE / "kafka").resolve() and folder.name.startswith(OWN):
        return _build(kafka, folder, f"folder {folder.name}")
    jars = _jars(folder / "libs") or _jars(folder)
    key = jars_digest(jars)
    return _staged(kafka, key, f"folder {folder.resolve().name}", lambda into: _copy(jars, into))


def _jars(folder: Path) -> list[Path]:
    return [jar for jar in sorted(folder.glob("*.jar")) if not _NO_CLASSES.search(jar.name)]


def _copy(jars: Iterable[Path], into: Path) -> None:
    for jar in jars:
        shutil.copyfile(jar, into / jar.name)


def _of_archive(kafka: str, archive: Path) -> Build:
    return _staged(kafka, sha256_of(archive), f"archive {archive.name}", lambda into: _extract(kafka, archive, into))


def _of_image(kafka: str) -> Build:
    from clusters.runtimes.docker.kafka_images import copy_out_of_image, image_id

    reference = kafka.removeprefix(IMAGE)
    identity = image_id(reference)

    def fill(into: Path) -> None:
        with scratch() as folder:
            copy_out_of_image(reference, identity, folder / "image.tar")
            _extract(kafka, folder / "image.tar", into)

    return _staged(kafka, identity.rpartition(":")[2], f"image {reference}", fill)


def _extract(kafka: str, archive: Path, into: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            members = [member for member in tar.getmembers() if member.isfile() and member.name.endswith(".jar")]
            libs = [member for member in members if Path(member.name).parent.name == "libs"]
            for member in libs or members:
                source = tar.extractfile(member)
                if source is not None and not _NO_CLASSES.search(member.name):
                    with (into / Path(member.name).name).open("wb") as target:
                        shutil.copyfileobj(source, target)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        why = " ".join(str(error).split())
        raise BadKafka(kafka, f" is not a readable archive ({why}); give a .tgz like Kafka's own.") from error


def _staged(kafka: str, key: str, origin: str, fill: Callable[[Path], None]) -> Build:
    folder = CACHE / "kafka" / f"{OWN}{key[:16]}"
    with locked(CACHE / "kafka" / f".{folder.name}.lock"):
        if not folder.is_dir():
            with staged_folder(folder) as new:
                fill(new)
                version_of(_build(kafka, new, origin).version)
                for jar in new.glob("*.jar"):
                    if jar.name.startswith((*_BINDINGS, "slf4j-simple")):
                        jar.unlink()
                add_logging(new)
    return _build(kafka, folder, origin)


def _build(kafka: str, folder: Path, origin: str) -> Build:
    clients = next((jar for jar in folder.glob("*.jar") if _CLIENTS.fullmatch(jar.name)), None)
    servers = [jar for jar in folder.glob("*.jar") if _SERVER.fullmatch(jar.name)]
    if clients is None or not servers or not list(folder.glob("slf4j-api-*.jar")):
        raise BadKafka(
            kafka,
            " contains no Kafka: kafka_2.13-….jar, kafka-clients-….jar and slf4j-api-….jar are needed, "
            "in it or in its folder libs.",
        )
    try:
        with zipfile.ZipFile(clients) as jar:
            properties = jar.read("kafka/kafka-version.properties").decode()
    except (zipfile.BadZipFile, KeyError):
        properties = ""
    found = dict(re.findall(r"^(version|commitId)=(\S+)$", properties, re.MULTILINE))
    named = _CLIENTS.fullmatch(clients.name)
    version = found.get("version") or (named[1] if named else "")
    return Build(version=version, jars=folder, origin=origin, commit=found.get("commitId", ""))
