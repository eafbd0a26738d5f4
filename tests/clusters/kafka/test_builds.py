"""Kafka from a folder, an archive or an image: what is taken, what it calls itself, and what is refused."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from clusters.kafka import builds
from clusters.kafka.builds import Build, build_of, reported_version
from clusters.runtimes.docker import kafka_images
from history.errors import BadInput


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, in which logging is added without a network."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(builds, "CACHE", folder)
    monkeypatch.setattr(builds, "add_logging", lambda jars: (jars / "slf4j-simple-1.7.36.jar").touch())
    monkeypatch.setattr(builds, "kafka_jars", lambda version: Path("/released") / version)
    return folder


def build(folder: Path, version: str = "4.4.0-SNAPSHOT", file_version: str | None = None) -> Path:
    """A folder of jars as a build leaves it; the client library reports ``version``, or nothing where it is empty."""
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / f"kafka-clients-{file_version or version}.jar", "w") as jar:
        jar.writestr("a.class", "")
        if version:
            jar.writestr("kafka/kafka-version.properties", f"commitId=1\nversion={version}\n")
    for name in (
        "kafka_2.13-4.4.0.jar",
        "kafka_2.13-4.4.0-sources.jar",
        "slf4j-api-1.7.36.jar",
        "slf4j-reload4j-1.jar",
    ):
        (folder / name).write_text(name)
    return folder


STAGED = ["kafka-clients-4.4.0-SNAPSHOT.jar", "kafka_2.13-4.4.0.jar", "slf4j-api-1.7.36.jar", "slf4j-simple-1.7.36.jar"]


def names(found: Build) -> list[str]:
    """The jars on its class path."""
    return sorted(jar.name for jar in found.jars.iterdir())


def archive(path: Path, folder: Path, below: str = "kafka_2.13-4.4.0") -> Path:
    """The folder's content as an archive."""
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, arcname=below)
    return path


def test_a_released_version_is_what_it_says() -> None:
    """And is fetched only when it is to be run."""
    assert reported_version("3.9.1") == "3.9.1"
    assert build_of("3.9.1") == Build(version="3.9.1", jars=Path("/released/3.9.1"))


@pytest.mark.parametrize("where", ["dist/libs", "dist"])
def test_a_folder_is_taken_with_our_logging(tmp_path: Path, where: str) -> None:
    """A distribution or a folder of jars; nothing but classes, and one binding of slf4j. It is copied once."""
    build(tmp_path / where)
    found = build_of(str(tmp_path / "dist"))

    assert (found.version, found.origin) == ("4.4.0-SNAPSHOT", "folder dist")
    assert names(found) == STAGED
    assert build_of(str(tmp_path / "dist")) == found
    assert (found.commit, build_of(str(found.jars)).jars) == ("1", found.jars)
    (tmp_path / where / "kafka_2.13-4.4.0.jar").write_text("built again")
    assert build_of(str(tmp_path / "dist")).jars != found.jars


@pytest.mark.parametrize("below", ["kafka_2.13-4.4.0/libs", "jars"])
def test_an_archive_is_taken_alike(tmp_path: Path, below: str) -> None:
    """Kafka's own layout, or just jars."""
    packed = archive(tmp_path / "trunk.tgz", build(tmp_path / "x"), below)
    found = build_of(str(packed))

    assert (found.version, found.origin, names(found)) == ("4.4.0-SNAPSHOT", "archive trunk.tgz", STAGED)


def test_of_a_distribution_only_its_libraries_count(tmp_path: Path) -> None:
    """An archive with libs may hold other jars elsewhere."""
    (build(tmp_path / "x" / "libs").parent / "site-docs.jar").write_text("no library")
    assert names(build_of(str(archive(tmp_path / "k.tgz", tmp_path / "x")))) == STAGED


def test_an_image_is_copied_out_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By its id, so that a tag that moves is another build."""
    packed = archive(tmp_path / "x.tar", build(tmp_path / "x"), "libs")
    copies: list[Any] = []

    def copy(reference: str, identity: str, target: Path) -> None:
        copies.append((reference, identity))
        target.write_bytes(packed.read_bytes())

    monkeypatch.setattr(kafka_images, "image_id", lambda _: "sha256:" + "ab" * 32)
    monkeypatch.setattr(kafka_images, "copy_out_of_image", copy)

    assert build_of("image:me/kafka:trunk") == build_of("image:me/kafka:trunk")
    assert copies == [("me/kafka:trunk", "sha256:" + "ab" * 32)]
    assert build_of("image:me/kafka:trunk").origin == "image me/kafka:trunk"


def test_without_a_report_the_name_of_the_jar_counts(tmp_path: Path) -> None:
    """As in some vendors' builds."""
    build(tmp_path / "dist", "", "3.9.9")
    assert reported_version(str(tmp_path / "dist")) == "3.9.9"


@pytest.mark.parametrize(
    "missing", ["kafka-clients-4.4.0-SNAPSHOT.jar", "kafka_2.13-4.4.0.jar", "slf4j-api-1.7.36.jar"]
)
def test_a_folder_that_is_no_kafka_is_refused(tmp_path: Path, cache: Path, missing: str) -> None:
    """Nothing stays behind that looks like one."""
    (build(tmp_path / "dist") / missing).unlink()

    with pytest.raises(BadInput, match=f"--kafka={tmp_path}/dist contains no Kafka: kafka_2.13"):
        build_of(str(tmp_path / "dist"))
    assert not [path for path in (cache / "kafka").iterdir() if not path.name.endswith(".lock")]


def test_a_build_before_2_8_is_refused(tmp_path: Path) -> None:
    """By what it reports."""
    build(tmp_path / "old", "2.7.2")
    with pytest.raises(BadInput, match=r"--kafka=2\.7\.2 is too old"):
        reported_version(str(tmp_path / "old"))


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    """Cut off, or no archive at all."""
    whole = archive(tmp_path / "k.tgz", build(tmp_path / "x")).read_bytes()
    (tmp_path / "cut.tgz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.tgz").write_text("hello")

    for name in ("cut.tgz", "text.tgz"):
        with pytest.raises(BadInput, match=f"{name} is not a readable archive"):
            build_of(str(tmp_path / name))


@pytest.mark.parametrize("kafka", ["missing/folder", "missing.tgz"])
def test_what_is_not_there_is_refused(kafka: str) -> None:
    """A name without a slash or an archive's ending is a version."""
    with pytest.raises(BadInput, match=f"--kafka={kafka}: there is no such folder or archive"):
        build_of(kafka)


def test_an_archive_writes_nowhere_but_into_its_class_path(tmp_path: Path, cache: Path) -> None:
    """Members above, at an absolute path, and links: of a jar only its name counts, and nothing else is taken."""
    build(tmp_path / "x" / "libs")
    packed, target = tmp_path / "evil.tgz", tmp_path / "target"
    target.mkdir()
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(tmp_path / "x", arcname="kafka")
        for name in ("../../libs/up.jar", f"{target}/libs/absolute.jar"):
            member = tarfile.TarInfo(name)
            member.size = 4
            tar.addfile(member, io.BytesIO(b"evil"))
        for kind, name in ((tarfile.SYMTYPE, "libs/link.jar"), (tarfile.LNKTYPE, "libs/hard.jar")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, str(target / "secret")
            tar.addfile(member)

    found = build_of(str(packed))

    assert set(names(found)) == {*STAGED, "up.jar", "absolute.jar"}
    assert not any(jar.is_symlink() for jar in found.jars.iterdir())
    assert list(target.rglob("*")) == []
    assert list(tmp_path.rglob("up.jar")) == list(cache.rglob("up.jar"))
