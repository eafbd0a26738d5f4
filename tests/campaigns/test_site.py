"""The archive of published runs, and the index page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from campaigns.campaign import Campaign, CampaignFolder
from campaigns.places import Places
from campaigns.site import archived, concluded, links_from, publish, rebuild, write_index
from history import archive
from history.folder import RunFolder
from history.tables import METRICS
from tests.reports.sample_run import write_sample_run


def _judged(places: Places, name: str) -> Path:
    run = RunFolder(write_sample_run(places.runs / name))
    verdict = json.loads(run.verdict_file.read_text())
    run.verdict_file.write_text(json.dumps(verdict | {"invariants": {}}))
    run.judged("metrics").mkdir(exist_ok=True)
    row: dict[str, Any] = {"metric": "elect_s", "phase": "p", "value": 1.5, "censored": False, "trusted": True}
    pq.write_table(pa.Table.from_pylist([row], schema=METRICS), run.judged("metrics") / "part-0.parquet")
    run.seal()
    return run.path


def test_a_published_run_is_in_the_archive(tmp_path: Path) -> None:
    """A published run has a page and archive rows; one without a verdict has its page only."""
    places = Places.beside(tmp_path / "runs")
    judged, other = _judged(places, "run-1"), _judged(places, "run-2")
    (other / "verdict" / "verdict.json").unlink()

    assert publish(judged).is_file()
    assert publish(other).is_file()
    assert [row["metric"] for row in archive.read(places.archive)] == ["elect_s"]
    assert archived(places)[0][2:] == ("pass", 1, "")


def test_the_archive_is_built_again_from_the_run_folders(tmp_path: Path) -> None:
    """The archive can be rebuilt from the run folders; a folder without a verdict is named."""
    places = Places.beside(tmp_path / "runs")
    publish(_judged(places, "run-1"))
    before = archive.read(places.archive)
    next(places.archive.iterdir()).unlink()
    (_judged(places, "run-2") / "verdict" / "verdict.json").unlink()

    problems = rebuild(places)

    assert archive.read(places.archive) == before
    assert len(problems) == 1
    assert "run-2 holds no verdict" in problems[0]


def test_only_pages_that_exist_are_linked(tmp_path: Path) -> None:
    """Only existing pages are linked, by relative paths."""
    places = Places.beside(tmp_path / "runs")
    publish(_judged(places, "run-1"))
    rows = [{"run_id": "run-1"}, {"run_id": "gone"}]

    pages = [
        places.site / kind / name / "index.html" for kind, name in (("nightly", "n1"), ("nightly", "n2"), ("x", "x"))
    ]
    for page in pages:
        page.parent.mkdir(parents=True)
        page.touch()

    found = links_from(pages[0], rows, places)

    assert found == {"run-1": "../../../runs/run-1/report/index.html", "n2": "../n2/index.html"}


def test_the_index_tells_of_every_campaign(tmp_path: Path) -> None:
    """The index lists campaigns with a result, newest first, and marks results of an older format."""
    places = Places.beside(tmp_path / "runs")
    for name, day in (("old", "2026-01-01"), ("new", "2026-01-02"), ("unfinished", "2026-01-03")):
        folder = CampaignFolder.of(places.site, "capacity", name)
        folder.write_plan(Campaign(campaign_id=name, kind="capacity", created_at=day, seed=1, settings={}, items=[]))
        if name != "unfinished":
            about = {"campaign_id": name, "created_at": day, "state": "pass", "sentence": f"{name} says."}
            folder.result.write_text(json.dumps(about))
    old = places.site / "capacity" / "old" / "result.json"
    old.write_text(json.dumps({"sentence": "old says."}))

    assert [each.result.campaign_id for kind in concluded(places) for each in kind.concluded] == ["new", "old"]
    index = write_index(places).read_text()
    assert "new says." in index
    assert "is no result of this format" in index
