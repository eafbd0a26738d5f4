"""Figures from judged cases; the judge itself is not started here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import judge, targets
from bench.folders import expected
from bench.generated.plan import Plan, Planted
from bench.judge import CASES, Case, Measured, main, measure, results

SMALL = Plan(1000, seconds=10, probe_hz=2)


def measured(case: str, *rounds_s: float, **other: Any) -> Measured:
    """Return a case that was judged as expected."""
    usual = {
        "write_s": 1.0,
        "cpu_s": 30.0,
        "further_s": None,
        "page_s": None,
        "page_mb": None,
        "peak_mb": 1.0,
        "wrong": [],
    }
    return Measured(
        case=case, rounds_s=rounds_s or (20.0,), **{**usual, "verdict": expected(CASES[case].plan), **other}
    )


def figures(*cases: Measured) -> dict[str, Any]:
    """Return the figure of each target."""
    return {row["target"]: row["figure"] for row in results(cases, CASES)}


def test_figures_of_a_case() -> None:
    """A case has its target's figure, and the cost of a further run where that was measured."""
    assert figures(measured("100k")) == {}
    assert figures(measured("1.26m")) == {"records_1_26m": 20.0}
    assert figures(measured("1.26m", further_s=2.5)) == {"records_1_26m": 20.0, "further_run": 2.5}


def test_a_page_counts_where_the_target_includes_it() -> None:
    """A page's seconds are added to the judge's where the target includes it; its size is a separate figure."""
    assert figures(measured("soak", page_s=5.0, page_mb=3.0)) == {"soak_2h": 25.0, "soak_2h_page": 3.0}


def test_growth_is_of_the_time_per_record() -> None:
    """Growth compares the time per record, where both sizes were judged."""
    assert figures(measured("1m", 10.0), measured("50m", 600.0)) == {"growth_1m_to_50m": 1.2}
    assert figures(measured("50m", 600.0)) == {}


@pytest.mark.parametrize(
    ("verdict", "lost", "off"), [("fail", 2_000_000, 0), ("fail", 1, 1_999_999), ("unknown", 2_000_000, 2_000_000)]
)
def test_heavy_loss_is_told_to_the_record(verdict: str, lost: int, off: int) -> None:
    """Heavy loss is compared to the exact record; a verdict other than fail counts as all records missed."""
    told = {"verdict": verdict, "delivery": {"lost": lost}}

    assert figures(measured("loss", verdict=told)) == {"heavy_loss": off}


def test_every_target_of_a_case_is_declared() -> None:
    """Every target of a case is declared; a case may have none."""
    named = {case.target for case in CASES.values() if case.target}

    assert named <= targets.TARGETS.keys()


def test_a_case_is_written_judged_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case is written, judged and removed for each round with its copies; an unexpected verdict is reported."""
    asked: list[int] = []

    def judged(folders: list[Path]) -> int:
        asked.append(len(folders))
        for folder in folders:
            assert (folder / "sealed.json").is_file()
            (folder / "verdict").mkdir(exist_ok=True)
            told = expected(SMALL) | {"invariants": {}}
            (folder / "verdict" / "verdict.json").write_text(json.dumps(told))
        return 0

    monkeypatch.setattr(judge, "judge", judged)
    clean = measure("clean", Case(SMALL, rounds=3, further=2), tmp_path)
    planted = measure("lost", Case(Plan(1000, seconds=10, probe_hz=2, planted=Planted(lost=1))), tmp_path)

    assert (asked, clean.wrong, planted.further_s) == ([1, 1, 1, 3, 1], [], None)
    assert "lost: 0 instead of 1" in planted.wrong
    assert not list(tmp_path.glob("*/"))


def test_a_case_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown case is rejected with the names of the existing ones."""
    assert main(["12k"]) == 3
    assert "There is no case '12k'; choose from demo" in capsys.readouterr().err
    assert main([]) == 0
