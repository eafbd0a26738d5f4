"""Imports go one way: dags → operators → clusters → history; spark → expectations → history; reports → history.

The command line stands above all of them. Imports of foreign histories know only the run folder.
"""

from __future__ import annotations

import ast
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
    "imports": {"history"},
    "claims": {"history", "spark"},
    "campaigns": {"claims", "clusters", "spark", "reports", "history"},
    "operators": {"campaigns", "clusters", "spark", "reports", "history"},
    "dags": {"operators", "campaigns", "clusters", "history"},
    "commands": {"campaigns", "clusters", "history", "imports", "operators", "spark"},
}
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
    "commands": {"airflow", "pyspark", "great_expectations", "docker", "kafka", "confluent_kafka"},
}


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


@pytest.mark.parametrize(
    ("folder", "source", "wrong"),
    [
        ("clusters", "from operators.steps import RunStep", {"operators"}),
        ("clusters", "from history.folder import RunFolder\nimport docker", set()),
        ("spark", "def f():\n    import airflow.sdk", {"airflow"}),
        ("spark", "import pyspark.sql as pyspark", set()),
        ("dags", "import docker, json", {"docker"}),
        ("dags", "from airflow.sdk import DAG\nfrom operators.judge import Judge", set()),
    ],
)
def test_a_wrong_import_is_found_and_a_right_one_is_not(folder: str, source: str, wrong: set[str]) -> None:
    """Imports inside functions count, too."""
    assert breaches(folder, source) == wrong
