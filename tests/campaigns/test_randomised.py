"""Campaigns of random schedules: the drawn schedules, and the result of their runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from campaigns import kinds, randomised, runner
from campaigns.campaign import Campaign
from campaigns.places import Places
from clusters.run import experiment
from clusters.scenario.schedules import randomised_schedule
from history.errors import BadInput
from history.folder import RunFolder
from history.tables import ANOMALIES, INVARIANTS
from reports import fuzz_page, soak_page
from tests.junit_schema import outcomes_of

FUZZ = {"kafka": "3.0.2", "schedules": 4, "seconds": 40, "runtime": "process"}


def planned(kind: str, settings: dict[str, Any], seed: int = 5) -> Campaign:
    """Return a campaign of a kind."""
    return kinds.of(kind).campaign.plan(settings, campaign_id="c1", created_at="2026-01-01T08:00:00", seed=seed)


def test_schedules_are_drawn_by_seeds_in_a_row() -> None:
    """Schedules are drawn with consecutive seeds, and every second one has a load."""
    campaign = planned("fuzz", FUZZ)
    mix = randomised.fault_mix("", "process")
    drawn = [randomised_schedule(mix, seed=5 + n, length_s=40, load=n % 2 == 1) for n in range(4)]

    assert [randomised.schedule_of(item).digest for item in campaign.items] == [each.digest for each in drawn]
    assert [randomised.schedule_of(item).load is None for item in campaign.items] == [True, False, True, False]
    assert [(item.name, item.seed, item.kafka) for item in campaign.items][:2] == [
        ("schedule-1", 5, "3.0.2"),
        ("schedule-2", 6, "3.0.2"),
    ]


def test_a_soak_is_one_long_schedule_under_load() -> None:
    """A soak is one schedule under load of the given length in minutes."""
    (item,) = planned("soak", {"minutes": 2, "runtime": "process"}).items
    schedule = randomised.schedule_of(item)

    assert schedule.load is not None
    assert schedule.digest == randomised_schedule(randomised.fault_mix("", "process"), seed=5, length_s=120).digest


@pytest.mark.parametrize(
    ("kind", "settings", "sentence"),
    [
        ("fuzz", {"schedules": 0}, "--schedules=0 is refused: Input should be greater than or equal to 1"),
        ("fuzz", {"seconds": 14401}, "--seconds=14401 is refused: Input should be less than or equal to 14400"),
        ("soak", {"minutes": 0}, "--minutes=0 is refused: Input should be greater than 0"),
        ("soak", {"fault_mix": "/no/such/mix.yaml"}, "The fault mix /no/such/mix.yaml cannot be read"),
    ],
)
def test_what_cannot_be_drawn_is_refused(kind: str, settings: dict[str, Any], sentence: str) -> None:
    """Invalid settings are rejected in one sentence before anything is written."""
    with pytest.raises(BadInput, match=sentence):
        planned(kind, {"runtime": "process", **settings})


def test_a_campaign_goes_on_by_its_name(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign of the same name and settings is resumed with its seed; other settings are rejected."""
    monkeypatch.setattr(experiment, "check", lambda *_, **__: None)
    first = runner.plan("fuzz", FUZZ, name="f", seed=None, places=places).read_plan()

    assert runner.plan("fuzz", FUZZ, name="f", seed=None, places=places).read_plan() == first
    with pytest.raises(BadInput, match="holds another plan"):
        runner.plan("fuzz", FUZZ | {"seconds": 41}, name="f", seed=None, places=places)


# --- the result ------------------------------------------------------------------------------------


def judged(folder: Path, verdict: str, *, violations: int = 0) -> Path:
    """Write the run folder of a schedule with these violations of I10."""
    run = RunFolder(folder)
    run.verdict.mkdir(parents=True)
    run.verdict_file.write_text(json.dumps({"verdict": verdict, "sentence": f"It is a {verdict}."}))
    row = {
        "invariant": "I10",
        "title": "",
        "severity": "S1",
        "checked": 3,
        "violations": violations,
        "verdict": verdict,
        "known_bug": "",
    }
    pq.write_table(
        pa.Table.from_pylist([row | {"violations": violations}], schema=INVARIANTS), run.judged("invariants")
    )
    pq.write_table(pa.Table.from_pylist([], schema=ANOMALIES), run.judged("anomalies"))
    run.events.write_text("")
    run.seal()
    return folder


@pytest.mark.parametrize(
    ("verdicts", "state", "sentence"),
    [
        (["pass"] * 4, "pass", "No violation in 4 schedules on Kafka 3.0.2."),
        (["pass", "fail", "pass", "pass"], "fail", "1 of 4 schedules violated a guarantee on Kafka 3.0.2."),
        (["pass", "unknown", "pass"], "unknown", "No violation in 4 schedules on Kafka 3.0.2; 2 could not be judged."),
        (["fail", "unknown", "pass", "pass"], "fail", "1 of 4 schedules violated a guarantee on Kafka 3.0.2; 1 could"),
    ],
)
def test_the_result_counts_schedules(tmp_path: Path, verdicts: list[str], state: str, sentence: str) -> None:
    """The result counts schedules; a missing or unjudged one prevents a pass."""
    campaign = planned("fuzz", FUZZ)
    runs = {
        item.name: judged(tmp_path / item.name, verdict, violations=int(verdict == "fail"))
        for item, verdict in zip(campaign.items, verdicts, strict=False)
    }
    result = kinds.of("fuzz").campaign.result(campaign, runs)

    assert result.state == state
    assert state in outcomes_of(result).values()
    assert result.sentence.startswith(sentence)
    assert len(result.lines) == 4 - verdicts.count("pass")
    page = fuzz_page.render(result, {"schedule-1": "../x.html"})
    assert f'data-verdict="{state}"' in page
    assert 'href="../x.html"' in page


def test_what_was_altered_after_its_verdict_is_no_answer(tmp_path: Path) -> None:
    """A run whose evidence changed after its verdict is unknown."""
    campaign = planned("fuzz", FUZZ | {"schedules": 2})
    runs = {
        item.name: judged(tmp_path / item.name, verdict, violations=int(verdict == "fail"))
        for item, verdict in zip(campaign.items, ["pass", "fail"], strict=True)
    }
    for run in runs.values():
        RunFolder(run).events.write_text("{}")
    result = kinds.of("fuzz").campaign.result(campaign, runs)

    assert [run.verdict for run in result.runs] == ["unknown", "unknown"]
    assert result.sentence == "No violation in 2 schedules on Kafka 3.0.2; 2 could not be judged."
    assert "events.jsonl was changed after sealing" in result.lines[0]


def test_a_soaks_page_is_that_of_one_schedule(tmp_path: Path) -> None:
    """A soak's page is that of one schedule, with its seed and violations."""
    campaign = planned("soak", {"minutes": 1, "runtime": "process", "kafka": "4.3.0"})
    result = kinds.of("soak").campaign.result(campaign, {"soak": judged(tmp_path / "r", "fail", violations=2)})

    assert result.sentence == "1 of 1 schedule violated a guarantee on Kafka 4.3.0."
    assert result.lines == ["soak (seed 5): I10: It is a fail."]
    assert "I10" in soak_page.render(result, {})


def test_only_guarantees_count(tmp_path: Path) -> None:
    """Only violated S1 invariants and forbidden S1 anomalies count."""
    run = RunFolder(tmp_path)
    run.verdict.mkdir()
    rows = [("I10", "S1", 2), ("I4", "S1", 0), ("I22", "S2", 1)]
    invariants = [
        {"invariant": name, "title": "", "severity": severity, "checked": 3, "violations": count, "known_bug": ""}
        | {"verdict": "fail" if count else "pass"}
        for name, severity, count in rows
    ]
    pq.write_table(pa.Table.from_pylist(invariants, schema=INVARIANTS), run.judged("invariants"))
    usual = {"topic": "orders", "partition": 0, "explanation": "", "evidence": "{}"}
    cases = [("lost_write", "S1", False), ("duplicate", "S1", True), ("behaviour_change", "S2", False)]
    anomalies = [{**usual, "anomaly": name, "severity": severity, "allowed": ok} for name, severity, ok in cases]
    pq.write_table(pa.Table.from_pylist(anomalies, schema=ANOMALIES), run.judged("anomalies"))

    assert randomised.violations_of(run) == ["I10", "lost_write"]
