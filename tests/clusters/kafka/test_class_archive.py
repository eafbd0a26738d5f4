"""Archives of the classes that servers load."""

from __future__ import annotations

import logging
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from clusters.kafka.class_archive import LIST, archive_of, make, merged, with_archive
from clusters.kafka.servers import quick_java
from clusters.runtimes.nodes import Node
from history.java import java_of
from tests.clusters.fakes import A_JAVA

MAIN = "org.apache.ivy.Main"
SHARED = f"{MAIN} source: shared objects file"


def node(folder: Path, *main: str) -> Node:
    """A server that runs a class of the jars beside its folder."""
    folder.mkdir(exist_ok=True)
    return Node(folder.name, "broker", "127.1.1.11", folder, "java", ("-cp", f"{folder.parent}/jars/*", *main))


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    """A class path with a program of its own: Ivy's, which pyspark ships."""
    pyspark = find_spec("pyspark")
    assert pyspark
    assert pyspark.origin
    (ivy,) = (Path(pyspark.origin).parent / "jars").glob("ivy-*.jar")
    (tmp_path / "jars").mkdir()
    shutil.copy(ivy, tmp_path / "jars")
    return tmp_path / "jars"


def run(started: Node) -> str:
    """What the JVM says of the classes that it loads."""
    command = [*quick_java(java_of()), "-Xlog:class+load", *started.arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_second_start_takes_its_classes_from_the_archive(jars: Path) -> None:
    """The first writes down what it loads, from which the archive is made, once."""
    archive, server = archive_of(jars, java_of(), "kraft"), node(jars.parent / "broker-1", MAIN, "-version")
    assert SHARED not in run(with_archive(server, archive))

    make(archive, quick_java(java_of()), [server])
    made_ns = archive.stat().st_mtime_ns
    assert SHARED in run(with_archive(server, archive))
    make(archive, quick_java(java_of()), [server])
    assert archive.stat().st_mtime_ns == made_ns
    assert sorted(file.suffix for file in jars.iterdir()) == [".jar", ".jsa"]


def test_jars_that_changed_are_read_themselves(jars: Path) -> None:
    """Their archive is left alone, and all goes on."""
    archive, server = archive_of(jars, java_of(), "kraft"), node(jars.parent / "broker-1", MAIN, "-version")
    run(with_archive(server, archive))
    make(archive, quick_java(java_of()), [server])
    (jar,) = jars.glob("*.jar")
    jar.touch()

    told = run(with_archive(server, archive))
    assert MAIN in told
    assert SHARED not in told


def test_without_an_archive_all_goes_on(jars: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Servers that wrote down nothing have none; of a Java that fails the log says why."""
    archive, server = archive_of(jars, A_JAVA, "kraft"), node(jars.parent / "broker-1")
    make(archive, ["false"], [server])
    assert not archive.exists()

    (server.folder / LIST).write_text("java/lang/Object id: 0\n")
    with caplog.at_level(logging.WARNING):
        make(archive, ["false"], [server])
        make(archive, ["true"], [server])
        make(archive, ["/no/java"], [server])
    assert caplog.text.count("no classes were archived") == 3
    assert "returned non-zero exit status 1" in caplog.text
    assert [file.suffix for file in jars.iterdir()] == [".jar"]


def test_an_archive_is_of_one_java_and_one_mode() -> None:
    """Each loads others."""
    newer = A_JAVA.model_copy(update={"version": "25.0.5+1"})
    found = {archive_of(Path("/jars"), java, mode) for java in (A_JAVA, newer) for mode in ("kraft", "zookeeper")}

    assert len(found) == 4
    assert {path.parent for path in found} == {Path("/jars")}


def test_lists_of_several_servers_are_one() -> None:
    """Without numbers, which are each JVM's own, and without what a class loader of its own or half a line names."""
    broker = "# a comment\njava/lang/Object id: 0\nkafka/Kafka id: 7\n@lambda-proxy kafka/Kafka run\nkafka/Half id"
    controller = "# a comment\njava/lang/Object id: 0\nkafka/Raft id: 7\nx/Own id: 9 super: 0 source: /tmp/x.jar\n"

    assert merged([broker, controller]).splitlines() == [
        "# a comment",
        "java/lang/Object",
        "kafka/Kafka",
        "@lambda-proxy kafka/Kafka run",
        "kafka/Raft",
    ]
