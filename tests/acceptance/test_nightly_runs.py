"""Nightly runs of correctness alone are counted once; others are not."""

import json

from campaigns.campaign import CampaignFolder
from history.events import Event
from history.results.nightly import NightlyResult
from tests.acceptance import nightly_runs
from tests.reports.nightly_runs import first_nightly_runs


def concluded(site, name: str, result: NightlyResult) -> CampaignFolder:
    """Return a nightly run whose two stages lie five minutes apart."""
    folder = CampaignFolder.of(site, "nightly", name)
    folder.path.mkdir(parents=True)
    folder.result.write_text(result.model_dump_json())
    stages = [Event(minute * 60_000_000_000, "", "stage_started", step="items") for minute in (0, 5)]
    folder.stages.write_text("".join(json.dumps(vars(stage)) + "\n" for stage in stages))
    return folder


def test_only_correctness_that_is_whole_counts(tmp_path) -> None:
    """Only a complete nightly run of correctness counts: not one with benchmarks or with a missing run."""
    benchmarks = first_nightly_runs()
    correctness = benchmarks.model_copy(update={"settings": {**benchmarks.settings, "scenarios": []}})
    open_ = correctness.model_copy(
        update={"runs": [run.model_copy(update={"run_id": None}) for run in correctness.runs]}
    )

    row = nightly_runs.row_of(concluded(tmp_path, "a", correctness))
    assert row is not None
    assert (row["minutes"], len(row["runs"])) == (5.0, len(correctness.runs))
    assert nightly_runs.row_of(concluded(tmp_path, "b", benchmarks)) is None
    assert nightly_runs.row_of(concluded(tmp_path, "c", open_)) is None


def test_rows_stay_when_their_site_is_gone(tmp_path, monkeypatch) -> None:
    """Rows remain after their site is removed, and the same nightly run is not counted twice."""
    monkeypatch.setattr(nightly_runs, "RESULTS", tmp_path / "rows.json")
    result = first_nightly_runs()
    concluded(tmp_path, "a", result.model_copy(update={"settings": {**result.settings, "scenarios": []}}))
    for site in (tmp_path, tmp_path, tmp_path / "gone"):
        assert nightly_runs.main([str(site)]) == 0

    assert len(json.loads((tmp_path / "rows.json").read_text())) == 1
