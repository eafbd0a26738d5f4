"""Archives of the classes that servers load (class data sharing)."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from clusters.kafka.class_archive import LIST, archive_of, make, merged, with_archive
from clusters.kafka.servers import HEADLESS, QUICK_JVM
from clusters.runtimes.nodes import Node
from clusters.runtimes.process import ProcessRuntime
from history.java import Java, java_of
from tests.clusters.fakes import A_JAVA

MAIN = "org.apache.ivy.Main"
SHARED = f"{MAIN} source: shared objects file"


def node(run: Path, *main: str) -> Node:
    """Return a server that runs a main class of the jars in the run's folder."""
    folder = run / "work" / "broker-1"
    folder.mkdir(parents=True, exist_ok=True)
    return Node(folder.name, "broker", "127.1.1.11", folder, "java", ("-cp", f"{run}/jars/*", *main))


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    """A class path with one jar that has a main class: Ivy's, which pyspark ships."""
    pyspark = find_spec("pyspark")
    assert pyspark
    assert pyspark.origin
    (ivy,) = (Path(pyspark.origin).parent / "jars").glob("ivy-*.jar")
    (tmp_path / "jars").mkdir()
    shutil.copy(ivy, tmp_path / "jars")
    return tmp_path / "jars"


def run(started: Node) -> str:
    """Run the server; return the JVM's log of loaded classes."""
    command = [java_of().command, *QUICK_JVM, HEADLESS, "-Xlog:class+load", *started.arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_second_start_takes_its_classes_from_the_archive(jars: Path) -> None:
    """The first start lists the classes that it loads, the archive is made once, and the second start uses it."""
    archive, server = archive_of(jars, java_of(), "kraft"), node(jars.parent, MAIN, "-version")
    assert SHARED not in run(with_archive(server, archive))

    make(archive, ProcessRuntime(jars.parent), java_of(), [server])
    made_ns = archive.stat().st_mtime_ns
    assert SHARED in run(with_archive(server, archive))
    make(archive, ProcessRuntime(jars.parent), java_of(), [server])
    assert archive.stat().st_mtime_ns == made_ns
    assert sorted(file.suffix for file in jars.iterdir()) == [".jar", ".jsa"]


def test_jars_that_changed_are_read_themselves(jars: Path) -> None:
    """If the jars changed, the JVM ignores the archive and loads the classes from the jars."""
    archive, server = archive_of(jars, java_of(), "kraft"), node(jars.parent, MAIN, "-version")
    run(with_archive(server, archive))
    make(archive, ProcessRuntime(jars.parent), java_of(), [server])
    (jar,) = jars.glob("*.jar")
    os.utime(jar, ns=(0, jar.stat().st_mtime_ns + 2_000_000_000))  # a JVM compares whole seconds

    told = run(with_archive(server, archive))
    assert MAIN in told
    assert SHARED not in told


def java_that(home: Path, does: str) -> Java:
    """Return a Java installation whose command runs a line of shell."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{does}\n")
    (home / "bin" / "java").chmod(0o755)
    return A_JAVA.model_copy(update={"home": home})


@pytest.mark.parametrize(
    ("does", "why"), [("echo no room; exit 7", "failed with exit status 7: no room"), ("exit 0", "No such file")]
)
def test_without_an_archive_all_goes_on(jars: Path, caplog: pytest.LogCaptureFixture, does: str, why: str) -> None:
    """If Java cannot make the archive, a warning gives the reason and the run continues."""
    java = java_that(jars.parent / "java", does)
    archive, server = archive_of(jars, java, "kraft"), node(jars.parent)
    (server.folder / LIST).write_text("java/lang/Object id: 0\n")
    with caplog.at_level(logging.WARNING):
        make(archive, ProcessRuntime(jars.parent), java, [server])

    assert caplog.text.count("could not archive the classes") == 1
    assert why in caplog.text
    assert [file.suffix for file in jars.iterdir()] == [".jar"]


def test_servers_that_wrote_down_nothing_have_no_archive(jars: Path) -> None:
    """Without a list of classes, no Java process is started and no archive made."""
    archive = archive_of(jars, A_JAVA, "kraft")
    make(archive, ProcessRuntime(jars.parent), A_JAVA, [node(jars.parent)])

    assert not archive.exists()


def test_no_link_is_read_for_an_archive(jars: Path) -> None:
    """A list of classes that is a symbolic link is not read: a build may point it at a file of the user's."""
    archive, server = archive_of(jars, A_JAVA, "kraft"), node(jars.parent)
    (server.folder / LIST).symlink_to(jars.parent / "credentials")
    (jars.parent / "credentials").write_text("key\n")
    make(archive, ProcessRuntime(jars.parent), A_JAVA, [server])

    assert not list(jars.parent.rglob("class-archive"))


def test_an_archive_is_of_one_java_and_one_mode() -> None:
    """Each Java version and each mode has its own archive, since each loads other classes."""
    newer = A_JAVA.model_copy(update={"version": "25.0.5+1"})
    found = {archive_of(Path("/jars"), java, mode) for java in (A_JAVA, newer) for mode in ("kraft", "zookeeper")}

    assert len(found) == 4
    assert {path.parent for path in found} == {Path("/jars")}


def test_lists_of_several_servers_are_one() -> None:
    """Lists of several servers are merged, without JVM-specific numbers, custom class loaders and incomplete lines."""
    broker = "# a comment\njava/lang/Object id: 0\nkafka/Kafka id: 7\n@lambda-proxy kafka/Kafka run\nkafka/Half id"
    controller = "# a comment\njava/lang/Object id: 0\nkafka/Raft id: 7\nx/Own id: 9 super: 0 source: /tmp/x.jar\n"

    assert merged([broker, controller]).splitlines() == [
        "# a comment",
        "java/lang/Object",
        "kafka/Kafka",
        "@lambda-proxy kafka/Kafka run",
        "kafka/Raft",
    ]
