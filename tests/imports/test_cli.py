"""The command behind make import: settings, run folders, refusals, and two histories judged to the end."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from history.errors import BadInput
from history.events import read_events
from history.manifest import read_manifest
from history.tables import IMPORTED, POLLS, SENDS
from imports import cli
from imports.run_folder import Settings
from tests.imports.histories import send, write

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
EXAMPLE = {
    "operations": "operations.jsonl",
    "verifiable": "verifiable.json",
    "ledger": "ledger.jsonl",
    "jepsen": "jepsen.edn",
}


@pytest.mark.parametrize("origin", cli.READERS)
def test_every_example_becomes_a_sealed_run_folder(tmp_path, origin):
    """Each format's example in docs/ can be imported; its tables have the schemas of the contract."""
    folder = cli.import_history(str(EXAMPLES / EXAMPLE[origin]), origin, Settings(), tmp_path)
    manifest = read_manifest(folder.manifest)

    assert folder.check_seal() == []
    assert (manifest.origin, manifest.run_id, manifest.foreign) == (origin, folder.run_id, True)
    for name, schema in {"sends": SENDS, "polls": POLLS, "imported": IMPORTED}.items():
        assert pq.read_schema(folder.table(name) / "imported.parquet").equals(schema), name
    assert pq.read_metadata(folder.table("sends") / "imported.parquet").num_rows > 0
    assert [event.kind for event in read_events(folder.events)] == ["run_started", "collected"]
    assert [path.name for path in tmp_path.iterdir()] == [folder.run_id]


def test_the_manifest_says_what_stands_for_what(tmp_path):
    """Keys by partition, the settings that were given, and the weakest acks of a ledger's rows."""
    history = write(tmp_path / "h.jsonl", send(1, "ok", ("x", 1, 0), f="txn"), send(2, "ok", ("x", 2, 1)))
    settings = Settings(acks="1", unclean_election=True, faults=("kill",), kafka_version="3.9.1")
    manifest = read_manifest(cli.import_history(str(history), "operations", settings, tmp_path / "runs").manifest)

    assert manifest.scenario["keys"] == {"history-0": '"x"'}
    assert {p.producer_id: (p.acks, p.idempotence) for p in manifest.producers} == {"1": ("1", True), "2": ("1", False)}
    assert manifest.topic_setting("history", "unclean.leader.election.enable", "") == "true"
    assert (manifest.faults, manifest.kafka_version) == (["kill"], "3.9.1")


def test_several_files_are_named_with_commas(tmp_path):
    """A producer's and a consumer's output are one history."""
    lines = (EXAMPLES / "verifiable.json").read_text().splitlines(keepends=True)
    (tmp_path / "p.json").write_text("".join(lines[:6]))
    (tmp_path / "c.json").write_text("".join(lines[6:]))
    folder = cli.import_history(f"{tmp_path}/p.json,{tmp_path}/c.json", "verifiable", Settings(), tmp_path / "runs")

    assert pq.read_metadata(folder.table("sends") / "imported.parquet").num_rows == 3
    assert pq.read_metadata(folder.table("polls") / "imported.parquet").num_rows == 2
    assert read_manifest(folder.manifest).scenario_name == "p.json, c.json"


@pytest.mark.parametrize(
    ("text", "origin", "says"),
    [
        ("{}", "csv", "FORMAT must be one of operations, verifiable, ledger, jepsen, not 'csv'."),
        ("{}", "operations", "line 1: the field 'process' is missing."),
        ("nonsense", "verifiable", "line 1: this is not JSON"),
        ("\xff", "ledger", "line 1: the bytes are not UTF-8."),
        ("{:a", "jepsen", "line 1: this is not EDN"),
        (None, "operations", "No such file"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(tmp_path, capsys, text, origin, says):
    """Exit code 3, nothing on the output, no run folder."""
    history = tmp_path / "history"
    if text is not None:
        history.write_bytes(text.encode("latin-1"))
    code = cli.main(["--history", str(history), "--format", origin, "--runs", str(tmp_path / "runs")])
    said = capsys.readouterr()

    assert code == 3
    assert says in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("arguments", [["--acks", "2"], ["--idempotence", "yes"], ["--nonsense", "1"]])
def test_a_wrong_option_is_one_sentence(capsys, arguments):
    """argparse's two lines and exit code 2 would be taken for an unknown verdict."""
    assert cli.main(["--history", "h", "--format", "operations", *arguments]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_faults_go_by_the_names_of_steps(tmp_path, capsys):
    """Under another name nothing would be permitted for it; blanks beside the commas mean nothing."""
    asked = ["--history", str(EXAMPLES / "operations.jsonl"), "--format", "operations", "--runs", str(tmp_path)]

    assert cli.main([*asked, "--faults", "kill, partition"]) == 3
    assert "--faults names 'partition', which is no step; known: bounce" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_foresaw_is_no_broken_promise(tmp_path, monkeypatch, capsys):
    """Python's own exit code would say that records were lost."""
    monkeypatch.setattr("imports.run_folder._write_events", lambda *_: 1 / 0)

    assert (
        cli.main(["--history", str(EXAMPLES / "operations.jsonl"), "--format", "operations", "--runs", str(tmp_path)])
        == 2
    )
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_history_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    """Half a run folder is removed."""
    monkeypatch.setattr("imports.run_folder._write_events", lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        cli.import_history(str(EXAMPLES / "operations.jsonl"), "operations", Settings(), tmp_path / "runs")
    assert list((tmp_path / "runs").iterdir()) == []


def test_no_file_at_all_is_refused():
    """Only commas name nothing."""
    with pytest.raises(BadInput, match="HISTORY must name a file"):
        cli.import_history(",", "operations", Settings(), Path())


@pytest.mark.pipeline
@pytest.mark.parametrize(
    ("origin", "verdict", "anomalies"),
    [
        ("operations", "fail", {"lost_write": 1, "poll_skip": 1}),
        pytest.param("verifiable", "pass", {}, marks=pytest.mark.slow),
    ],
)
def test_an_example_is_judged_to_the_end(tmp_path, capfd, origin, verdict, anomalies):
    """The two lines come last; the page is there, and names what was lost."""
    given = ["--history", str(EXAMPLES / EXAMPLE[origin]), "--format", origin, "--runs", str(tmp_path)]

    assert cli.main(given) == ["pass", "fail"].index(verdict)
    [run] = tmp_path.iterdir()
    assert capfd.readouterr().out.splitlines()[-2:] == [f"run: {run}", f"verdict: {verdict}"]
    found = json.loads((run / "verdict" / "verdict.json").read_text())
    assert (found["verdict"], found["anomalies"]) == (verdict, anomalies)
    page = (run / "report" / "index.html").read_text()
    assert f'data-verdict="{verdict}"' in page
    assert ("value &#34;b&#34;" in page) == bool(anomalies)
