"""The page of known bugs."""

from __future__ import annotations

from typing import Any

from history.results.known_bugs import KnownBugsResult, Timeline
from reports.known_bugs_page import render


def arm(**changes: Any) -> dict[str, Any]:
    """A bug on a version, found in both of two tries."""
    runs = [
        {
            "run_id": f"run-{number}",
            "item": f"kafka-13091-bad-0{number}",
            "outcome": "found",
            "found_by": ["I10"],
            "also": [],
            "verdict": "fail",
            "sentence": "It stood still.",
        }
        for number in (1, 2)
    ]
    usual = {
        "bug": "kafka-13091",
        "arm": "bad",
        "kafka": "3.0.2",
        "scenario": "isr_shrinks_at_rest",
        "shown_as": ["I10"],
        "issue": "KAFKA-13091",
        "title": "the high watermark stands still",
        "version": "3.0.2",
        "expected": "found",
        "as_expected": True,
        "tries": 3,
        "decided": 2,
        "found": 2,
        "clean": 0,
        "also": {},
        "window_missed": 1,
        "unknown": 0,
        "interval": [0.1581, 1.0],
        "found_by": {"I10": 2},
        "runs": runs,
    }
    return {**usual, **changes}


def result(*arms: dict[str, Any], state: str = "pass") -> KnownBugsResult:
    """What a campaign of these arms says."""
    about = {
        "campaign_id": "k1",
        "created_at": "2026-11-21T08:00:00+00:00",
        "seed": 1,
        "settings": {},
        "tries": 2,
        "left_out": ["KAFKA-1 is left out: no such mode."],
        "hosts": ["h"],
        "missing": [],
        "arms": list(arms),
        "state": state,
        "sentence": "Known bugs: found.",
    }
    return KnownBugsResult.model_validate(about)


def test_a_bug_stands_with_its_version_its_counts_and_what_found_it() -> None:
    """A link leads to a run that shows it."""
    html = render(result(arm()), {"run-2": "../../../runs/run-2/report/index.html"})

    assert '<body data-verdict="pass">' in html
    for text in (
        "KAFKA-13091",
        "2 of 2",
        "16% to 100%",
        "I10 in 2",
        "is left out: no such mode.",
        "recipes that were written",
    ):
        assert text in html
    assert 'href="../../../runs/run-2/report/index.html"' in html


def test_what_is_not_as_expected_is_marked() -> None:
    """With what else was broken."""
    html = render(result(arm(expected="clean", as_expected=False, also={"I2": 1}), state="fail"), {})

    assert "I2 in 1" in html
    assert '<td class="name fail">no</td>' in html
    assert ">yes<" not in html


def test_what_is_not_decided_is_neither() -> None:
    """A version without a try that counts; one with them is as expected."""
    html = render(result(arm(), arm(as_expected=None, decided=0, found=0, runs=[]), state="unknown"), {})

    assert '<body data-verdict="unknown">' in html
    assert "not decided" in html
    assert ">yes<" in html
    assert ">not decided<" in html


def test_a_run_that_found_a_bug_is_shown_replica_by_replica() -> None:
    """A row is an action with the replicas that changed; the run's page is linked, if there is one."""
    states = [{"1": "1/2 e0", "3": "silent"}, {"1": "1/2 e0", "3": "2/2 e0"}]
    moments = [{"s": 2.5 + number, "what": "pause of broker-3", "replicas": each} for number, each in enumerate(states)]
    run = {"issue": "KAFKA-13091", "version": "3.0.2", "run_id": "run-1", "partition": "orders-0", "moments": moments}
    told = result(arm()).model_copy(update={"timelines": [Timeline.model_validate(run)]})
    html = render(told, {"run-1": "../../../runs/run-1/report/index.html"})

    assert "KAFKA-13091 on Kafka 3.0.2: orders-0" in html
    assert html.count("1/2 e0") == 1  # unchanged in the second row
    assert html.count("2/2 e0") == 1
    assert ">run: run-1</a>" in html
    assert ">run: run-1</a>" not in render(told, {})
    assert "What goes wrong" not in render(result(arm()), {})
