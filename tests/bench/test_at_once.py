"""Runs at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.at_once import gain, of_campaign
from history.events import stage_events


def test_a_run_without_a_verdict_counts_as_unknown(tmp_path: Path) -> None:
    """Of four schedules, one unknown and one that has no verdict are two unknown ones; a fail is none."""
    with stage_events(tmp_path / "stages.jsonl", "record"):
        pass
    runs = [{"verdict": verdict} for verdict in ("pass", "unknown", "fail")]
    (tmp_path / "result.json").write_text(json.dumps({"runs": runs}))

    recorded = of_campaign(tmp_path, schedules=4)

    assert (recorded.runs, recorded.unknown) == (4, 2)
    assert 0 < recorded.elapsed_ns < 1_000_000_000


@pytest.mark.parametrize(("unknown", "expected"), [(0.05, 3.0), (0.1, 2.0)])
def test_runs_that_cannot_be_judged_gain_nothing(unknown: float, expected: float) -> None:
    """The last figure of a number at once counts with 5 % unknown verdicts, and not with 10 %."""
    figures = [("at_once_1", 20.0), ("unknown_1", 0.0), ("at_once_2", 99.0), ("at_once_2", 40.0), ("unknown_2", 0.0)]
    figures += [("at_once_3", 60.0), ("unknown_3", unknown)]

    assert gain([{"target": name, "figure": figure} for name, figure in figures]) == pytest.approx(expected)
