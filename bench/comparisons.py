"""What real comparisons said whose truth is known: ``python -m bench.comparisons [SITE]`` counts them.

A version against itself has no difference, and an injected slowdown has one of a known size. Every finished comparison
of either kind under SITE (``site/``) becomes a row of ``comparisons.json`` in docs/, once; ``comparisons.md`` counts
them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from campaigns.statistics.intervals import clopper_pearson, none_in
from history.results.compare import CompareResult

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "comparisons.json"
PAGE = ROOT / "docs" / "comparisons.md"
Row = Mapping[str, Any]


def row_of(result: CompareResult) -> dict[str, Any] | None:
    """What counts of a comparison; None where its truth is not known, runs are missing, or it was refused."""
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


def render(rows: Iterable[Row]) -> str:
    """The page: false alarms of a version against itself, and how often each injected slowdown was found."""
    counted = list(rows)
    itself = [row for row in counted if not row["injected"]]
    compared = [row["verdicts"] for row in itself]
    calibrated = [row["calibration"] for row in counted if row["calibration"]]
    lines = [
        "# What comparisons found whose truth is known",
        "",
        "Written by `python -m bench.comparisons`; every row is one of `comparisons.json`. These are real runs on one",
        "host. How the same rule behaves on simulated ones stands in [power](power.md).",
        "",
        "`python -m bench.injected` makes them: two brokers, 150 records a second, and followers whose every fetch",
        "lasts as long as a timer says, so that p99 follows from it and varies less than with default settings. What",
        "is found here is the most to expect; noise takes from it. With two pairs an interval is so wide that hardly",
        "anything can be called a regression: no false alarm among them says little.",
        "",
        "## A version against itself",
        "",
        f"Called a regression: **{_alarms(compared)}**.",
        f"Of the calibrations, in which base is compared with itself before anything else: {_alarms(calibrated)}.",
        f"In all, nothing was changed and something was called worse: {_alarms(compared + calibrated)}.",
        "",
        *_table(itself, "calibration"),
        "",
        "## Injected slowdowns",
        "",
        "The metric was named before the first run. Found means: it was called a regression.",
        "",
        "| slowdown | pairs | found | rate, at 95 % |",
        "|---|---|---|---|",
    ]
    injected = [row for row in counted if row["injected"]]
    for size, pairs in sorted({(row["injected"]["size"], row["pairs"]) for row in injected}):
        own = [row for row in injected if (row["injected"]["size"], row["pairs"]) == (size, pairs)]
        found = sum(row["injected"]["found"] for row in own)
        low, high = clopper_pearson(found, len(own))
        lines.append(f"| {size:.0%} | {pairs} | {found} of {len(own)} | {low:.0%} to {high:.0%} |")
    return "\n".join([*lines, "", *_table(injected, "injected")]) + "\n"


def _alarms(verdicts: Sequence[Sequence[str]]) -> str:
    """In how many comparisons of a version with itself something was called worse, and how often at most."""
    alarms, tried = sum("regression" in own for own in verdicts), len(verdicts)
    if not tried:
        return "none has run yet"
    if not alarms:
        return f"0 of {tried}, at most {none_in(tried):.0%} at 95 % confidence"
    low, high = clopper_pearson(alarms, tried)
    return f"{alarms} of {tried}, {low:.0%} to {high:.0%} at 95 % confidence"


def _table(rows: Iterable[Row], last: str) -> list[str]:
    """A line for each primary metric of each comparison."""
    lines = [
        f"| comparison | Kafka | scenario | metric | pairs used | change | verdict | {last} |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        told = ", ".join(row["calibration"]) if last == "calibration" else _injected_slowdown(row["injected"])
        about = f"| {row['campaign_id']} | {row['kafka']} | {', '.join(row['scenarios'])}"
        for effect in row["seen"]:
            metric = "@".join(filter(None, (effect["metric"], effect["phase"])))
            pairs = f"{effect['n'] or 0} of {row['pairs']}"
            lines.append(f"{about} | {metric} | {pairs} | {_change(effect)} | {effect['verdict']} | {told} |")
    return lines


def _injected_slowdown(injected: Row) -> str:
    """What was done, and that it was active: what it delays took longer."""
    shown = "; ".join(_change(effect) for effect in injected["took_effect"])
    return f"{injected['words']}: {shown}" if shown else str(injected["words"])


def _change(effect: Row) -> str:
    if effect["mean"] is None:
        return "not known"
    interval = "" if effect["low"] is None else f" ({effect['low']:+.1f} to {effect['high']:+.1f} %)"
    return f"{effect['mean']:+.1f} %{interval}"


def main(site: Path) -> None:
    """Add what is new under a site to the rows, and write both files."""
    known = {row["campaign_id"]: row for row in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}
    for path in sorted((site / "compare").glob("*/result.json")):
        if row := row_of(CompareResult.read(path)):
            known[row["campaign_id"]] = row
    rows = sorted(known.values(), key=lambda row: str(row["created_at"]))
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    PAGE.write_text(render(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site")
