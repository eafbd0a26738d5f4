"""Rows of recordings are kept by their key."""

import json
from operator import itemgetter
from pathlib import Path

from tests.rows import put, read, write


def test_rows_of_other_keys_are_kept(tmp_path: Path) -> None:
    """New rows replace those with the same key, and the others stay."""
    file = tmp_path / "rows.json"
    put(file, "kind", [{"kind": "a", "inputs": 1}, {"kind": "b", "inputs": 1}])
    rows = put(file, "kind", [{"kind": "b", "inputs": 2}])

    assert rows == read(file) == [{"kind": "a", "inputs": 1}, {"kind": "b", "inputs": 2}]


def test_rows_are_sorted_if_asked(tmp_path: Path) -> None:
    """Rows have the given order; text stays readable."""
    file = tmp_path / "rows.json"
    put(file, "kind", [{"kind": "b", "at": 2}, {"kind": "ä", "at": 1}], itemgetter("at"))

    assert [row["kind"] for row in json.loads(file.read_text())] == ["ä", "b"]
    assert "ä" in file.read_text()


def test_there_is_nothing_before_the_first_recording(tmp_path: Path) -> None:
    """A file that does not exist has no rows; other content is written as it is."""
    assert read(tmp_path / "rows.json") == []
    write(tmp_path / "power.json", {"rows": []})
    assert (tmp_path / "power.json").read_text() == '{\n "rows": []\n}\n'
