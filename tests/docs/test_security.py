"""Every promise of the security page has an existing test."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROMISES = json.loads((ROOT / "docs" / "data" / "security.json").read_text())


@cache
def names_in(file: str) -> set[str]:
    """Return the names of a file's tests."""
    functions = (node for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef))
    return {each.name for each in functions if each.name.startswith("test_")}


def test_each_promise_names_tests_that_exist() -> None:
    """Each promise names at least one test, and each named file and function exists."""
    assert [row["promise"] for row in PROMISES if not row["tests"]] == []
    named = [test.split("::") for row in PROMISES for test in row["tests"]]
    assert [f"{file}::{name}" for file, name in named if name not in names_in(file)] == []
    assert "test_that_nobody_wrote" not in names_in("tests/docs/test_security.py")


def test_the_page_lists_the_promises_as_they_are_declared() -> None:
    """The list has each promise, in order, and no other."""
    page = (ROOT / "docs" / "security.md").read_text()
    listed = page.partition("## Promises and their tests")[2].partition("\n## ")[0].split("\n- ")[1:]

    assert [" ".join(each.split()) for each in listed] == [row["promise"] for row in PROMISES]
