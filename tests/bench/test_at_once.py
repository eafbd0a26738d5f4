"""Runs at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.at_once import Recorded, gain, of_campaign
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


@pytest.mark.parametrize(("unknown", "expected"), [(1, 3.0), (2, 2.0)])
def test_runs_that_cannot_be_judged_gain_nothing(unknown: int, expected: float) -> None:
    """A number at once counts with 5 % unknown verdicts, and not with 10 %."""
    hour = 3_600_000_000_000
    recorded = {1: Recorded(20, hour, 0), 2: Recorded(20, hour // 2, 0), 3: Recorded(20, hour // 3, unknown)}

    assert gain(recorded) == pytest.approx(expected)
