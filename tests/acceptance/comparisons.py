"""Count the results of real comparisons with a known true effect: ``python -m tests.acceptance comparisons [SITE]``.

Comparisons of a version with itself or with an injected slowdown become rows of docs/data/comparisons.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from history.results.compare import CompareResult
from tests.rows import DATA, ROOT, Row, put

RESULTS = DATA / "comparisons.json"


def row_of(result: CompareResult) -> Row | None:
    """Return a comparison's row, or None if it is incomplete or its true effect unknown."""
    base, head, runs, injected_slowdown = result.sides.base, result.sides.head, result.runs, result.injected_slowdown
    itself = (base.kafka, base.changes) == (head.kafka, head.changes)
    if (
        result.refusals
        or runs.recorded < runs.planned
        or not (itself if injected_slowdown is None else injected_slowdown.size)
    ):
        return None
    primary = [effect for effect in result.effects if effect.role == "primary"]
    effects = {"metric", "phase", "n", "margin", "mean", "low", "high", "verdict"}
    return {
        "campaign_id": result.campaign_id,
        "created_at": result.created_at,
        "kafka": base.kafka,
        "scenarios": result.scenarios,
        "pairs": result.pairs,
        "injected": injected_slowdown
        and injected_slowdown.model_dump(include={"metric", "size", "words", "found", "took_effect"}),
        "verdicts": [effect.verdict for effect in primary],
        "seen": [effect.model_dump(include=effects) for effect in primary],
        "calibration": [own.verdict for own in result.noise if own.role == "primary"],
    }


def main(arguments: Sequence[str]) -> int:
    """Add a site's comparisons."""
    site = Path(arguments[0]) if arguments else ROOT / "site"
    rows = (row_of(CompareResult.read(path)) for path in sorted((site / "compare").glob("*/result.json")))
    put(RESULTS, "campaign_id", filter(None, rows), itemgetter("created_at"))
    return 0
