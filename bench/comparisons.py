"""Count the results of real comparisons with a known true effect: ``python -m bench.comparisons [SITE]``.

Comparisons of a version with itself or with an injected slowdown become rows of docs/data/comparisons.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from history.results.compare import CompareResult

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "data" / "comparisons.json"


def row_of(result: CompareResult) -> dict[str, Any] | None:
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


def keep(file: Path, key: str, fresh: Iterable[Mapping[str, Any] | None]) -> None:
    """Add rows, one per ``key``, oldest first; skip None."""
    known = {row[key]: row for row in json.loads(file.read_text())} if file.exists() else {}
    known |= {row[key]: row for row in fresh if row}
    file.write_text(json.dumps(sorted(known.values(), key=lambda row: str(row["created_at"])), indent=1) + "\n")


def main(site: Path) -> None:
    """Add a site's new comparisons."""
    results = sorted((site / "compare").glob("*/result.json"))
    keep(RESULTS, "campaign_id", (row_of(CompareResult.read(path)) for path in results))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site")
