"""The step that makes the page."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from campaigns import site, upload
from history import remote
from history.folder import SEAL, RunFolder
from history.remote import RemotePath
from operators.assets import PUBLISHED, RUNS
from operators.publish import Publish, Upload


def test_the_page_is_made_of_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The run's path goes in, the page's path comes out, as text; DAGs scheduled on runs get run, verdict and page."""
    monkeypatch.setattr(site, "publish", lambda run: run / "report" / "index.html")
    step = Publish(task_id="publish", run="{{ params.where }}")
    step.render_template_fields({"params": {"where": str(tmp_path)}})

    RunFolder(tmp_path).verdict.mkdir()
    RunFolder(tmp_path).verdict_file.write_text('{"verdict": "fail"}')
    context = asked()

    assert step.execute(context) == str(tmp_path / "report" / "index.html")
    extra = {"run": str(tmp_path), "verdict": "fail", "page": str(tmp_path / "report" / "index.html")}
    assert context["outlet_events"][PUBLISHED].added == {RUNS: extra}
    assert step.execute(asked(judge=False)) is None


def asked(*, judge: bool = True, upload: str | None = None) -> Any:
    """Return Airflow's context of a run with these parameters."""
    added: dict[Asset, dict[str, str]] = {}
    events = SimpleNamespace(added=added, add=lambda asset, extra: added.update({asset: extra}))
    return {"params": {"judge": judge, "upload": upload}, "outlet_events": {PUBLISHED: events}}


@pytest.fixture
def uploaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the names of runs that were uploaded."""
    names: list[str] = []

    def note(run: RunFolder, url: str, _: object) -> RemotePath:
        names.append(run.run_id)
        return RemotePath(url, PurePosixPath("runs")) / run.run_id

    monkeypatch.setattr(upload, "upload_run", note)
    return names


def test_a_recording_that_another_host_judges_is_uploaded_before(tmp_path: Path, uploaded: list[str]) -> None:
    """The following tasks get its URL; a campaign's run stays for the campaign, which uploads it."""
    step, run = Upload(task_id="upload", run=str(tmp_path / "a-run")), str(tmp_path / "a-run")

    assert step.execute(asked(judge=False, upload="s3://bucket")) == run
    assert uploaded == []
    assert step.execute(asked(upload="s3://bucket")) == "s3://bucket/runs/a-run"
    assert uploaded == ["a-run"]


def test_a_judged_run_is_uploaded_unless_it_is_in_the_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uploaded: list[str]
) -> None:
    """A run of this host is uploaded with its page, if requested; a run in the store was written there."""
    monkeypatch.setattr(site, "publish", lambda run: run / "report" / "index.html")
    monkeypatch.setattr(remote, "SCHEMES", ("s3", "fsspec+memory"))
    here, there = (
        Publish(task_id="publish", run=run) for run in (str(tmp_path / "a-run"), "fsspec+memory://bucket/runs/b-run")
    )

    assert there.execute(asked(upload="s3://bucket")) == "fsspec+memory://bucket/runs/b-run/report/index.html"
    (tmp_path / "a-run").mkdir()
    here.execute(asked())
    assert uploaded == []
    here.execute(asked(upload="s3://bucket"))
    assert uploaded == []  # nothing was collected
    (tmp_path / "a-run" / SEAL).write_text("{}")
    here.execute(asked(upload="s3://bucket"))
    assert uploaded == ["a-run"]
