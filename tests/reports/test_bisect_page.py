"""The page of a bisection."""

from __future__ import annotations

from typing import Any

from history.results.bisect import BisectResult, Judged
from reports.bisect_page import render


def judged(number: int, answer: Any, evidence: float | None) -> Judged:
    """Return a build with one run."""
    sentence = f"{number} of 3 runs show I6."
    runs = [f"run-{number}"] if evidence is not None else []
    return Judged(
        number=number,
        name=f"build{number}",
        version="3.9.0",
        answer=answer,
        evidence=evidence,
        sentence=sentence,
        runs=runs,
    )


def result(**changes: Any) -> BisectResult:
    """Return a bisection with a build of each answer."""
    usual = {
        "campaign_id": "b1",
        "created_at": "2026-11-24T08:00:00+00:00",
        "state": "pass",
        "sentence": "build2 is the first bad build.",
        "lines": [],
        "seed": 1,
        "settings": {"scenario": "kafka_18991"},
        "difference": "A bad build shows I6.",
        "builds": 8,
        "judged": [judged(0, "good", -6.2), judged(1, "undecided", None), judged(2, "bad", 4.9)],
        "first_bad": "build2",
        "last_good": "build0",
        "candidates": ["build2"],
        "wrong_at_most": 0.02,
        "hosts": ["h"],
    }
    return BisectResult.model_validate(usual | changes)


def test_each_build_stands_with_its_evidence() -> None:
    """Each build is shown with its evidence and a link to its run's page, if that exists; a figure shows all builds."""
    page = render(result(), {"run-2": "../../runs/run-2/index.html"})

    for words in (
        "build0",
        "-6.2",
        "+4.9",
        "undecided",
        "A bad build shows I6.",
        "8, of which 2 were run",
        "in at most 2.0 %",
    ):
        assert words in page
    assert 'href="../../runs/run-2/index.html"' in page
    assert "Evidence of each build that was run" in page
    assert "Evidence of each build that was run" not in render(result(judged=[judged(1, "not run", None)]), {})


def test_a_build_that_stays_open_is_an_error_for_ci() -> None:
    """An undecided build is unknown for CI; a build that is good or bad passes."""
    cases = result().cases()

    assert [case.outcome for case in cases] == ["pass", "unknown", "pass"]
