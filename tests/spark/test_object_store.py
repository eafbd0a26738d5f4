"""Run folders in an object store (a real S3 server) are judged, published and rejected as local ones are."""

import re
import shutil

import numpy as np
import pytest

from bench.folders import plan_of, write
from campaigns.site import publish
from campaigns.upload import upload_sealed
from claims.recording import open_recording
from commands.main import main
from history import archive, remote
from history.errors import BadInput
from history.exit_codes import BAD_INPUT, FAIL
from history.folder import RunFolder
from history.remote import check_reachable, path_of, upload_tree
from reports import run_page
from reports.page import PLOTLY
from spark import submit
from tests.object_store import serving

pytestmark = [pytest.mark.pipeline, pytest.mark.s3]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for all tests of this file."""
    with serving(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A sealed run with ten lost records in four partitions, with segments on three brokers."""
    root = tmp_path_factory.mktemp("recorded") / "runs" / "x"
    plan, out = plan_of(["--records", "20000", "--partitions", "4", "--lost", "10", str(root)])
    return write(plan, out)


@pytest.fixture(scope="module")
def judged(server, recorded, tmp_path_factory):
    """The run judged locally and in the store, and a copy in the store with one altered object."""
    stored, altered = path_of(f"{server.bucket}/runs/x"), path_of(f"{server.bucket}/runs/altered")
    upload_tree(recorded.path, stored)
    upload_tree(recorded.path, altered)
    segment = min(altered.rglob("*.log"), key=lambda file: (file.name == "server.log", str(file)))
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(bytes(content))
    code = submit.judge([recorded.path, stored, altered])
    return {"code": code, "stored": RunFolder(stored), "altered": RunFolder(altered), "segment": segment}


def content_of(folder):
    """Return the bytes of every file of a folder by name."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_the_store_changes_nothing_about_the_judgement(judged, recorded):
    """verdict.json and every judged table have the same bytes in the store, which also has the Data Docs."""
    here, there = content_of(recorded.verdict), content_of(judged["stored"].verdict)
    assert "verdict.json" in there
    assert there["verdict.json"] == here["verdict.json"]
    tables = {name for name in here if name.endswith(".parquet")}
    assert tables
    assert {name: there[name] for name in there if name.endswith(".parquet")} == {name: here[name] for name in tables}
    assert "data_docs/index.html" in there


def test_an_altered_object_is_named_and_the_verdict_is_unknown(judged):
    """An altered object makes the verdict unknown and is named; untouched objects are not."""
    judge = judged["altered"].verdict_file.read_text()
    altered = judged["segment"].relative_to(judged["altered"].path)
    assert '"verdict": "unknown"' in judge
    assert f"{altered} was changed after sealing." in judge
    assert judged["stored"].check_seal() == []
    assert judged["code"] == FAIL


def test_the_page_is_written_into_the_store(judged, recorded, server, tmp_path):
    """Page, cases and archive rows in the store equal the local ones, with one copy of Plotly in the site."""
    here = shutil.copytree(recorded.path, tmp_path / "runs" / "x")
    publish(here)
    page = publish(judged["stored"].path)
    assert str(page) == f"{server.bucket}/runs/x/report/index.html"
    assert page.read_bytes() == (here / "report" / "index.html").read_bytes()
    assert (page.parent / run_page.CASES).read_bytes() == (here / "report" / run_page.CASES).read_bytes()
    assert (path_of(f"{server.bucket}/site") / PLOTLY).is_file()
    rows = archive.read(path_of(f"{server.bucket}/archive"))
    assert rows == archive.read(tmp_path / "archive") != []


def test_the_archive_is_listed_and_built_anew_in_the_store(judged, server, capsys):
    """The archive is listed and rebuilt from the run folders in the store, with the index page."""
    assert main(["archive", "--rebuild", "--runs", f"{server.bucket}/runs"]) == 0
    assert re.match(r"x +\S+ +fail ", capsys.readouterr().out)
    assert path_of(f"{server.bucket}/site/index.html").is_file()


def test_a_run_is_uploaded_once(recorded, server):
    """A run is uploaded once with its seal."""
    target = path_of(f"{server.bucket}/uploaded/runs/x")
    assert upload_sealed(recorded, target)
    assert RunFolder(target).check_seal() == []
    assert not upload_sealed(recorded, target)


def test_claims_read_the_same_recording(judged, recorded):
    """Claims read the same samples, states and log lines from the store."""
    here, there = open_recording(recorded.path), open_recording(judged["stored"].path)
    assert here.partitions.keys() == there.partitions.keys() != set()
    for where, of in here.partitions.items():
        stored = there.partitions[where]
        assert np.array_equal(stored.samples.leo, of.samples.leo)
        assert (stored.states, len(stored.sends.offset)) == (of.states, len(of.sends.offset))
    assert (there.invariants, there.run.lines) == (here.invariants, here.run.lines)


def test_what_cannot_be_reached_is_bad_input(server, monkeypatch):
    """A missing bucket, an unreachable server and rejected credentials are bad input in one sentence each."""
    check_reachable(path_of(f"{server.bucket}/runs"))
    with pytest.raises(BadInput, match=r"s3://absent/x cannot be read: there is no bucket s3://absent"):
        check_reachable(path_of("s3://absent/x"))
    server.ask_for_credentials(after="0")
    try:
        with pytest.raises(BadInput, match=r"cannot be read: .*ACCESS_DENIED|cannot be read: .*403"):
            check_reachable(path_of(f"{server.bucket}/runs"))
    finally:
        server.ask_for_credentials(after="inf")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    remote._connected.cache_clear()
    with pytest.raises(BadInput, match=r"cannot be read: .*connect"):
        check_reachable(path_of(f"{server.bucket}/runs"))
    remote._connected.cache_clear()


def test_the_command_refuses_a_url_in_one_sentence(server, capsys):
    """The command exits with 3 for a missing bucket, and for a place without a run."""
    assert main(["judge", "s3://absent/x"]) == BAD_INPUT
    assert capsys.readouterr().err == (
        "s3://absent/x cannot be read: there is no bucket s3://absent; create it, or correct the address.\n"
    )
    assert main(["judge", f"{server.bucket}/nothing"]) == BAD_INPUT
    assert "is no run folder: it holds neither manifest.json nor sealed.json." in capsys.readouterr().err
