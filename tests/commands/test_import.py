"""``plimsoll import``: rejected input, and histories judged to the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands.main import main
from history.exit_codes import FAIL
from imports.formats import import_history
from imports.run_folder import Settings

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
    assert "--faults names 'partition', which is no step; known: await_upgrade" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


EXAMPLE_VERDICTS = {
    ("operations.jsonl", "operations"): ("fail", {"lost_write": 1, "poll_skip": 1}),
    ("verifiable.json", "verifiable"): ("pass", {}),
    ("../../tests/imports/cases/zero_offset.jsonl", "ledger"): ("unknown", {"bad_ack_offset": 1}),
}


@pytest.mark.slow  # tests/integration/test_ci_files.py has the first of them imported and judged by one command
@pytest.mark.pipeline
def test_examples_are_judged_to_the_end(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Imported examples are judged to the end: runs and verdicts are printed last, a page has the lost record."""
    verdicts = [verdict for verdict, _ in EXAMPLE_VERDICTS.values()]
    runs = [import_history([EXAMPLES / name], of, Settings(), tmp_path).path for name, of in EXAMPLE_VERDICTS]

    assert main(["judge", *map(str, runs)]) == FAIL
    printed = [(f"run: {run}", f"verdict: {verdict}") for run, verdict in zip(runs, verdicts, strict=True)]
    assert capfd.readouterr().out.splitlines()[-6:] == [line for pair in printed for line in pair]
    judged = [json.loads((run / "verdict" / "verdict.json").read_text()) for run in runs]
    assert [(each["verdict"], each["anomalies"]) for each in judged] == [*EXAMPLE_VERDICTS.values()]
    for run, verdict in zip(runs, verdicts, strict=True):
        page = (run / "report" / "index.html").read_text()
        assert f'data-verdict="{verdict}"' in page
        assert ("value &#34;b&#34;" in page) == (verdict == "fail")
