"""The page of the loads that were tried, from literal rows."""

from __future__ import annotations

from typing import Any

from tests.acceptance import matrix
from tests.docs.writers import load_matrix


def row(variant: str, kafka: str, **other: Any) -> dict[str, Any]:
    """Return a counted run."""
    told = {
        "verdict": "pass",
        "known_bugs": [],
        "recount_agrees": True,
        "acked": 1000,
        "lost": 0,
        "duplicate_copies": 0,
    }
    return {"scenario": matrix.MAIN, "kafka": kafka, "variant": variant, "date": "2026-11-23", **told, **other}


def test_runs_of_a_cell_are_added_up() -> None:
    """A cell adds up its runs, without those of other variants or versions."""
    told = [
        row("codec zstd", "2.8.2"),
        row("codec zstd", "2.8.2", verdict="fail", known_bugs=["KAFKA-14704"], recount_agrees=False),
        row("codec lz4", "2.8.2"),
    ]
    page = load_matrix.render(told)

    assert "| zstd | 2.8.2 | 1 fail, 1 pass (KAFKA-14704) | 2,000 |" in page
    assert "| lz4 | 2.8.2 | 1 pass | 1,000 |" in page
    assert "| zstd | 4.4.0 | not tried |" in page


def test_recount_losses_and_dates_are_those_of_all_runs() -> None:
    """A run whose recount differs is counted, as is a lost record; the first and the last date are named."""
    page = load_matrix.render(
        [row("codec lz4", "2.8.2"), row("codec lz4", "4.4.0", recount_agrees=False, lost=3, date="2026-11-25")]
    )

    assert "2026-11-23 to 2026-11-25." in page
    assert "**1 of 2** runs: 3 acknowledged records are lost, 0 are there twice." in page
