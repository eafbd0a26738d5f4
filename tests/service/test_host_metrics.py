"""Metrics of the host's list of runs, and of campaigns, from literal files."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from clusters.run.host import AT_ONCE
from clusters.run.leftovers import write_lease
from service import host_metrics
from service.host_metrics import HostMetrics
from tests.docs.pages import page, rows, section

DAY_S = 86_400


def samples(site: Path, name: str) -> dict[tuple[str, ...], float]:
    """Return a metric's samples by their label values."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in HostMetrics(site).collect()
        for sample in family.samples
        if sample.name == f"plimsoll_{name}"
    }


# --- the host --------------------------------------------------------------------------------------


def guest(own_host: Path, name: str, at_once: int, *, is_admitted: bool, waited_s: float = 0.0) -> None:
    """Write a run's entry in the list."""
    run = own_host.parent / name
    (run / "work").mkdir(parents=True)
    write_lease(run, "time")
    asked_ns = time.monotonic_ns() - int(waited_s * 1e9)
    own_host.mkdir(exist_ok=True)
    about = {"who": name, "at_once": at_once, "asked_ns": asked_ns, "is_admitted": is_admitted, "run": str(run)}
    (own_host / name).write_text(json.dumps(about))


def test_runs_of_the_host_are_counted(own_host: Path, tmp_path: Path) -> None:
    """Each kind and state has a count, also if it is 0; the least limit of the admitted runs is the host's."""
    guest(own_host, "r1", 4, is_admitted=True)
    guest(own_host, "r2", 3, is_admitted=True)
    guest(own_host, "r3", 2, is_admitted=False)
    guest(own_host, "b1", 1, is_admitted=False)
    guest(own_host, "judging r0", 0, is_admitted=True)

    assert samples(tmp_path, "host_runs") == {
        ("benchmark", "admitted"): 0,
        ("benchmark", "waiting"): 1,
        ("run", "admitted"): 2,
        ("run", "waiting"): 1,
        ("other", "admitted"): 1,
        ("other", "waiting"): 0,
    }
    assert samples(tmp_path, "host_slots") == {(): 3}


def test_a_benchmark_that_runs_is_shown(own_host: Path, tmp_path: Path) -> None:
    """An admitted run that permits no other is a benchmark, one that permits two is none."""
    guest(own_host, "b1", 1, is_admitted=True)
    assert samples(tmp_path, "host_runs")["benchmark", "admitted"] == 1
    assert samples(tmp_path, "host_slots") == {(): 1}

    (own_host / "b1").unlink()
    guest(own_host, "r1", 2, is_admitted=True)
    assert samples(tmp_path, "host_runs")["benchmark", "admitted"] == 0


def test_an_empty_host_has_its_default_slots(own_host: Path, tmp_path: Path) -> None:
    """Without a list all counts are 0, and the list is not made."""
    assert set(samples(tmp_path, "host_runs").values()) == {0}
    assert samples(tmp_path, "host_slots") == {(): AT_ONCE}
    assert samples(tmp_path, "host_run_info") == {}
    assert not own_host.exists()


def test_only_a_waiting_run_has_a_waiting_time(own_host: Path, tmp_path: Path) -> None:
    """Each run on the list has its limit and state, a waiting one also the time since its first request."""
    guest(own_host, "r1", 2, is_admitted=True, waited_s=50)
    guest(own_host, "b1", 1, is_admitted=False, waited_s=40)

    assert samples(tmp_path, "host_run_info") == {
        ("r1", "run", "admitted", "2"): 1,
        ("b1", "benchmark", "waiting", "1"): 1,
    }
    [(names, waited_s)] = samples(tmp_path, "host_run_waiting_seconds").items()
    assert names == ("b1",)
    assert 40 <= waited_s < 100


def test_two_runs_of_one_name_are_one_series(own_host: Path, tmp_path: Path) -> None:
    """Runs of two checkouts may have the same name; duplicate labels would invalidate the scrape."""
    guest(own_host, "r1", 2, is_admitted=True)
    (own_host / "other").write_text((own_host / "r1").read_text())

    info = [each for family in HostMetrics(tmp_path).collect() for each in family.samples if "run_info" in each.name]
    assert [sample.labels["run"] for sample in info] == ["r1"]
    assert samples(tmp_path, "host_runs")["run", "admitted"] == 2


# --- campaigns -------------------------------------------------------------------------------------

ITEM = {"scenario": "steady", "kafka": "3.9.1"}
PLAN = {"campaign_id": "c1", "kind": "compare", "created_at": "2026-01-01", "seed": 1, "settings": {}}
RESULT = {"campaign_id": "c1", "created_at": "2026-01-01", "state": "fail", "sentence": "It is worse."}


def event(kind: str, step: str = "", target: str = "", **detail: Any) -> str:
    """Return a line of stages.jsonl."""
    when = {"t_ns": 1, "wall": "2026-11-30T07:00:00+00:00"}
    return json.dumps({**when, "kind": kind, "step": step, "target": target, "detail": detail}) + "\n"


BEGUN = event("campaign_begun")
RECORDED = event("stage_started", "record", "a") + event("stage_ended", "record", "a", state="success")
FAILED = event("stage_started", "record", "b") + event("stage_ended", "record", "b", state="failed", why="x")
STARTED = event("stage_started", "record", "c")
CONCLUDED = event("stage_started", "conclude") + event("stage_ended", "conclude", state="success")


def campaign(site: Path, events: str, name: str = "c1") -> Path:
    """Write the folder of a campaign of four items."""
    folder = site / "compare" / name
    folder.mkdir(parents=True, exist_ok=True)
    items = [{"name": item, **ITEM} for item in "abcd"]
    (folder / "campaign.json").write_text(json.dumps({**PLAN, "campaign_id": name, "items": items}))
    (folder / "stages.jsonl").write_text(events)
    return folder


def test_items_are_counted_by_their_last_try(tmp_path: Path) -> None:
    """An item is recorded, failed, being recorded, or was not tried; a later try counts instead of an earlier one."""

    def counts() -> list[float]:
        return list(samples(tmp_path, "campaign_items").values())

    campaign(tmp_path, BEGUN)
    assert samples(tmp_path, "campaign_items") == {
        ("c1", "pending"): 4,
        ("c1", "recording"): 0,
        ("c1", "recorded"): 0,
        ("c1", "failed"): 0,
    }
    campaign(tmp_path, BEGUN + RECORDED + FAILED + STARTED)
    assert counts() == [1, 1, 1, 1]
    campaign(tmp_path, BEGUN + RECORDED + FAILED + STARTED + FAILED.replace('"b"', '"c"') + BEGUN)
    assert counts() == [1, 0, 1, 2]
    campaign(tmp_path, BEGUN + RECORDED + FAILED + BEGUN + RECORDED.replace('"a"', '"b"'))
    assert counts() == [2, 0, 2, 0]


@pytest.mark.parametrize(
    ("events", "state"),
    [
        (BEGUN, "in_progress"),
        (BEGUN + FAILED, "in_progress"),
        (BEGUN + event("stage_ended", "judge", state="success"), "in_progress"),
        (BEGUN + event("stage_ended", "judge", state="failed", why="x"), "failed"),
        (BEGUN + CONCLUDED, "concluded"),
        (BEGUN + CONCLUDED.replace("success", "failed"), "failed"),
        (BEGUN + CONCLUDED + BEGUN, "in_progress"),
        (BEGUN + event("stage_started", "conclude"), "in_progress"),
    ],
)
def test_a_campaigns_state_is_that_of_its_last_event(tmp_path: Path, events: str, state: str) -> None:
    """It is concluded, or failed in a stage, until it is resumed; an item that failed does not end it."""
    campaign(tmp_path, events)

    assert samples(tmp_path, "campaign_info") == {("c1", "compare", state, ""): 1}


def test_a_result_and_its_time_are_shown(tmp_path: Path) -> None:
    """The last result is shown with the time of the last event; without a result the label is empty."""
    folder = campaign(tmp_path, BEGUN)
    assert samples(tmp_path, "campaign_info") == {("c1", "compare", "in_progress", ""): 1}

    (folder / "result.json").write_text(json.dumps(RESULT))
    campaign(tmp_path, BEGUN + CONCLUDED)
    assert samples(tmp_path, "campaign_info") == {("c1", "compare", "concluded", "fail"): 1}
    assert samples(tmp_path, "campaign_last_event_timestamp_seconds") == {("c1",): 1796022000}


def test_rounds_with_items_are_counted(tmp_path: Path) -> None:
    """The plan is round 1; each decided round counts, except one without items."""
    folder = campaign(tmp_path, BEGUN)
    assert samples(tmp_path, "campaign_round") == {("c1",): 1}

    more = {"items": [{"name": "e", **ITEM}], "is_final": True}
    (folder / "rounds.json").write_text(json.dumps([more, {"items": [], "is_final": True}]))
    campaign(tmp_path, BEGUN + RECORDED)
    assert samples(tmp_path, "campaign_round") == {("c1",): 2}
    assert samples(tmp_path, "campaign_items")["c1", "pending"] == 4


@pytest.mark.parametrize(("days", "is_shown"), [(6.9, True), (7.1, False)])
def test_only_recent_campaigns_are_shown(tmp_path: Path, days: float, is_shown: bool) -> None:
    """A campaign without an event for 7 days is not shown."""
    last_s = time.time() - days * DAY_S
    os.utime(campaign(tmp_path, BEGUN) / "stages.jsonl", (last_s, last_s))

    assert bool(samples(tmp_path, "campaign_round")) is is_shown


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("campaign.json", "{"),
        ("stages.jsonl", ""),
        ("stages.jsonl", "[1]\n"),
        ("stages.jsonl", "x\n"),
        ("rounds.json", "{"),
        ("result.json", "{"),
    ],
)
def test_an_unreadable_campaign_hides_no_other(tmp_path: Path, file: str, text: str) -> None:
    """A campaign that cannot be read has no sample, and the others have theirs."""
    campaign(tmp_path, BEGUN, "c2")
    (campaign(tmp_path, BEGUN) / file).write_text(text)

    for name in ("info", "items", "round", "last_event_timestamp_seconds"):
        assert {labels[0] for labels in samples(tmp_path, f"campaign_{name}")} == {"c2"}


def test_a_campaign_is_read_again_after_each_event_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape without a new event reads no campaign."""
    read: list[str] = []
    plain = host_metrics.progress
    monkeypatch.setattr(host_metrics, "progress", lambda folder: (read.append(folder.path.name), plain(folder))[1])
    campaign(tmp_path, BEGUN)
    for _ in range(2):
        samples(tmp_path, "campaign_round")
    assert read == ["c1"]

    campaign(tmp_path, BEGUN + STARTED)
    samples(tmp_path, "campaign_round")
    assert read == ["c1", "c1"]


def test_every_metric_is_on_its_page(own_host: Path, tmp_path: Path) -> None:
    """docs/observability.md lists every metric with its labels, and no others."""
    table = rows(section(page("observability.md"), "The host and campaigns"))[2:]
    guest(own_host, "b1", 1, is_admitted=False)
    campaign(tmp_path, BEGUN)
    shown = {
        sample.name: list(sample.labels) for family in HostMetrics(tmp_path).collect() for sample in family.samples
    }

    assert shown == {name: re.findall(r"\w+", labels) for name, labels, _ in table}
