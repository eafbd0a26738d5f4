"""``plimsoll import``: rejected input, and histories judged to the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands.main import main

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
OPERATIONS = str(EXAMPLES / "operations.jsonl")


@pytest.mark.parametrize(
    ("text", "origin", "says"),
    [
        ("{}", "csv", "Invalid value for '--format': 'csv' is not one of 'operations', 'verifiable', 'ledger'"),
        ("{}", "operations", "line 1: the field 'process' is missing."),
        ("nonsense", "verifiable", "line 1: this is not JSON"),
        ("\xff", "ledger", "line 1: the bytes are not UTF-8."),
        ("{:a", "jepsen", "line 1: this is not EDN"),
        (None, "operations", "No such file"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, origin: str, says: str
) -> None:
    """Bad input exits with 3, prints one sentence on stderr, and leaves no run folder."""
    history = tmp_path / "history"
    if text is not None:
        history.write_bytes(text.encode("latin-1"))
    code = main(["import", str(history), "--format", origin, "--runs", str(tmp_path / "runs")])
    out, err = capsys.readouterr()

    assert code == 3
    assert says in err
    assert (out, err.count("\n")) == ("", 1)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("options", [["--acks", "2"], ["--idempotence", "yes"], ["--nonsense", "1"]])
def test_a_wrong_option_is_one_sentence(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    """A wrong option exits with 3; the usual code 2 would mean an unknown verdict."""
    assert main(["import", "h", "--format", "operations", *options]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_faults_go_by_the_names_of_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--faults`` accepts step names only, since permissions depend on them; blanks after commas are ignored."""
    given = ["import", OPERATIONS, "--format", "operations", "--runs", str(tmp_path)]

    assert main([*given, "--faults", "kill, partition"]) == 3
    assert "--faults names 'partition', which is no step; known: bounce" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow  # tests/integration/test_ci_files.py has the first of them judged
@pytest.mark.pipeline
@pytest.mark.parametrize(
    ("example", "origin", "verdict", "anomalies"),
    [
        ("operations.jsonl", "operations", "fail", {"lost_write": 1, "poll_skip": 1}),
        ("verifiable.json", "verifiable", "pass", {}),
        ("../../tests/imports/cases/zero_offset.jsonl", "ledger", "unknown", {"bad_ack_offset": 1}),
    ],
)
def test_an_example_is_judged_to_the_end(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    *,
    example: str,
    origin: str,
    verdict: str,
    anomalies: dict[str, int],
) -> None:
    """An imported example is judged to the end: run and verdict are printed last, and the page has the lost record."""
    given = ["import", str(EXAMPLES / example), "--format", origin, "--runs", str(tmp_path)]

    assert main(given) == ["pass", "fail", "unknown"].index(verdict)
    [run] = tmp_path.iterdir()
    assert capfd.readouterr().out.splitlines()[-2:] == [f"run: {run}", f"verdict: {verdict}"]
    judged = json.loads((run / "verdict" / "verdict.json").read_text())
    assert (judged["verdict"], judged["anomalies"]) == (verdict, anomalies)
    page = (run / "report" / "index.html").read_text()
    assert f'data-verdict="{verdict}"' in page
    assert ("value &#34;b&#34;" in page) == (verdict == "fail")
