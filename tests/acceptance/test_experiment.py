"""Experiments: each row is made once and kept at once; the command lists them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from history.errors import BadInput
from tests.acceptance.__main__ import NAMES, main
from tests.acceptance.experiment import Experiment, of_cases
from tests.rows import Row


def experiment(file: Path, tried: list[str]) -> Experiment[str]:
    """Return an experiment of the cases a and b, of which a has a row; a new row is wrong."""
    file.write_text(json.dumps([{"name": "a", "is": "old"}]))

    def attempt(case: str) -> Row:
        tried.append(case)
        return {"name": case, "is": "new"}

    return of_cases(
        file,
        "name",
        {"b": "b", "a": "a"},
        attempt=attempt,
        words=lambda row: row["name"],
        wrong=lambda row: ["it is new"] * (row["is"] == "new"),
    )


@pytest.mark.parametrize(("names", "made"), [([], ["b"]), (["a"], ["a"])])
def test_only_what_is_missing_or_named_is_made(tmp_path: Path, names: list[str], made: list[str]) -> None:
    """Rows are kept in the order of the cases; the exit code says that a row is wrong."""
    tried = list[str]()

    assert experiment(tmp_path / "rows.json", tried)(names) == 1

    found = json.loads((tmp_path / "rows.json").read_text())
    assert tried == made
    assert [row["name"] for row in found] == sorted((row["name"] for row in found), reverse=True)
    assert [row["name"] for row in found if row["is"] == "new"] == made


def test_a_try_that_does_not_count_has_no_row(tmp_path: Path) -> None:
    """An attempt without a row leaves the file as it is."""
    file = tmp_path / "rows.json"

    assert of_cases(file, "name", {"a": 1}, attempt=lambda _: None, words=str)([]) == 0
    assert not file.exists()


def test_an_unknown_case_is_refused(tmp_path: Path) -> None:
    """The message names the known cases."""
    with pytest.raises(BadInput, match=r"There is no case 'c'; known: b, a\."):
        experiment(tmp_path / "rows.json", [])(["c"])


def test_the_command_lists_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    """Each experiment has its line, the first of its module's docstring; an unknown one is refused."""
    assert main([]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert all(len(line.split()) > 4 for line in lines)
    with pytest.raises(BadInput, match="There is no experiment 'x'"):
        main(["x"])
