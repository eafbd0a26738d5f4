"""Imports go one way: dags → operators → clusters → history; spark → expectations → history; reports → history.

The command line stands above all of them. Imports of foreign histories know only the run folder. Nothing imports bench
but tests, and nothing imports tests.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
# What each folder may import of this project, beside itself.
MAY_IMPORT = {
    "history": set(),
    "clusters": {"history"},
    "expectations": {"history"},
    "spark": {"expectations", "history"},
    "reports": {"history"},
    "imports": {"clusters", "history"},
    "claims": {"history", "spark"},
    "campaigns": {"claims", "clusters", "spark", "reports", "history"},
    "operators": {"campaigns", "clusters", "spark", "reports", "history"},
    "dags": {"operators", "campaigns", "clusters", "history"},
    "commands": {"campaigns", "clusters", "history", "imports", "operators", "spark"},
    "bench": {"campaigns", "clusters", "spark", "reports", "history"},  # measures the rest, which knows nothing of it
    "tests": {"bench", "campaigns", "claims", "clusters", "commands", "dags", "expectations", "history"}
    | {"imports", "operators", "reports", "spark"},
}
# Second implementations, with which the judge is compared: they would repeat its mistakes otherwise.
INDEPENDENT = {"bench/recount.py": {"pyarrow"}, "tests/model/replicated_log.py": set()}
NEVER = {
    "history": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "clusters": {"airflow", "pyspark", "great_expectations"},
    "expectations": {"airflow", "docker", "kafka", "confluent_kafka"},
    "spark": {"airflow", "docker", "kafka", "confluent_kafka"},
    "reports": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "imports": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "claims": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "campaigns": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "operators": {"pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "bench": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
    "tests": set(),  # they try every library's part
    "commands": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
}

# clusters/ from the ground: a room imports only those before it.
ROOMS = ("scenario", "runtimes", "kafka", "live", "clients", "faults", "run")


def imports(source: str) -> Iterator[str]:
    """The first name of everything that a file imports, at any depth."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def breaches(folder: str, source: str) -> set[str]:
    """The imports that a file of a folder must not have."""
    found = set(imports(source))
    if folder == "dags":
        allowed = {"dags", "airflow", *MAY_IMPORT["dags"], *sys.stdlib_module_names}
        return found - allowed
    return found & (NEVER[folder] | (MAY_IMPORT.keys() - MAY_IMPORT[folder] - {folder}))


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_every_folder_keeps_to_the_direction(folder: str) -> None:
    """No file imports against the direction, nor a library that is another folder's business."""
    files = sorted((REPOSITORY / folder).rglob("*.py"))
    found = {str(file.relative_to(REPOSITORY)): breaches(folder, file.read_text()) for file in files}

    assert files
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(("file", "libraries"), INDEPENDENT.items())
def test_second_implementations_know_nothing_of_the_project(file: str, libraries: set[str]) -> None:
    """Neither of the judge nor of what the judge reads with."""
    assert set(imports((REPOSITORY / file).read_text())) - sys.stdlib_module_names == libraries


@pytest.mark.parametrize(
    ("folder", "source", "wrong"),
    [
        ("clusters", "from operators.steps import RunStep", {"operators"}),
        ("clusters", "from history.folder import RunFolder\nimport docker", set()),
        ("spark", "def f():\n    import airflow.sdk", {"airflow"}),
        ("spark", "import pyspark.sql as pyspark", set()),
        ("dags", "import docker, json", {"docker"}),
        ("bench", "from tests.recount import recount\nfrom spark.submit import judge", {"tests"}),
        ("campaigns", "from bench.recount import recount", {"bench"}),
        ("tests", "from bench.recount import recount", set()),
        ("dags", "from airflow.sdk import DAG\nfrom operators.judge import Judge", set()),
    ],
)
def test_a_wrong_import_is_found_and_a_right_one_is_not(folder: str, source: str, wrong: set[str]) -> None:
    """Imports inside functions count, too."""
    assert breaches(folder, source) == wrong


def rooms_above(room: str, source: str) -> set[str]:
    """The rooms of clusters/ that a file imports although they stand above its own."""
    named = re.findall(r"^\s*(?:from|import) clusters\.(\w+)", source, flags=re.MULTILINE)
    return set(named) & set(ROOMS[ROOMS.index(room) + 1 :])


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_of_clusters_import_downwards(room: str) -> None:
    """No circle can arise, and each room reads without those above it."""
    files = sorted((REPOSITORY / "clusters" / room).rglob("*.py"))
    found = {str(file.relative_to(REPOSITORY)): rooms_above(room, file.read_text()) for file in files}

    assert files
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_a_room_that_reaches_up_is_found() -> None:
    """Also from inside a function; what stands beside the rooms is everybody's."""
    assert rooms_above("kafka", "def f():\n    from clusters.run.leftovers import reap") == {"run"}
    assert rooms_above("kafka", "from clusters.runtimes.nodes import Node\nfrom clusters.waiting import x") == set()
    assert {path.name for path in (REPOSITORY / "clusters").glob("*.py")} == {"__init__.py", "paths.py", "waiting.py"}
