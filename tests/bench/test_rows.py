"""Rows that are made once each."""

import json
from pathlib import Path

import pytest

from bench.rows import make_missing


@pytest.mark.parametrize(("names", "made"), [([], ["b"]), (["a"], ["a"])])
def test_only_what_is_missing_or_named_is_made(tmp_path: Path, names: list[str], made: list[str]) -> None:
    """Written in the order of the cases, and returned with what was there."""
    file, asked = tmp_path / "rows.json", list[str]()
    file.write_text(json.dumps([{"name": "a", "is": "old"}]))

    def attempt(case: str) -> dict[str, str]:
        asked.append(case)
        return {"name": case, "is": "new"}

    found = make_missing(file, "name", {"a": "a", "b": "b"}, names, attempt=attempt, tell=str)

    assert asked == made
    assert found == json.loads(file.read_text())
    assert [row["name"] for row in found if row["is"] == "new"] == made
