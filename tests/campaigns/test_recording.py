"""Which items of a campaign have a run that counts."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from campaigns import recording, rounds
from campaigns.campaign import Campaign, CampaignFolder, Item
from campaigns.places import Places
from history import archive
from history.events import EventLog
from history.folder import RunFolder
from history.tables import METRICS
from tests.campaigns.sample_runs import sealed_run


def test_what_was_recorded_is_not_outstanding(folder: CampaignFolder, places: Places) -> None:
    """A sealed run of this campaign is done; an interrupted run or another campaign's is not."""
    sealed_run(places, "run-1")
    (sealed_run(places, "run-2").path / "sealed.json").unlink()
    sealed_run(places, "run-3", campaign="c2")
    items = folder.read_plan().items

    assert [item.name for item in rounds.outstanding(folder, items, places)] == ["run-2", "run-3"]


def test_an_item_that_broke_is_recorded_again(folder: CampaignFolder, places: Places) -> None:
    """An item is recorded again until a run ends without a harness error; the first such run counts."""
    items, campaign = folder.read_plan().items, folder.read_plan()
    sealed_run(places, "run-1", broke=True)
    sealed_run(places, "run-2")
    assert [item.name for item in rounds.outstanding(folder, items, places)] == ["run-1", "run-3"]

    for day, broke in (("20260102", False), ("20260103", True), ("20260104", False)):
        sealed_run(places, "run-1", day=day, broke=broke)
    assert [item.name for item in rounds.outstanding(folder, items, places)] == ["run-3"]
    found = {item: run.name for item, run in recording.recorded_runs(campaign, places).items()}
    assert found == {"run-1": "20260102-c1-run-1", "run-2": "20260101-c1-run-2"}
    assert len(list(recording.collected_runs(campaign, places))) == 5


@pytest.mark.parametrize(
    ("verdict", "complete", "is_done"),
    [("unknown", False, False), ("fail", False, True), ("unknown", True, True), ("unknown", None, False)],
)
def test_an_archived_run_is_done_unless_the_harness_broke(  # noqa: PLR0917  # of two fixtures and a case
    folder: CampaignFolder,
    places: Places,
    monkeypatch: pytest.MonkeyPatch,
    verdict: str,
    complete: bool | None,
    is_done: bool,
) -> None:
    """An archived run is done if it is complete or violated a guarantee; an incomplete unknown one is not."""
    row = archived("run-1", verdict=verdict, complete=complete)
    monkeypatch.setattr("history.archive.read", lambda *_, **__: [row])

    left = rounds.outstanding(folder, folder.read_plan().items, places)
    assert [item.name for item in left] == (["run-2", "run-3"] if is_done else ["run-1", "run-2", "run-3"])
    assert recording.counted([row]) == ([row] if is_done else [])


@pytest.mark.parametrize("broke", [True, False])
def test_a_result_does_not_change_when_run_folders_are_deleted(
    folder: CampaignFolder, places: Places, broke: bool
) -> None:
    """The result is the same after run folders are deleted, since the archive has the completeness."""
    run = sealed_run(places, "run-1", broke=broke)
    without_verdict(run)
    archive.add(places.archive, archive.rows_of(run))
    items = folder.read_plan().items

    before = [item.name for item in rounds.outstanding(folder, items, places)]
    shutil.rmtree(run.path)

    assert before == (["run-1", "run-2", "run-3"] if broke else ["run-2", "run-3"])
    assert [item.name for item in rounds.outstanding(folder, items, places)] == before


def without_verdict(run: RunFolder) -> None:
    """Judge a sample run as unknown, with one metric."""
    told = {"verdict": "unknown", "sentence": "Inconclusive: no probe.", "anomalies": {}, "invariants": {}}
    run.verdict_file.write_text(json.dumps(told))
    run.judged("metrics").mkdir(parents=True, exist_ok=True)
    row = {"metric": "catch_up_s", "phase": "", "value": 1.0, "samples": 1, "censored": False, "trusted": True}
    pq.write_table(pa.Table.from_pylist([{**row, "note": None}], METRICS), run.judged("metrics") / "part-0.parquet")


def archived(
    item: str, day: str = "20260101", *, verdict: str = "pass", campaign: str = "c1", complete: bool | None = True
) -> dict[str, Any]:
    """Return a row of an archived run."""
    about = {"verdict": verdict, "complete": complete, "labels": {"campaign": campaign, "item": item}}
    return {"run_id": f"{day}-{campaign}-{item}", "started_at": day, **about}


def test_a_claims_run_that_broke_is_recorded_again_whatever_it_showed(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken run of a claim's experiment is recorded again, even if it failed."""
    items = [Item(name="eviction", scenario="claims_eviction", kafka="3.9.1", labels={"role": "eviction"})]
    folder = CampaignFolder.of(places.site, "claims", "c1")
    folder.write_plan(
        Campaign(campaign_id="c1", kind="claims", created_at="2026-01-01", seed=1, settings={}, items=items)
    )
    monkeypatch.setattr("history.archive.read", lambda *_, **__: [archived("eviction", verdict="fail")])
    sealed_run(places, "eviction", broke=True)
    assert recording.recorded_runs(folder.read_plan(), places) == {}
    assert rounds.outstanding(folder, items, places) == items

    run = sealed_run(places, "eviction", day="20260102")
    assert recording.recorded_runs(folder.read_plan(), places) == {"eviction": run.path}
    assert rounds.outstanding(folder, items, places) == []


def test_of_several_runs_of_an_item_the_first_that_counts_is_its_own() -> None:
    """Of several runs of an item, the first one that counts is used."""
    broke, own, again = (archived("run-1", day, verdict=verdict, complete=False) for day, verdict in (
        ("20260101", "unknown"), ("20260102", "fail"), ("20260103", "pass")
    ))  # fmt: skip
    others = [
        archived("run-2", "20260103"),
        archived("run-1", "20260103", campaign="c2"),
        {**again, "run_id": "r", "labels": {}},
    ]

    assert recording.counted([again, *others, own, broke]) == [*others, own]
    assert recording.counted([own, {**own, "metric": "elect_s"}]) == [own, {**own, "metric": "elect_s"}]


@pytest.mark.parametrize(
    ("kinds", "is_fault"),
    [(["inject"], True), (["start", "inject", "error"], True), (["start", "error"], False)],
)
def test_a_fault_counts_from_its_request(places: Places, kinds: list[str], is_fault: bool) -> None:
    """A run had a fault once it was to be injected, whether or not it took effect; other events are none."""
    run = RunFolder(places.runs / "r")
    run.path.mkdir(parents=True)
    for kind in kinds:
        EventLog(run.events).add(kind, step="kill", target="broker-1")

    assert recording.had_fault(run.path) is is_fault
