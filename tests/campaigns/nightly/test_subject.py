"""A nightly run of a build that changes each time, compared with a pinned release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from campaigns.campaign import Campaign
from campaigns.nightly import campaign as nightly
from campaigns.nightly import subject, words
from campaigns.nightly.settings import Subject, check
from clusters.kafka.builds import Build
from history.errors import BadInput
from history.results.nightly import NightlyResult
from reports.nightly_page import render
from tests.campaigns.nightly_runs import SETTINGS, Row, campaign_of, figure, rerun, rows_of

LATE = 14
ASKED: dict[str, Any] = {
    "subject": {"name": "trunk", "kafka": "dist", "link": "https://example.org/{commit}"},
    "versions": ["3.9.1"],
    "repetitions": 3,
}


@pytest.fixture(autouse=True)
def builds(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The build of the day: version, commit and digest; nothing is copied."""
    today = {"version": "4.4.0-SNAPSHOT", "commit": "a" * 40, "digest": "0123456789abcdef"}

    def build_of(kafka: str) -> Build:
        jars = Path("/cache") / f"own-{today['digest']}"
        return Build(version=today["version"], jars=jars, origin=f"folder {kafka}", commit=today["commit"])

    monkeypatch.setattr(subject, "build_of", build_of)
    monkeypatch.delenv("BUILD_ID", raising=False)
    return today


def of_day(builds: dict[str, str], day: int) -> Campaign:
    """Return the plan of a nightly run; each day has another commit, and day 5 on another version."""
    builds |= {"commit": f"{day:040d}", "digest": f"{day:016d}"}
    builds["version"] = "4.5.0-SNAPSHOT" if day > 4 else "4.4.0-SNAPSHOT"
    return campaign_of(day, **ASKED)


def recorded(campaign: Campaign, day: int, since: int, factor: float) -> list[Row]:
    """Return the day's runs, with the subject slower from this day on."""
    rows = rows_of(campaign, campaign.items, lambda item: figure(item, day, {}))
    for row in rows:
        if "subject" in row["labels"]:
            row["kafka_version"] = row["labels"]["build"].partition(" ")[0]
            row["value"] *= factor if day >= since else 1
    return rows


def told(builds: dict[str, str], days: int, *, since: int = 99, factor: float = 1.0) -> NightlyResult:
    """Return the result of the last of these nightly runs, with its reruns."""
    rows: list[Row] = []
    for day in range(days):
        campaign = of_day(builds, day)
        rows += recorded(campaign, day, since, factor)
    reruns = rows_of(campaign, nightly.follow_up(campaign, rows), rerun(factor))
    return nightly.result(campaign, rows + reruns)


# --- the plan ----------------------------------------------------------------------------------------


def test_all_runs_of_the_subject_have_the_same_jars_and_say_which(builds: dict[str, str]) -> None:
    """All runs of the subject use the jars copied at planning and are labelled with the build; releases are not."""
    campaign = of_day(builds, 3)
    own = [item for item in campaign.items if "subject" in item.labels]

    assert {item.kafka for item in own} == {"/cache/own-0000000000000003"}
    assert {item.labels["build"] for item in own} == {"4.4.0-SNAPSHOT (commit 000000000000, jars 0000000000000003)"}
    assert {item.labels["link"] for item in own} == {f"https://example.org/{3:040d}"}
    assert {item.kafka for item in campaign.items if item not in own} == {"3.9.1"}
    assert [item.name for item in own] == ["steady-trunk-1", "steady-trunk-2", "steady-trunk-3"]


def test_subject_and_release_alternate(builds: dict[str, str]) -> None:
    """Subject and release alternate in who runs first."""
    matrix = [item for item in of_day(builds, 0).items if item.labels["role"] == "matrix"]

    assert [item.labels["pair"] for item in matrix] == ["1", "1", "2", "2", "3", "3"]
    assert ["subject" in item.labels for item in matrix] == [True, False, False, True, True, False]


def test_a_command_builds_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The subject's command runs first; the build number comes from the environment; a failed command is bad input."""
    made = tmp_path / "made"
    monkeypatch.setenv("CI_NUMBER", "77")
    staged = subject.stage(Subject(kafka="dist", command=f"cd / && touch {made}", build_id="CI_NUMBER"))

    assert made.exists()
    assert staged.labels["build"].endswith("jars 0123456789abcdef, build 77)")
    with pytest.raises(BadInput, match="ended with exit code 4: exit 4"):
        subject.stage(Subject(kafka="dist", command="exit 4"))


def test_a_release_may_pose_as_the_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release can be the subject and is started by its version."""
    monkeypatch.setattr(subject, "build_of", lambda kafka: Build(version=kafka, jars=Path("/released")))

    assert subject.stage(Subject(kafka="3.9.0")) == ("3.9.0", {"subject": "subject", "build": "3.9.0", "link": ""})


@pytest.mark.parametrize("name", ["", "3.9.1", "my build"])
def test_a_name_that_could_be_a_version_is_refused(name: str) -> None:
    """A subject name that could be a version is rejected."""
    with pytest.raises(BadInput, match=r"subject\.name"):
        check({**SETTINGS, "subject": {"name": name, "kafka": "dist"}})


def test_a_subject_beside_itself_is_refused() -> None:
    """A subject that is also one of the versions is rejected."""
    with pytest.raises(BadInput, match=r"the subject is 3\.9\.1, which is also one of the versions"):
        check({**SETTINGS, "subject": {"kafka": "3.9.1"}})


# --- the result ----------------------------------------------------------------------------------------


def test_a_new_version_number_does_not_reset_its_history(builds: dict[str, str]) -> None:
    """The subject has one series over all builds, each point labelled with its build."""
    found = told(builds, LATE)
    series = {each.kafka_version: each for each in found.series if each.role == "matrix"}

    assert series.keys() == {"trunk", "3.9.1"}
    assert {each.state for each in series.values()} == {"steady"}
    assert [point.build[:14] for point in series["trunk"].points[3:6]] == ["4.4.0-SNAPSHOT"] * 2 + ["4.5.0-SNAPSHOT"]
    assert len({point.link for point in series["trunk"].points}) == LATE
    assert {point.build for point in series["3.9.1"].points} == {""}
    assert (found.state, found.versions) == ("pass", ["trunk", "3.9.1"])


def test_a_slower_subject_is_confirmed_beside_the_release_and_names_the_build(builds: dict[str, str]) -> None:
    """A slower subject is confirmed against the release with the same jars, and the alert names the build."""
    found = told(builds, LATE, since=LATE - 1, factor=1.3)

    assert [alert.kind for alert in found.alerts] == ["performance"]
    assert "steady on trunk" in found.alerts[0].text
    assert f"jars {LATE - 1:016d}" in found.alerts[0].text


def test_the_first_nightly_run_is_a_comparison(builds: dict[str, str]) -> None:
    """The first nightly run compares subject and release, without an alert."""
    slow, same = told(builds, 1, since=0, factor=2.0), told(builds, 1)

    assert [(each.release, each.pairs, each.verdict) for each in slow.beside] == [("3.9.1", 3, "regression")]
    assert [each.verdict for each in same.beside] != ["regression"]
    assert (slow.alerts, same.alerts) == ([], [])
    assert "trunk worse than 3.9.1 in 1 of 1 figure (" in slow.sentence
    assert "worse" not in same.sentence
    whole_run = slow.model_copy(update={"beside": [slow.beside[0].model_copy(update={"phase": ""})]})
    assert "(p99 latency, steady: +100 %)" in words.sentence(whole_run)
    page = render(slow, {})
    assert "The subject and a pinned release" in page
    assert "https://example.org/" in page


def test_without_a_subject_there_is_no_such_comparison() -> None:
    """Without a subject there is no such comparison and no page section."""
    campaign = campaign_of(0)
    found = nightly.result(campaign, rows_of(campaign, campaign.items, lambda _: 20.0))

    assert (found.subject, found.beside) == ("", [])
    assert "The subject" not in render(found, {})


def test_a_missing_run_goes_by_the_name(builds: dict[str, str]) -> None:
    """A missing run of the subject is listed under its name, not its jar folder."""
    campaign = of_day(builds, 0)
    found = nightly.result(campaign, recorded(campaign, 0, 99, 1.0)[:2])

    assert {run.kafka for run in found.runs} == {"trunk", "3.9.1"}
    assert found.state == "unknown"


def test_the_subject_is_compared_with_the_first_release_whatever_else_runs(builds: dict[str, str]) -> None:
    """The subject is compared with the first release only."""
    builds |= {"commit": "1" * 40, "digest": "1" * 16, "version": "4.5.0-SNAPSHOT"}
    campaign = campaign_of(0, **{**ASKED, "versions": ["3.9.1", "4.3.0"]})
    rows = rows_of(campaign, campaign.items, lambda item: figure(item, 0, {}))
    compared = nightly.result(campaign, rows).beside
    for row in (row for row in rows if "subject" in row["labels"]):
        row["verdict"] = "fail"

    assert {(each.release, each.pairs) for each in compared} == {("3.9.1", 3)}
    assert nightly.result(campaign, rows).beside == []


# --- correctness --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kafka", "release", "status"),
    [
        ("trunk", "4.4.0", "known bug"),  # the release has it, too
        ("trunk", "3.4.0", "new"),  # it does not
        ("3.4.1", "3.4.0", "known bug"),  # in a release, not in the build: not new
    ],
)
def test_a_bug_that_the_pinned_release_lacks_is_new_in_the_subject(
    kafka: str, release: str, status: str, builds: dict[str, str]
) -> None:
    """A known bug that the pinned release lacks is new in the subject and alerts."""
    builds |= {"commit": "1" * 40, "digest": "1" * 16, "version": "4.5.0-SNAPSHOT"}
    asked = {**ASKED, "versions": [release, "3.4.1"], "baseline": {"releases": [release]}}
    campaign = campaign_of(0, **asked)
    rows = rows_of(campaign, campaign.items, lambda item: figure(item, 0, {}))
    for row in rows:
        if row["labels"].get("subject", row["kafka_version"]) == kafka and row["labels"]["role"] == "matrix":
            row |= {"verdict": "fail", "broken": ["I10"], "anomalies": {}, "known_bugs": {"I10": "STALE-HW"}}
    result = nightly.result(campaign, rows)

    assert {(failure.kafka, failure.status) for failure in result.failures} == {(kafka, status)}
    assert bool(result.alerts) == (status == "new")
