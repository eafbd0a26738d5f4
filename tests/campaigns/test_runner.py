"""A campaign's steps, with judging patched: finished steps are kept and not repeated."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from campaigns import runner, upload
from campaigns.campaign import CampaignFolder
from campaigns.claims import campaign as claims
from campaigns.places import Places
from clusters.run import experiment
from history.errors import BadInput, NoDocker
from history.results.claims import ClaimsResult
from tests.campaigns.nightly.test_campaign import LATE, SLOW, with_reruns
from tests.campaigns.nightly_runs import campaign_of, history, name_of
from tests.campaigns.sample_runs import sealed_run

SETTINGS = {"base": "3.9.0", "head": "3.9.1", "scenarios": ["steady"], "pairs": 2, "aa_pairs": 2}


# --- the plan --------------------------------------------------------------------------------------


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Keeps the arguments of checks, which would download jars and images: (scenario, version, runtime)."""
    made: list[tuple[str, str, str]] = []

    def check(scenario: str, *, kafka: str, runtime: str, cluster: Path | None, changes: object) -> None:
        assert changes is not None
        made.append((scenario, str(cluster or kafka), runtime))
        if kafka == "9.9.9":
            raise BadInput("There is no Kafka 9.9.9.")

    monkeypatch.setattr(experiment, "check", check)
    return made


def test_what_no_run_can_have_is_refused_before_the_first(places: Places, checked: list[tuple[str, str, str]]) -> None:
    """Each side of a comparison is checked once before anything is written; invalid names are rejected."""
    with pytest.raises(BadInput, match=r"There is no Kafka 9\.9\.9"):
        runner.plan("compare", SETTINGS | {"head": "9.9.9"}, name="c", seed=1, places=places)
    for name in ("a/b", "..", "."):
        with pytest.raises(BadInput, match=f"--name={re.escape(name)} is no name of a folder"):
            runner.plan("compare", SETTINGS, name=name, seed=1, places=places)

    assert sorted(set(checked)) == [("steady", "3.9.0", "docker"), ("steady", "9.9.9", "docker")]
    assert not places.site.exists()


def test_clusters_of_others_are_asked_before_the_first_run(places: Places, checked: list[tuple[str, str, str]]) -> None:
    """Each once; a connection is read by what the caller gives, and by a command not at all."""
    asked = SETTINGS | {"base": "/c/a.yaml", "head": "connection:canary"}
    with pytest.raises(BadInput, match="connection:canary is a connection of Airflow"):
        runner.plan("compare", asked, name="c", seed=1, places=places)
    runner.plan("compare", asked, name="c", seed=1, places=places, cluster_named=lambda name: Path("/named") / name)

    assert set(checked[-3:]) == {("steady", "/c/a.yaml", "docker"), ("steady", "/named/canary", "docker")}


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        ("claims", {"kafka": "4.3.0"}, "its runs need Docker, and no Docker daemon answers; start dockerd and repeat"),
        (
            "clients",
            {"kafka": "4.3.0", "runtime": "docker"},
            "--runtime=docker, but no Docker daemon answers; start it",
        ),
    ],
)
def test_without_docker_no_option_is_named_that_the_command_lacks(
    kind: str, settings: dict[str, Any], says: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Docker, the message names only options that the command has."""

    def check(*_: object, **__: object) -> None:
        raise NoDocker("--runtime=docker, but no Docker daemon answers; start it, or use --runtime=process.")

    monkeypatch.setattr(experiment, "check", check)
    with pytest.raises(BadInput, match=says):
        runner.plan(kind, settings, name="c", seed=1, places=places)


@pytest.mark.usefixtures("checked")
def test_runs_that_do_not_fit_on_the_disk_are_refused(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that would not fit on the disk are rejected before anything is written."""
    settings = {**SETTINGS, "changes": {"load": {"rate": "40000/s", "record_bytes": 1000}}}
    free = 10**9
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(BadInput, match=r"Runs of c to record: 8. They would keep \d+ GB .*, where 1 GB are free"):
        runner.plan("compare", settings, name="c", seed=1, places=places)
    assert not places.site.exists()

    free = 10**12
    assert runner.plan("compare", settings, name="c", seed=1, places=places).plan.exists()


@pytest.mark.usefixtures("checked")
def test_where_runs_are_uploaded_to_is_asked_before_the_first(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid upload target is rejected at planning; a valid one is kept with the campaign."""
    with pytest.raises(BadInput, match="--upload=elsewhere is no URL"):
        runner.plan("compare", SETTINGS, name="c", seed=1, places=places, upload_to="elsewhere")
    assert not places.site.exists()

    monkeypatch.setattr(upload, "check_reachable", lambda _: None)
    runner.plan("compare", SETTINGS, name="c", seed=1, places=places, upload_to="s3://bucket/x")
    again = runner.plan("compare", SETTINGS, name="c", seed=None, places=places)
    assert upload.url_of(again) == "s3://bucket/x"


@pytest.mark.usefixtures("checked")
def test_a_campaign_of_the_same_name_and_question_goes_on(places: Places) -> None:
    """A campaign of the same name and settings is resumed; other settings under that name are rejected."""
    first = runner.plan("compare", SETTINGS, name="c", seed=1, places=places)
    planned = first.read_plan()

    assert runner.plan("compare", SETTINGS, name="c", seed=None, places=places).read_plan() == planned
    with pytest.raises(BadInput, match="holds another plan"):
        runner.plan("compare", SETTINGS | {"pairs": 3}, name="c", seed=1, places=places)


@pytest.mark.usefixtures("checked")
def test_two_kinds_of_campaign_cannot_share_a_name(places: Places) -> None:
    """Two kinds of campaigns cannot have the same name, since the archive stores names without kinds."""
    runner.plan("compare", SETTINGS, name="c", seed=1, places=places)

    with pytest.raises(BadInput, match="has the name c already"):
        runner.plan("claims", {"kafka": "3.9.1"}, name="c", seed=1, places=places)
    assert runner.plan("claims", {"kafka": "3.9.1"}, name="d", seed=1, places=places).plan.exists()


# --- judging ---------------------------------------------------------------------------------------


def test_runs_are_judged_once_and_some_together(
    folder: CampaignFolder, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several runs are judged in one Spark application; archived runs are not judged again."""
    together: list[list[str]] = []
    monkeypatch.setattr(runner, "TOGETHER", 2)
    monkeypatch.setattr(runner, "judge", lambda runs: together.append([run.name for run in runs]))
    monkeypatch.setattr(runner, "publish", lambda _: None)
    for item in ("run-1", "run-2", "run-3"):
        sealed_run(places, item, broke=item == "run-2")  # its page shows what broke

    assert len(runner.judge_recorded(folder, places)) == 3
    assert together == [["20260101-c1-run-1", "20260101-c1-run-2"], ["20260101-c1-run-3"]]

    monkeypatch.setattr("history.archive.read", lambda *_, **__: [{"run_id": "20260101-c1-run-1"}])
    assert runner.judge_recorded(folder, places) == ["20260101-c1-run-2", "20260101-c1-run-3"]


def test_claims_are_answered_from_what_was_recorded(places: Places) -> None:
    """Claims are answered from run folders; missing experiments are named, and the page is written."""
    settings = {"kafka": "3.9.1", "experiments": ["eviction", "elections"]}
    campaign = claims.plan(settings, campaign_id="c1", created_at="2026-11-21T08:00:00+00:00", seed=1)
    folder = CampaignFolder.of(places.site, "claims", "c1")
    folder.write_plan(campaign)
    run = sealed_run(places, "eviction")
    found = runner.conclude(folder, places)

    assert ClaimsResult.read(folder.result) == found
    assert found.sentence.endswith("Not recorded to the end: elections.")
    assert json.loads(folder.result.read_text())["answers"]["C14"]["run_id"] == run.run_id
    assert "C48" in folder.page.read_text()

    with run.events.open("a") as events:
        events.write(json.dumps({"t_ns": 9, "wall": "", "kind": "error", "detail": {"why": "no answer"}}) + "\n")
    runner.conclude(folder, places)
    assert ClaimsResult.read(folder.result).runs == {}  # it broke off


def test_what_reruns_decided_is_never_decided_again(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slowdown that reruns confirmed stays confirmed if those runs are judged again."""
    slow = history(LATE + 2, SLOW)
    upto = [row for row in slow if row["labels"]["campaign"] <= name_of(LATE)]
    first = with_reruns(upto, 1.2)
    reruns = [{**row, "verdict": "unknown"} for row in first[len(upto) :]]

    def state_of(nightly_run: int, rows: list[dict[str, Any]]) -> str:
        rows = [{"complete": True, "machine": None, "judge": None, **row} for row in rows]
        monkeypatch.setattr("history.archive.read", lambda *_, **__: rows)
        monkeypatch.setattr("reports.index_page.render", lambda *_: "")
        folder = CampaignFolder.of(places.site, "nightly", name_of(nightly_run))
        folder.write_plan(campaign_of(nightly_run))
        runner.conclude(folder, places)
        told = json.loads(folder.result.read_text())["series"]
        return next(each["state"] for each in told if (each["role"], each["kafka_version"]) == ("matrix", "4.3.0"))

    assert state_of(LATE, first) == "confirmed"
    assert state_of(LATE, [*upto, *reruns]) == "confirmed"
    assert state_of(LATE + 1, [*slow, *reruns]) == "confirmed"


def test_a_result_names_the_plimsoll_and_the_judges_that_it_rests_on(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result has the Plimsoll version and the judges of this campaign's runs, each once."""
    own = [{**row, "judge": judge} for row, judge in zip(history(1), ("a1", "b2", "a1", "a1"), strict=True)]
    other = {**own[0], "judge": "c3", "labels": {**own[0]["labels"], "campaign": "another"}}
    rows = [{"complete": True, "machine": None, **row} for row in [*own, other]]
    monkeypatch.setattr("history.archive.read", lambda *_, **__: rows)
    monkeypatch.setattr("reports.index_page.render", lambda *_: "")
    folder = CampaignFolder.of(places.site, "nightly", name_of(0))
    folder.write_plan(campaign_of(0))
    runner.conclude(folder, places)
    result = json.loads(folder.result.read_text())

    assert result.get("judges") == ["a1", "b2"]
    assert result["plimsoll"].startswith("0.1.0 (")
