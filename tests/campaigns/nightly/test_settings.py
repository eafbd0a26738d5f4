"""Settings of a nightly run, and messages for invalid ones."""

import re
from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from campaigns.nightly import campaign as nightly
from campaigns.nightly.settings import (
    Baseline,
    Confirm,
    ControlScenario,
    Correctness,
    Retention,
    Settings,
    Subject,
    Waiver,
    Watch,
    check,
    read_settings,
)
from campaigns.recording import expected_seconds
from clusters.scenario.scenario import load_scenario
from history.errors import BadInput
from tests.campaigns.nightly_runs import SETTINGS

ROOT = Path(__file__).resolve().parents[3]
ENTRY: dict[str, Any] = {
    "scenario": "steady",
    "kafka": "4.3.0",
    "metric": "latency_p99_ms",
    "up_to": 20,
    "who": "ada",
    "why": "KAFKA-1",
    "until": "2026-12-31",
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the settings with one value replaced, such as confirm.pairs."""
    told = deepcopy(SETTINGS)
    *way, last = path.split(".")
    place = told
    for name in way:
        place = place.setdefault(name, {})
    place[last] = value
    return told


def test_the_nightly_file_tells_correctness_from_benchmarks() -> None:
    """nightly.yaml has correctness scenarios with faults, and benchmarks with production JVM flags at 2 MB/s."""
    asked = check(read_settings(ROOT / "nightly.yaml"))
    benchmarks = [load_scenario(name, asked.changes) for name in asked.scenarios]

    assert {"survived_faults", "group_members", "exactly_once"} <= set(asked.correctness.scenarios)
    assert load_scenario(asked.correctness.scenarios[-1]).control
    assert [told.cluster.jvm for told in benchmarks] == ["production"] * 2
    assert [(told.load.rate, told.load.record_bytes) for told in benchmarks if told.load] == [(2000, 1000)] * 2
    assert asked.control.kafka in asked.versions


@pytest.mark.parametrize(("name", "runs", "minutes"), [("nightly.yaml", 24, 45), ("ten-minutes.yaml", 4, 9)])
def test_a_profile_takes_as_long_as_it_says(name: str, runs: int, minutes: float) -> None:
    """The documented duration of each profile covers the expected time of its runs."""
    asked = read_settings(ROOT / name)
    items = nightly.plan(asked, campaign_id="n", created_at="2026-11-23T02:00:00+00:00", seed=1).items

    assert len(items) == runs
    assert sum(map(expected_seconds, items)) < 60 * minutes


def test_a_nightly_run_has_something_to_run() -> None:
    """Correctness scenarios alone are enough; without any scenario the settings are rejected."""
    assert check(changed("scenarios", []) | {"correctness": {"scenarios": ["steady"]}}).every_scenario == ["steady"]
    with pytest.raises(BadInput, match=r"neither scenarios nor correctness\.scenarios names any"):
        check(changed("scenarios", []))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("repetitions", 0, "repetitions: Input should be greater than or equal to 1"),
        ("versions", ["3.9.1", "3.9.1"], "versions: one of 3.9.1, 3.9.1 is named twice"),
        ("confirm.pairs", 2, "confirm.pairs: Input should be greater than or equal to 3"),
        ("baseline.releases", ["3.7.0"], "baseline.releases has 3.7.0, which is none of the versions"),
        ("watch", {"latency_p98_ms": {"margin": 0.1}}, "'latency_p98_ms' cannot be watched"),
        ("watch", {"offered_per_s": {"margin": 0.1}}, "neither way of it is better"),
        ("watch", {"loss_ratio": {"margin": 0.1}}, "it is what verdicts are about"),
        ("margin", 0.1, "margin is unknown"),
        ("waivers", [{**ENTRY, "found": ["I6"]}], "either a metric, or what was found, and not both"),
        ("waivers", [{**ENTRY, "metric": "p99"}], "'p99' is no metric"),
        ("waivers", [{**ENTRY, "who": ""}], "waivers.0.who"),
        ("waivers", [{**ENTRY, "up_to": None}], "the entry on latency_p99_ms has no up_to"),
        ("waivers", [{**ENTRY, "up_to": 0}], "waivers.0.up_to"),
        ("waivers", [{**ENTRY, "metric": None, "found": ["I6"]}], "up_to: 20 is a bound for a metric"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(path: str, value: Any, words: str) -> None:
    """An invalid setting is rejected with its place, the reason and the documentation page."""
    with pytest.raises(BadInput, match=r"docs/nightly\.md") as refused:
        check(changed(path, value))

    assert words in str(refused.value)


def test_waivers_are_read_from_the_file_that_is_named(tmp_path: Path) -> None:
    """Waivers are read from the named file next to the settings, with dates as dates."""
    (tmp_path / "nightly.yaml").write_text("repetitions: 2\nwaivers: known.yaml\n")
    (tmp_path / "known.yaml").write_text(
        "waivers:\n- {scenario: steady, found: [I6], who: ada, why: KAFKA-1, until: 2026-12-31}\n"
    )

    told = read_settings(tmp_path / "nightly.yaml")

    assert told["repetitions"] == 2
    assert check({**SETTINGS, **told}).waivers[0].until == date(2026, 12, 31)


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "cannot be read"), ("a: [", "is no YAML"), ("- a", "holds no mapping")],
)
def test_a_file_that_holds_no_settings_is_refused(tmp_path: Path, text: str | None, words: str) -> None:
    """A missing, invalid or non-mapping settings file is rejected."""
    if text is not None:
        (tmp_path / "nightly.yaml").write_text(text)

    with pytest.raises(BadInput, match=words):
        read_settings(tmp_path / "nightly.yaml")


def test_an_entry_covers_what_it_names() -> None:
    """A waiver without ``kafka`` or ``phase`` covers all of them."""
    entry = Waiver.model_validate(ENTRY)
    wide = Waiver.model_validate({**ENTRY, "kafka": None, "phase": "leader dies"})

    assert entry.covers_series("steady", "4.3.0", "latency_p99_ms", "leader dies")
    assert not entry.covers_series("steady", "3.9.1", "latency_p99_ms", "")
    assert wide.covers_series("steady", "3.9.1", "latency_p99_ms", "leader dies")
    assert not wide.covers_series("steady", "3.9.1", "latency_p99_ms", "steady")
    assert not entry.covers_failure("steady", "4.3.0", [])


@pytest.mark.parametrize(
    ("found", "covered"), [(["I6"], True), (["I6", "lost_write"], True), (["I7"], False), ([], False)]
)
def test_an_entry_covers_no_more_of_a_failure_than_it_names(found: list[str], covered: bool) -> None:
    """A waiver does not cover a failure with more findings than it names."""
    entry = Waiver(scenario="steady", found=["I6", "lost_write"], who="ada", why="KAFKA-1", until=date(2026, 12, 31))

    assert entry.covers_failure("steady", "4.3.0", found) == covered


def test_times_have_a_floor_and_phases_can_be_chosen() -> None:
    """Times have a floor of 0.1 s by default, and metrics can be limited to phases."""
    watch = {"elect_s": {"margin": 0.2}, "catch_up_s": {"margin": 0.2, "floor": 1}, "latency_p50_ms": {"margin": 0.1}}
    asked = check(changed("watch", {**watch, "latency_p99_ms": {"margin": 0.1, "phases": ["steady"]}}))

    assert asked.floors() == {"elect_s": 0.1, "catch_up_s": 1, "latency_p50_ms": 0, "latency_p99_ms": 0}
    assert asked.watches("latency_p50_ms", "leader dies")
    assert asked.watches("latency_p99_ms", "steady")
    assert not asked.watches("latency_p99_ms", "leader dies")
    assert not asked.watches("gc_ms", "")


def test_every_setting_is_explained() -> None:
    """docs/nightly.md has a row for each setting."""
    text = (ROOT / "docs" / "nightly.md").read_text()
    parts = {
        "subject": Subject,
        "correctness": Correctness,
        "control": ControlScenario,
        "watch.<metric>": Watch,
        "baseline": Baseline,
        "confirm": Confirm,
        "retention": Retention,
    }
    names = [
        *Settings.model_fields,
        *(f"{part}.{name}" for part, model in parts.items() for name in model.model_fields),
    ]

    assert [name for name in names if f"| `{name}` |" not in text and name not in ("watch", *parts)] == []
    assert [name for name in Waiver.model_fields if not re.search(rf"^ .*\b{name}: ", text, re.MULTILINE)] == []


def test_clusters_are_relative_to_the_settings(tmp_path: Path) -> None:
    """As waivers are; a connection is a name."""
    (tmp_path / "nightly.yaml").write_text("clusters: {staging: c/staging.yaml, canary: 'connection:canary'}\n")
    read = read_settings(tmp_path / "nightly.yaml")

    assert check(SETTINGS | read).clusters == {
        "staging": str(tmp_path / "c/staging.yaml"),
        "canary": "connection:canary",
    }
    with pytest.raises(BadInput, match=r"staging is '3\.9\.1', which is no cluster; name a file such as mine\.yaml"):
        check(SETTINGS | {"clusters": {"staging": "3.9.1"}})
