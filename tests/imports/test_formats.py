"""Files of every format become run folders; what is wrong leaves nothing behind."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from history.events import read_events
from history.manifest import read_manifest
from history.tables import IMPORTED, POLLS, SENDS
from imports import formats
from imports.run_folder import Settings
from tests.imports.histories import send, write

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
EXAMPLE = {
    "operations": "operations.jsonl",
    "verifiable": "verifiable.json",
    "ledger": "ledger.jsonl",
    "jepsen": "jepsen.edn",
}


@pytest.mark.parametrize("origin", formats.READERS)
def test_every_example_becomes_a_sealed_run_folder(tmp_path, origin):
    """Each format's example in docs/ can be imported; its tables have the schemas of the contract."""
    folder = formats.import_history([EXAMPLES / EXAMPLE[origin]], origin, Settings(), tmp_path)
    manifest = read_manifest(folder.manifest)

    assert folder.check_seal() == []
    assert (manifest.origin, manifest.run_id, manifest.foreign) == (origin, folder.run_id, True)
    for name, schema in {"sends": SENDS, "polls": POLLS, "imported": IMPORTED}.items():
        assert pq.read_schema(folder.table(name) / "imported.parquet").equals(schema), name
    assert pq.read_metadata(folder.table("sends") / "imported.parquet").num_rows > 0
    assert [event.kind for event in read_events(folder.events)] == ["run_started", "collected"]
    assert [path.name for path in tmp_path.iterdir()] == [folder.run_id]


@pytest.mark.parametrize(
    ("files", "names"),
    [(("a/h.jsonl", "b/h.jsonl"), ["a/h.jsonl", "b/h.jsonl"]), (("a/h.jsonl", "b/i.jsonl"), ["h.jsonl", "i.jsonl"])],
)
def test_every_file_has_a_digest(tmp_path, files, names):
    """Files of one name are told apart by their folders; others are recorded by their name alone."""
    sources = []
    for number, file in enumerate(files):
        (tmp_path / file).parent.mkdir()
        sources.append(write(tmp_path / file, send(1, "ok", ("x", number, number))))
    manifest = read_manifest(formats.import_history(sources, "operations", Settings(), tmp_path / "runs").manifest)

    assert list(manifest.scenario["files"]) == names
    assert len(set(manifest.scenario["files"].values())) == 2


def test_the_manifest_says_what_stands_for_what(tmp_path):
    """Keys by partition, the settings that were given, and the weakest acks of a ledger's rows."""
    history = write(tmp_path / "h.jsonl", send(1, "ok", ("x", 1, 0), f="txn"), send(2, "ok", ("x", 2, 1)))
    settings = Settings(acks="1", unclean_election=True, faults=("kill",), kafka_version="3.9.1")
    manifest = read_manifest(formats.import_history([history], "operations", settings, tmp_path / "runs").manifest)

    assert manifest.scenario["keys"] == {"history-0": '"x"'}
    assert {p.producer_id: (p.acks, p.idempotence) for p in manifest.producers} == {"1": ("1", True), "2": ("1", False)}
    assert manifest.topic_setting("history", "unclean.leader.election.enable", "") == "true"
    assert (manifest.faults, manifest.kafka_version) == (["kill"], "3.9.1")


def test_several_files_are_one_history(tmp_path):
    """A producer's and a consumer's output are one history."""
    lines = (EXAMPLES / "verifiable.json").read_text().splitlines(keepends=True)
    (tmp_path / "p.json").write_text("".join(lines[:6]))
    (tmp_path / "c.json").write_text("".join(lines[6:]))
    folder = formats.import_history(
        [tmp_path / "p.json", tmp_path / "c.json"], "verifiable", Settings(), tmp_path / "runs"
    )

    assert pq.read_metadata(folder.table("sends") / "imported.parquet").num_rows == 3
    assert pq.read_metadata(folder.table("polls") / "imported.parquet").num_rows == 2
    assert read_manifest(folder.manifest).scenario_name == "p.json, c.json"


def test_a_history_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    """Half a run folder is removed."""
    monkeypatch.setattr("imports.run_folder._write_events", lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        formats.import_history([EXAMPLES / "operations.jsonl"], "operations", Settings(), tmp_path / "runs")
    assert list((tmp_path / "runs").iterdir()) == []
