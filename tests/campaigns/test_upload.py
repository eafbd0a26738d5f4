"""Runs and archived rows of a campaign in an object store, here one in memory: what is there is not sent again."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from uuid import uuid4

import pytest

from campaigns import upload
from campaigns.campaign import CampaignFolder
from campaigns.places import Places
from evidence.tables import write_table
from history import archive, remote
from history.errors import BadInput, HarnessError
from history.folder import SEAL, RunFolder
from history.remote import RemotePath
from history.tables import METRICS
from tests.campaigns.sample_runs import sealed_run


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> RemotePath:
    """An empty store, whose scheme counts as one of ours."""
    monkeypatch.setattr(remote, "SCHEMES", ("s3", "fsspec+memory"))
    return RemotePath("fsspec+memory://u" + uuid4().hex, PurePosixPath("plimsoll"))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were sent."""
    names: list[str] = []
    send = remote._upload

    def note(file, target):  # type: ignore[no-untyped-def]
        names.append(file.name)
        send(file, target)

    monkeypatch.setattr(remote, "_upload", note)
    return names


def test_a_sealed_run_is_uploaded_once(
    folder: CampaignFolder, places: Places, store: RemotePath, sent: list[str]
) -> None:
    """Whole, with its seal; the second time nothing of it is sent."""
    upload.remember(folder, str(store))
    run = sealed_run(places, "run-1")
    (run.path / "work").mkdir()
    (run.path / "work" / "state.json").write_text("{}")  # is no part of what was sealed

    upload.upload(folder, [run.path])
    there = RunFolder(remote.path_of(store / "runs" / run.run_id))
    assert there.is_sealed
    assert there.check_seal() == []
    assert not (there.path / "work").exists()
    assert sent
    sent.clear()
    upload.upload(folder, [run.path])
    assert sent == []


def test_an_upload_that_broke_off_is_made_whole(
    folder: CampaignFolder, places: Places, store: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until all of it is there it has no seal; the sentence says that the run is kept."""
    upload.remember(folder, str(store))
    run = sealed_run(places, "run-1")
    send, left = remote._upload, [3]

    def break_off(file, target):  # type: ignore[no-untyped-def]
        left[0] -= 1
        if left[0] < 0:
            raise OSError("the network is gone")
        send(file, target)

    with monkeypatch.context() as patch:
        patch.setattr(remote, "_upload", break_off)
        with pytest.raises(HarnessError, match=r"could not be uploaded to .*: the network is gone\. It is kept here"):
            upload.upload(folder, [run.path])
    there = RunFolder(remote.path_of(store / "runs" / run.run_id))
    assert not there.is_sealed

    upload.upload(folder, [run.path])
    assert there.check_seal() == []


def test_verdict_and_archived_rows_follow_once_they_are_there(
    folder: CampaignFolder, places: Places, store: RemotePath, sent: list[str]
) -> None:
    """A run that is judged anew is sent again, one that is not is left alone."""
    upload.remember(folder, str(store))
    run = sealed_run(places, "run-1")
    write_table(METRICS.empty_table(), run.judged("metrics"), METRICS)
    archive.add(places.archive, archive.rows_of(run))
    upload.upload(folder, [run.path])
    there = store / "runs" / run.run_id
    assert (there / "verdict" / "verdict.json").read_bytes() == run.verdict_file.read_bytes()
    assert archive.read(remote.path_of(store / "archive")) == archive.read(places.archive)

    sent.clear()
    run.verdict_file.write_text(run.verdict_file.read_text() + "\n")
    upload.upload(folder, [run.path])
    assert f"{run.run_id}.parquet" in sent
    assert "manifest.json" not in sent
    assert (there / "verdict" / "verdict.json").read_bytes() == run.verdict_file.read_bytes()


def test_another_run_of_the_same_name_is_left_as_it_is(
    folder: CampaignFolder, places: Places, store: RemotePath
) -> None:
    """Nothing in the store is overwritten by it."""
    upload.remember(folder, str(store))
    run = sealed_run(places, "run-1")
    seal = store / "runs" / run.run_id / "sealed.json"
    seal.write_text("{}")
    with pytest.raises(BadInput, match="holds another run of this name"):
        upload.upload(folder, [run.path])
    assert [found.name for found in seal.parent.iterdir()] == ["sealed.json"]


def test_a_run_that_was_not_collected_is_not_uploaded(places: Places, store: RemotePath, sent: list[str]) -> None:
    """Another try would not help, and the sentence does not propose one."""
    run = RunFolder(places.runs / "run-1")
    run.work.mkdir(parents=True)

    with pytest.raises(HarnessError, match=r"run-1 was not collected, so it is not uploaded\.$"):
        upload.upload_run(run, str(store), print)
    assert sent == []


def test_without_a_url_nothing_is_uploaded(folder: CampaignFolder, places: Places, sent: list[str]) -> None:
    """And a campaign that was given one keeps it."""
    upload.upload(folder, [sealed_run(places, "run-1").path])
    assert sent == []
    upload.remember(folder, "s3://bucket/a")
    assert upload.url_of(CampaignFolder(folder.path)) == "s3://bucket/a"


def test_a_folder_of_this_machine_is_no_place_to_upload_to() -> None:
    """It is refused before anything is recorded."""
    with pytest.raises(BadInput, match=r"--upload=runs/x is no URL of an object store, such as --upload=s3://"):
        upload.check("runs/x")


@pytest.mark.parametrize("name", ["../secret", "brokers/link"])
def test_nothing_is_uploaded_from_outside_a_run(
    name: str, folder: CampaignFolder, places: Places, store: RemotePath, sent: list[str]
) -> None:
    """A seal that names a file elsewhere, or a link to one, is refused before anything is sent."""
    upload.remember(folder, str(store))
    run = sealed_run(places, "run-1")
    (run.path.parent / "secret").write_text("keep this")
    (run.path / "brokers").mkdir(exist_ok=True)
    (run.path / "brokers" / "link").symlink_to(run.path.parent / "secret")
    (run.path / SEAL).write_text(json.dumps({name: "0" * 64}))

    with pytest.raises(BadInput, match=r"leads out of .* and is not uploaded"):
        upload.upload(folder, [run.path])
    assert sent == []
