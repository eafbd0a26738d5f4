"""Every promise of the security page has a test that exists."""

from __future__ import annotations

import ast
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROMISES = json.loads((ROOT / "docs" / "data" / "security.json").read_text())


def defined(file: str) -> set[str]:
    """The functions of a file."""
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_promise_names_tests_that_exist() -> None:
    """By file and function; and no promise is without one."""
    assert [row["promise"] for row in PROMISES if not row["tests"]] == []
    named = [test.split("::") for row in PROMISES for test in row["tests"]]
    assert [f"{file}::{name}" for file, name in named if name not in defined(file)] == []
    assert "test_that_nobody_wrote" not in defined("tests/docs/test_security.py")


def test_the_page_shows_the_promises_as_they_are_declared() -> None:
    """Each line of its table, in order, and no other."""
    page = (ROOT / "docs" / "security.md").read_text()
    table = page.partition("## Promises and their tests")[2].partition("\n## ")[0]
    shown = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ") and "`test_" in line]
    told = [[row["promise"], ", ".join(f"`{test.rpartition('::')[2]}`" for test in row["tests"])] for row in PROMISES]

    assert [[cell.strip() for cell in line] for line in shown] == told
