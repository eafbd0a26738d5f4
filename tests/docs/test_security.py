"""Every promise of the security page has a test that exists."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROMISES = json.loads((ROOT / "docs" / "data" / "security.json").read_text())


@cache
def functions_of(file: str) -> dict[str, bool]:
    """The tests of a file, and whether `make test` leaves each out: it, or the whole file, is marked slow."""
    tree = ast.parse((ROOT / file).read_text())
    of_file = [node.value for node in tree.body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node)]
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    tests = [each for each in functions if each.name.startswith("test_")]
    return {
        each.name: any("mark.slow" in ast.unparse(mark) for mark in (*of_file, *each.decorator_list)) for each in tests
    }


def test_each_promise_names_tests_that_exist() -> None:
    """By file and function; and no promise is without one."""
    assert [row["promise"] for row in PROMISES if not row["tests"]] == []
    named = [test.split("::") for row in PROMISES for test in row["tests"]]
    assert [f"{file}::{name}" for file, name in named if name not in functions_of(file)] == []
    assert "test_that_nobody_wrote" not in functions_of("tests/docs/test_security.py")


def shown_as(file: str, name: str) -> str:
    """A test as the table names it: one that `make test` leaves out with the target that runs it."""
    return f"`{name}` (`make test-slow`)" if functions_of(file)[name] else f"`{name}`"


def test_a_slow_test_is_told_from_others() -> None:
    """By its own mark or its file's."""
    assert functions_of("tests/operators/test_scheduler.py")["test_down_ends_every_process"]
    assert not functions_of("tests/operators/test_scheduler.py")["test_what_ends_is_started_again"]
    assert set(functions_of("tests/integration/test_versions.py").values()) == {True}
    assert set(functions_of("tests/integration/test_rights.py").values()) == {False}


def test_the_page_shows_the_promises_as_they_are_declared() -> None:
    """Each line of its table, in order, and no other."""
    page = (ROOT / "docs" / "security.md").read_text()
    table = page.partition("## Promises and their tests")[2].partition("\n## ")[0]
    shown = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ") and "`test_" in line]
    told = [[row["promise"], ", ".join(shown_as(*test.split("::")) for test in row["tests"])] for row in PROMISES]

    assert [[cell.strip() for cell in line] for line in shown] == told
