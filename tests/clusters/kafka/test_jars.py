"""Kafka's jars: which versions are accepted, and how they are downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from clusters.kafka import jars
from clusters.kafka.jars import jars_digest, kafka_jars, metrics_agent, tools_jars, version_of
from history.errors import BadInput, HarnessError
from tests.clusters.fakes import A_JAVA


@pytest.mark.parametrize(
    ("version", "parts"),
    [("2.8.0", (2, 8, 0)), ("3.9.1", (3, 9, 1)), ("4.10.2", (4, 10, 2)), ("4.4.0-SNAPSHOT", (4, 4, 0))],
)
def test_a_version_is_three_numbers(version: str, parts: tuple[int, int, int]) -> None:
    """A version is compared by its three numbers, so 4.10 is newer than 4.9."""
    assert version_of(version) == parts


@pytest.mark.parametrize("version", ["", "3.9", "3.9.1-rc1", "v3.9.1", "latest", "3.9.1 ", "../3.9.1"])
def test_what_is_no_version_is_refused(version: str) -> None:
    """A malformed version is rejected with the value and the allowed forms."""
    with pytest.raises(BadInput) as refused:
        kafka_jars(version)
    assert str(refused.value) == (
        f"KAFKA={version} is not a version; give a released one from 2.8.0 on, such as 4.4.0, a folder or an archive "
        "of jars, or image:<reference>."
    )


@pytest.mark.parametrize("version", ["", "trunk", "4"])
def test_a_build_must_tell_its_version(version: str) -> None:
    """A build without a full version is rejected, since rules depend on the version."""
    with pytest.raises(BadInput, match="is not a version"):
        version_of(version)


@pytest.mark.parametrize("version", ["2.7.2", "0.11.0", "1.1.1"])
def test_a_version_before_2_8_is_refused(version: str) -> None:
    """Versions before 2.8.0 are rejected: their Fetch response does not have both offsets of a replica."""
    with pytest.raises(BadInput, match=f"KAFKA={version} is too old; 2.8.0 is the oldest"):
        version_of(version)


def write_jar(path: Path) -> None:
    """Write a jar with one file."""
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("version", path.stem)


@pytest.fixture
def ivy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Replaces Ivy with a function that writes the requested jars; lists the commands."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        at = command.index("-dependency")
        module, version = command[at + 2], command[at + 3]
        pattern = Path(command[command.index("-retrieve") + 1])
        write_jar(pattern.parent / f"{module}-{version}.jar")
        if module == "kafka_2.13":
            write_jar(pattern.parent / "slf4j-api-1.7.36.jar")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(jars, "CACHE", tmp_path)
    monkeypatch.setattr(jars, "java_of", lambda: A_JAVA)
    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_jars_are_fetched_once(ivy: list[list[str]], tmp_path: Path) -> None:
    """Jars are downloaded once, with an slf4j binding of the version of slf4j-api, and leave no temporary files."""
    folder = kafka_jars("3.9.1")

    assert kafka_jars("3.9.1") == folder == tmp_path / "kafka" / "3.9.1"
    assert len(ivy) == 2
    assert sorted(jar.name for jar in folder.iterdir()) == [
        "kafka_2.13-3.9.1.jar",
        "slf4j-api-1.7.36.jar",
        "slf4j-simple-1.7.36.jar",
    ]
    assert sorted(path.name for path in folder.parent.iterdir()) == [".3.9.1.lock", "3.9.1"]


@pytest.mark.usefixtures("ivy")
def test_a_jar_that_was_cut_is_named() -> None:
    """A truncated jar is named with the remedy, and after the remedy the download works."""
    folder = kafka_jars("3.9.1")
    jar = folder / "kafka_2.13-3.9.1.jar"
    os.truncate(jar, jar.stat().st_size - 1)

    with pytest.raises(HarnessError) as damaged:
        kafka_jars("3.9.1")
    assert str(damaged.value) == (
        f"kafka_2.13-3.9.1.jar in {folder} cannot be read as a jar; remove that folder, and the next "
        "run fetches it again."
    )
    shutil.rmtree(folder)
    assert kafka_jars("3.9.1") == folder


def test_two_versions_are_fetched_one_after_the_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Downloads of two versions run one after the other, since they share Ivy's cache."""
    under_way: list[str] = []
    most = 0

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        nonlocal most
        under_way.append(command[-1])
        most = max(most, len(under_way))
        never.wait(0.2)  # time for the other one to begin
        under_way.pop()
        return subprocess.CompletedProcess(command, 1, "", "Server access error")

    never = Event()
    monkeypatch.setattr(jars, "CACHE", tmp_path)
    monkeypatch.setattr(jars, "java_of", lambda: A_JAVA)
    monkeypatch.setattr(subprocess, "run", run)
    with ThreadPoolExecutor() as pool:
        fetches = [pool.submit(kafka_jars, version) for version in ("3.9.1", "4.3.1")]
        assert [type(fetch.exception()) for fetch in fetches] == [HarnessError] * 2
    assert most == 1


@pytest.mark.usefixtures("ivy")
def test_a_pom_that_did_not_arrive_is_asked_for_again(tmp_path: Path) -> None:
    """If a pom was not downloaded, Ivy's substitute is removed from its cache, so the next attempt works."""
    module = tmp_path / "ivy" / "org.apache.kafka" / "kafka_2.13"
    module.mkdir(parents=True)
    for name, text in (
        ("ivy-3.9.1.xml", '<info default="true"'),
        ("ivy-3.9.0.xml", "<info"),
        ("ivydata-3.9.1.properties", ""),
    ):
        (module / name).write_text(text)

    with pytest.raises(HarnessError, match=r"The pom of org\.apache\.kafka:kafka_2\.13:3\.9\.1 did not arrive"):
        kafka_jars("3.9.1")
    assert [file.name for file in module.iterdir()] == ["ivy-3.9.0.xml"]
    assert kafka_jars("3.9.1").is_dir()


def test_the_agent_is_fetched_once(ivy: list[list[str]], tmp_path: Path) -> None:
    """The metrics agent is downloaded once, into a folder that is on no class path."""
    jar = metrics_agent()

    assert metrics_agent() == jar
    assert len(ivy) == 1
    assert jar.is_file()
    assert jar.parent.parent == tmp_path / "kafka"


@pytest.mark.usefixtures("ivy")
def test_a_release_whose_tools_are_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A client release without a kafka-tools jar is rejected and leaves no folder; others have their own folder."""
    folder = tools_jars("3.9.1")
    no = "org.apache.kafka#kafka-tools;4.4.0: not found"
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1, no, ""))

    with pytest.raises(BadInput, match=r"^client: 4\.4\.0: Maven Central has no kafka-tools .* name another release"):
        tools_jars("4.4.0")
    assert folder == tmp_path / "kafka" / "tools-3.9.1"
    assert not (tmp_path / "kafka" / "tools-4.4.0").exists()


@pytest.mark.parametrize(
    ("output", "error", "said"),
    [
        (
            "org.apache.kafka#kafka_2.13;9.9.9: not found",
            BadInput,
            "KAFKA=9.9.9: Maven Central has no org.apache.kafka",
        ),
        ("Host repo1 not found", HarnessError, "Ivy could not fetch org.apache.kafka:kafka_2.13:9.9.9: Host repo1"),
        ("SERVER ERROR: Bad Gateway: not found", HarnessError, "Ivy could not fetch"),
    ],
)
@pytest.mark.usefixtures("ivy")
def test_an_unknown_version_is_told_from_a_network_without_answer(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    output: str,
    error: type[Exception],
    said: str,
) -> None:
    """An unknown version is bad input and a failed download an error; neither leaves a version folder."""
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1, output, ""))

    with pytest.raises(error, match=said):
        kafka_jars("9.9.9")
    assert [path.name for path in (tmp_path / "kafka").iterdir()] == [".9.9.9.lock"]


def test_the_digest_follows_names_and_contents(tmp_path: Path) -> None:
    """The digest depends on names and contents of the jars; other files do not count."""
    (tmp_path / "a.jar").write_text("1")
    first = jars_digest(tmp_path.glob("*.jar"))
    (tmp_path / "notes.txt").write_text("x")
    assert jars_digest(tmp_path.glob("*.jar")) == first

    (tmp_path / "a.jar").write_text("2")
    changed = jars_digest(tmp_path.glob("*.jar"))
    (tmp_path / "a.jar").rename(tmp_path / "b.jar")
    assert len({first, changed, jars_digest(tmp_path.glob("*.jar"))}) == 3
