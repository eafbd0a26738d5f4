"""Imports have one direction: dags → operators → service → clusters → history; spark → judge → evidence → history.

Also evidence → expectations → history; claims → judge; reports → evidence. The command line may import all of
them. Imports of foreign histories know only the run folder. Only tests import bench and tests.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
# The folders of this project that each folder may import, in addition to itself.
MAY_IMPORT = {
    "history": set(),
    "clusters": {"history", "kafka_files"},
    "expectations": {"history"},
    "kafka_files": {"history"},
    "evidence": {"expectations", "history", "kafka_files"},
    "judge": {"evidence", "expectations", "history", "kafka_files"},
    "spark": {"evidence", "expectations", "history", "judge"},
    "reports": {"evidence", "history"},
    "imports": {"clusters", "history"},
    "claims": {"evidence", "history", "judge", "kafka_files"},
    "campaigns": {"claims", "clusters", "judge", "spark", "reports", "history"},
    "service": {"campaigns", "clusters", "history", "reports", "spark"},
    "operators": {"campaigns", "clusters", "service", "spark", "reports", "history"},
    "dags": {"operators", "service", "campaigns", "clusters", "history"},
    "commands": {"campaigns", "clusters", "history", "imports", "kafka_files", "reports", "service", "spark"},
    # Bench measures the speed of the others, which must not import it.
    "bench": {"clusters", "evidence", "history", "judge", "kafka_files", "reports", "spark"},
    "tests": {"bench", "campaigns", "claims", "clusters", "commands", "dags", "evidence", "expectations", "history"}
    | {"imports", "judge", "kafka_files", "operators", "reports", "service", "spark"},
}
# Second implementations to compare with the judge, which must not share its mistakes.
INDEPENDENT = {
    "tests/judge/recount.py": {"pyarrow"},
    "tests/model/parts.py": set(),
    "tests/model/consumer_group.py": set(),
    **{
        f"tests/model/{name}.py": {"tests"}
        for name in ("clients", "cluster", "damages", "plans", "replicated_log", "truth")
    },
}
NEVER = {
    "history": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "clusters": {"airflow", "pyspark", "great_expectations"},
    "expectations": {"airflow", "docker", "kafka", "confluent_kafka"},
    "spark": {"airflow", "docker", "kafka", "confluent_kafka"},
    "evidence": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "judge": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "kafka_files": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "reports": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "imports": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "claims": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "campaigns": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "service": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "operators": {"pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "bench": {"airflow", "pyspark", "great_expectations", "docker", "confluent_kafka"},
    "tests": set(),  # they try every library's part
    "commands": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
}

# Subfolders from the lowest: each imports only those before it. Modules outside them are for all, or above all.
ROOMS = {
    "clusters": ("scenario", "runtimes", "kafka", "attached", "live", "clients", "faults", "run"),
    "judge": ("checks", "measures", "verdict"),
}
EVERY_ROOM = [(folder, room) for folder, rooms in ROOMS.items() for room in rooms]
BESIDE = {"clusters": {"paths", "waiting"}, "judge": set()}
ABOVE = {
    "clusters": set(),
    "judge": {"partition", "run", "thinning"},
}


def imports(source: str) -> Iterator[str]:
    """Yield the first name of everything that a file imports, at any depth."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def breaches(folder: str, source: str) -> set[str]:
    """Return the forbidden imports of a file in a folder."""
    found = set(imports(source))
    if folder == "dags":
        allowed = {"dags", "airflow", *MAY_IMPORT["dags"], *sys.stdlib_module_names}
        return found - allowed
    return found & (NEVER[folder] | (MAY_IMPORT.keys() - MAY_IMPORT[folder] - {folder}))


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_every_folder_keeps_to_the_direction(folder: str) -> None:
    """Files import only along the direction, without libraries that belong to another folder."""
    files = sorted((REPOSITORY / folder).rglob("*.py"))
    found = {str(file.relative_to(REPOSITORY)): breaches(folder, file.read_text()) for file in files}

    assert files
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(("file", "libraries"), INDEPENDENT.items())
def test_second_implementations_know_nothing_of_the_project(file: str, libraries: set[str]) -> None:
    """Second implementations import neither the judge nor its readers; in the tests they import parts of the model."""
    source = (REPOSITORY / file).read_text()
    assert set(imports(source)) - sys.stdlib_module_names == libraries
    assert set(re.findall(r"^from tests\.(\w+)", source, flags=re.MULTILINE)) <= {"model"}


@pytest.mark.parametrize(
    ("folder", "source", "wrong"),
    [
        ("clusters", "from operators.steps import RunStep", {"operators"}),
        ("clusters", "from history.folder import RunFolder\nimport docker", set()),
        ("spark", "def f():\n    import airflow.sdk", {"airflow"}),
        ("spark", "import pyspark.sql as pyspark", set()),
        ("dags", "import docker, json", {"docker"}),
        ("bench", "from tests.judge.recount import recount\nfrom spark.submit import judge", {"tests"}),
        ("campaigns", "from bench.folders import write", {"bench"}),
        ("tests", "from bench.folders import write\nfrom tests.judge.recount import recount", set()),
        ("dags", "from airflow.sdk import DAG\nfrom operators.judge import Judge", set()),
    ],
)
def test_a_wrong_import_is_found_and_a_right_one_is_not(folder: str, source: str, wrong: set[str]) -> None:
    """A wrong import is found, also inside a function, and a right one is not."""
    assert breaches(folder, source) == wrong


def rooms_above(folder: str, room: str, source: str) -> set[str]:
    """Return the subfolders and modules above a file's subfolder that it imports."""
    named = re.findall(rf"^\s*(?:from|import) {folder}\.(\w+)", source, flags=re.MULTILINE)
    return set(named) & {*ROOMS[folder][ROOMS[folder].index(room) + 1 :], *ABOVE[folder]}


@pytest.mark.parametrize(("folder", "room"), EVERY_ROOM)
def test_rooms_import_downwards(folder: str, room: str) -> None:
    """Subfolders import only lower ones, so that imports have no cycle."""
    files = sorted((REPOSITORY / folder / room).rglob("*.py"))
    found = {str(file.relative_to(REPOSITORY)): rooms_above(folder, room, file.read_text()) for file in files}

    assert files
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("folder", ROOMS)
def test_every_module_is_in_a_room_or_named_beside_them(folder: str) -> None:
    """Every module is in a subfolder or in the list of exceptions."""
    beside = {path.stem for path in (REPOSITORY / folder).glob("*.py")}
    assert beside == {"__init__"} | BESIDE[folder] | ABOVE[folder]
    assert {path.parent.name for path in (REPOSITORY / folder).glob("*/*.py")} == set(ROOMS[folder])


def test_a_room_that_reaches_up_is_found() -> None:
    """An import of a higher subfolder is found, also inside a function; modules for all of clusters/ are allowed."""
    lower = "from clusters.runtimes.nodes import Node\nfrom clusters.waiting import wait_until"
    assert rooms_above("clusters", "kafka", lower) == set()
    assert rooms_above("clusters", "kafka", "def f():\n    from clusters.run.leftovers import reap") == {"run"}
    above = "from judge.verdict.summary import verdict_of\nfrom judge.run import judge_run"
    assert rooms_above("judge", "checks", above) == {"verdict", "run"}
