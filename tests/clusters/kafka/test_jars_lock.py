"""Which jars Ivy finds for a release, and what it says of a network without answer."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clusters.kafka import jars_lock
from clusters.kafka.jars_lock import folders_of, resolved
from history.errors import BadInput, HarnessError
from tests.clusters.fakes import A_JAVA


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces Ivy with a function that retrieves the asked jar and slf4j-api; lists the modules."""
    asked: list[str] = []

    def run(command: list[Any], *_: Any) -> subprocess.CompletedProcess[str]:
        organisation, module, version = command[command.index("-dependency") + 1 :][:3]
        asked.append(f"{organisation}:{module}:{version}")
        if module == "kafka-tools":
            return subprocess.CompletedProcess(command, 1, f"{organisation}#{module};{version}: not found", "")
        jars = Path(str(command[-1]).partition("/[")[0])
        for name in (
            f"{organisation}/{module}/{version}/{module}-{version}.jar",
            "org.slf4j/api/2/slf4j-api-2.0.9.jar",
        ):
            (jars / name).parent.mkdir(parents=True, exist_ok=True)
            (jars / name).write_text(name)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(jars_lock, "java_of", lambda: A_JAVA)
    monkeypatch.setattr(jars_lock, "run_command", run)
    return asked


def test_a_release_is_locked_with_its_logging_and_tools(
    modules: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Servers get slf4j-simple of their slf4j-api's version; tools that Maven Central lacks are reported."""
    folders = folders_of(tmp_path, "3.9.1")

    server = b"org.apache.kafka/kafka_2.13/3.9.1/kafka_2.13-3.9.1.jar"
    assert sorted(folders) == ["3.9.1", "jmx-1.0.1"]
    assert sorted(folders["3.9.1"]) == [
        "org/apache/kafka/kafka_2.13/3.9.1/kafka_2.13-3.9.1.jar",
        "org/slf4j/api/2/slf4j-api-2.0.9.jar",
        "org/slf4j/slf4j-simple/2.0.9/slf4j-simple-2.0.9.jar",
    ]
    assert hashlib.sha256(server).hexdigest() in folders["3.9.1"].values()
    assert modules[1:] == [
        "org.slf4j:slf4j-simple:2.0.9",
        "io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1",
        "org.apache.kafka:kafka-tools:3.9.1",
    ]
    assert capsys.readouterr().err.startswith("Maven Central lacks org.apache.kafka:kafka-tools:3.9.1 or a part of it")


@pytest.mark.usefixtures("modules")
def test_a_pom_that_did_not_arrive_is_an_error(tmp_path: Path) -> None:
    """If Ivy substituted a pom that did not arrive, dependencies would be missing, so nothing is locked."""
    (tmp_path / "org.slf4j" / "api").mkdir(parents=True)
    (tmp_path / "org.slf4j" / "api" / "ivy-2.0.9.xml").write_text('<info default="true"')

    with pytest.raises(HarnessError, match=r"^Ivy could not resolve org\.slf4j:slf4j-simple:2\.0\.9: .*try again"):
        resolved(tmp_path, "org.slf4j", "slf4j-simple", "2.0.9")


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ("org.apache.kafka#kafka_2.13;9.9.9: not found", BadInput),
        ("Host repo1 not found", HarnessError),
        ("SERVER ERROR: Bad Gateway: not found", HarnessError),
    ],
)
@pytest.mark.usefixtures("modules")
def test_an_unknown_version_is_told_from_a_network_without_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, output: str, error: type[Exception]
) -> None:
    """An unknown version is bad input, and a network without answer an error."""
    done = subprocess.CompletedProcess[str]([], 1, output, "")
    monkeypatch.setattr(jars_lock, "run_command", lambda *_: done)

    with pytest.raises(error, match=r"org\.apache\.kafka:kafka_2\.13:9\.9\.9"):
        resolved(tmp_path, "org.apache.kafka", "kafka_2.13", "9.9.9")
