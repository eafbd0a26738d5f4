"""Kafka's jars: which versions are accepted, and how they are downloaded."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib import request

import pytest
from tenacity import wait_none

from clusters.kafka import jars
from clusters.kafka.jars import (
    AGENT_VERSION,
    add_logging,
    jars_digest,
    kafka_jars,
    metrics_agent,
    tools_jars,
    version_of,
)
from history.errors import BadInput, HarnessError
from history.kafka_versions import CLIENT_RELEASES, DEFAULT_RELEASE, RELEASES


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
        f"--kafka={version} is not a version; give a released one from 2.8.0 on, such as 4.4.0, a folder or an archive "
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
    with pytest.raises(BadInput, match=f"--kafka={version} is too old; 2.8.0 is the oldest"):
        version_of(version)


FOLDERS = {
    "3.9.0": ["org/a.jar", "org/slf4j/slf4j-simple/1.7.30/slf4j-simple-1.7.30.jar"],
    "3.9.1": ["org/a.jar", "org/b.jar", "org/slf4j/slf4j-simple/1.7.36/slf4j-simple-1.7.36.jar"],
    "tools-3.9.1": ["org/b.jar"],
    "jmx-1.0.1": ["org/agent.jar"],
}


@pytest.fixture
def central(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder in place of Maven Central, with the jars of a lock file."""
    folder = tmp_path / "central"
    lock: dict[str, dict[str, str]] = {}
    for name, paths in FOLDERS.items():
        lock[name] = {path: hashlib.sha256(path.encode()).hexdigest() for path in paths}
        for path in paths:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(path)
    (tmp_path / "jars.lock").write_text(json.dumps(lock))
    monkeypatch.setattr(jars, "LOCK", tmp_path / "jars.lock")
    monkeypatch.setattr(jars, "CACHE", tmp_path)
    monkeypatch.setattr(jars, "SHARED", tmp_path / "jars")
    monkeypatch.setattr(jars, "CENTRAL", folder.as_uri())
    monkeypatch.setattr(jars._download.retry, "wait", wait_none())  # type: ignore[attr-defined]
    jars.locked_jars.cache_clear()
    yield folder
    jars.locked_jars.cache_clear()


def test_jars_are_fetched_once(central: Path, tmp_path: Path) -> None:
    """Jars are downloaded once, also those that two versions share, and leave no temporary files."""
    folder = kafka_jars("3.9.1")
    (central / "org" / "a.jar").unlink()

    assert kafka_jars("3.9.1") == folder == tmp_path / "kafka" / "3.9.1"
    assert sorted(jar.name for jar in folder.iterdir()) == ["a.jar", "b.jar", "slf4j-simple-1.7.36.jar"]
    assert (kafka_jars("3.9.0") / "a.jar").is_file()
    assert sorted(path.name for path in folder.parent.iterdir()) == ["3.9.0", "3.9.1"]
    assert [path.name for path in (tmp_path / "jars").glob(".*")] == [".lock"]


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda folder: os.truncate(folder / "b.jar", 4), "b.jar"),
        (lambda folder: (folder / "b.jar").unlink(), "b.jar"),
        (lambda folder: (folder / "z.jar").touch(), "z.jar"),
    ],
)
@pytest.mark.usefixtures("central")
def test_a_jar_that_differs_from_the_lock_file_is_named(damage: Callable[[Path], object], named: str) -> None:
    """A damaged, missing or additional jar is named with the remedy, and after the remedy the download works."""
    folder = kafka_jars("3.9.1")
    damage(folder)

    with pytest.raises(HarnessError) as damaged:
        kafka_jars("3.9.1")
    assert str(damaged.value) == (
        f"{named} in {folder} differs from jars.lock; remove that folder, and the next run fetches it again."
    )
    shutil.rmtree(folder)
    assert kafka_jars("3.9.1") == folder


@pytest.mark.parametrize(
    ("come", "said"),
    [
        ("other", f"but 5 bytes with the SHA-256 {hashlib.sha256(b'other').hexdigest()} came"),
        (None, "No such file"),
    ],
)
def test_a_download_that_fails_says_what_was_expected_and_what_came(
    central: Path, tmp_path: Path, come: str | None, said: str
) -> None:
    """The error names the file, the expected digest, what came and the remedy; no version folder is left."""
    (central / "org" / "b.jar").unlink()
    if come is not None:
        (central / "org" / "b.jar").write_text(come)

    with pytest.raises(HarnessError) as failed:
        kafka_jars("3.9.1")
    digest = hashlib.sha256(b"org/b.jar").hexdigest()
    message = str(failed.value)
    assert message.startswith(f"{central.as_uri()}/org/b.jar could not be fetched: expected the SHA-256 {digest}, but ")
    assert said in message
    assert message.endswith("or give --kafka a folder of jars.")
    assert list((tmp_path / "kafka").iterdir()) == []


def test_a_download_is_tried_three_times(central: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A download that fails twice succeeds in the third try."""
    tries: list[str] = []

    def urlopen(address: str, timeout: float) -> Any:
        tries.append(address)
        if len(tries) < 3:
            raise TimeoutError
        return request.urlopen(address, timeout=timeout)

    monkeypatch.setattr(jars, "urlopen", urlopen)

    metrics_agent()

    assert tries.count(f"{central.as_uri()}/org/agent.jar") == 3


def test_a_download_that_trickles_is_given_up(central: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A download has a time limit as a whole, however steadily its bytes arrive."""
    monkeypatch.setattr(jars, "_LIMIT_S", -1)

    with pytest.raises(HarnessError, match=r"but it took longer than -1 s; let this host reach Maven Central"):
        metrics_agent()
    assert central.is_dir()


@pytest.mark.usefixtures("central")
def test_the_agent_is_fetched_into_a_folder_of_its_own(tmp_path: Path) -> None:
    """The metrics agent is downloaded into a folder that is on no class path."""
    assert metrics_agent().parent == tmp_path / "kafka" / "jmx-1.0.1"


@pytest.mark.usefixtures("central")
def test_a_version_without_digests_is_refused(tmp_path: Path) -> None:
    """A release or a client that the lock file lacks is bad input, with the remedy, and leaves no folder."""
    with pytest.raises(BadInput, match=r"^--kafka=9\.9\.9: jars\.lock has no digests .*jars_lock 9\.9\.9`, else"):
        kafka_jars("9.9.9")
    with pytest.raises(BadInput, match=r"^client: 3\.9\.0: jars\.lock has no kafka-tools .* name another release"):
        tools_jars("3.9.0")
    assert tools_jars("3.9.1") == tmp_path / "kafka" / "tools-3.9.1"
    assert [path.name for path in (tmp_path / "kafka").iterdir()] == ["tools-3.9.1"]


@pytest.mark.parametrize(("api", "added"), [("1.7.30", "1.7.30"), ("1.7.25", "1.7.36"), ("2.0.9", None)])
@pytest.mark.usefixtures("central")
def test_logging_is_added_of_the_apis_line(tmp_path: Path, api: str, added: str | None) -> None:
    """An own build gets slf4j-simple of its slf4j-api's version, else the newest of its major one, or is rejected."""
    build = tmp_path / "build"
    build.mkdir()
    (build / f"slf4j-api-{api}.jar").touch()

    if added:
        add_logging(build)
    else:
        with pytest.raises(BadInput, match=r"jars\.lock has no slf4j-simple for slf4j-api 2\.0\.9; use a build with"):
            add_logging(build)
    assert [jar.name for jar in build.glob("*simple*")] == ([f"slf4j-simple-{added}.jar"] if added else [])


def test_every_known_release_is_locked() -> None:
    """The lock file has the servers and tools of every release that the project names, and the agent."""
    folders = jars.locked_jars()

    assert {*map(str, RELEASES), *CLIENT_RELEASES, DEFAULT_RELEASE, f"jmx-{AGENT_VERSION}"} <= folders.keys()
    assert {f"tools-{release}" for release in CLIENT_RELEASES} <= folders.keys()


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
