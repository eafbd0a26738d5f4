"""Upload runs and archive rows to an object store, as ``runs/`` and ``archive/``; may be repeated."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from campaigns.campaign import CampaignFolder
from campaigns.places import Places
from clusters.run.host import Tell, sharing_host
from history.errors import BadInput, HarnessError
from history.folder import SEAL, RunFolder, write_atomically
from history.remote import RemotePath, check_reachable, path_of, upload_files

_KEPT = "upload.json"


def remember(folder: CampaignFolder, url: str) -> None:
    """Store the URL, also for resuming."""
    folder.path.mkdir(parents=True, exist_ok=True)
    write_atomically(folder.path / _KEPT, json.dumps({"url": url}))


def check(url: str) -> None:
    """Raise BadInput before anything is recorded, unless an object store can be reached at the URL."""
    check_reachable(_store(url))


def _store(url: str) -> RemotePath:
    target = path_of(url)
    if not isinstance(target, RemotePath):
        raise BadInput(f"--upload={url} is no URL of an object store, such as --upload=s3://bucket/plimsoll.")
    return target


def url_of(folder: CampaignFolder) -> str:
    """Return where the campaign's runs are uploaded to; empty: nowhere."""
    kept = folder.path / _KEPT
    return str(json.loads(kept.read_text())["url"]) if kept.is_file() else ""


def upload(folder: CampaignFolder, runs: Iterable[Path]) -> None:
    """Upload a campaign's runs, if requested."""
    if url := url_of(folder):
        for run in runs:
            upload_run(RunFolder(run), url, folder.say_waiting)


def upload_run(run: RunFolder, url: str, tell: Tell) -> RemotePath:
    """Upload what the store lacks of a sealed run, beside no benchmark; return where it is.

    Raises:
        BadInput: the store has another run of the same name.
        HarnessError: the run was not collected, or the store fails.
    """
    target = _store(url)
    if not run.is_sealed:
        raise HarnessError(f"{run.path} was not collected, so it is not uploaded.")
    try:
        with sharing_host(f"uploading {run.run_id}", tell):
            upload_sealed(run, target / "runs" / run.run_id)
            upload_judged(run, Places.beside(run.path.parent).archive / f"{run.run_id}.parquet", target)
    except OSError as error:
        why = " ".join(str(error).split())[:300].rstrip(".")
        raise HarnessError(
            f"{run.path} could not be uploaded to {target}: {why}. It is kept here; resume the campaign by its "
            "name, or clear the task, to upload what is missing."
        ) from error
    return target / "runs" / run.run_id


def upload_sealed(run: RunFolder, target: RemotePath) -> bool:
    """Upload files, the seal last; False if the store has this seal; raise BadInput if it has another."""
    seal = (run.path / SEAL).read_bytes()
    there = _content(target / SEAL)
    if there == seal:
        return False
    if there is not None:
        raise BadInput(f"{target} holds another run of this name; upload to another place, or remove it there.")
    upload_files(run.path, [run.path / name for name in json.loads(seal)], target)
    (target / SEAL).write_bytes(seal)
    return True


def upload_judged(run: RunFolder, archived: Path, target: RemotePath) -> bool:
    """Upload verdict, page and rows, the verdict last; return False without a new verdict."""
    if not run.verdict_file.is_file():
        return False
    verdict, there = run.verdict_file.read_bytes(), target / "runs" / run.run_id
    verdict_there = there / run.verdict_file.relative_to(run.path).as_posix()
    if _content(verdict_there) == verdict:
        return False
    files = [file for folder in (run.verdict, run.report) for file in sorted(folder.rglob("*")) if file.is_file()]
    upload_files(run.path, [file for file in files if file != run.verdict_file], there)
    if archived.is_file():
        upload_files(archived.parent, [archived], target / "archive")
    verdict_there.write_bytes(verdict)
    return True


def _content(file: RemotePath) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
