"""Comparisons whose truth is known: ``python -m bench.injected [WHICH …]`` runs those that have no row yet, all of them
or those whose names begin so, such as ``main`` or ``main-20``.

The slowdown: followers wait for more bytes than there ever are, so that every fetch of theirs lasts exactly
``replica.fetch.wait.max.ms``. An acks=all record then waits for the end of the fetch that was under
way and for the whole next one: p99 is twice the timer and some milliseconds. Head gets a timer that is longer by so
much that its p99 is worse by the size; the followers' mean fetch time shows in every run that it was. Each comparison
is an ordinary campaign and may be stopped and started again; ``bench.comparisons`` keeps its row.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from bench import comparisons

ROOT = Path(__file__).resolve().parent.parent
METRIC = "latency_p99_ms@steady"
SHOWS_IN = "request_fetch_follower_ms@steady"
WAIT_MS = 56  # p99 is 2 * 56 + 8 ms here, so that 3 ms more are 5 %
SLOWER_MS = {"03": 2, "05": 3, "10": 6, "20": 12}  # size in percent → what the timer is longer by
SIZES = {"03": 0.033, "05": 0.05, "10": 0.10, "20": 0.20}
# Name of a series → (comparisons, pairs of base and head, pairs of base and itself).
SERIES = {
    "main": {"00": (6, 10, 2), "10": (3, 10, 2), "20": (3, 10, 2)},
    "sizes": dict.fromkeys(SLOWER_MS, (4, 3, 2)),
    "itself": {"00": (8, 2, 2)},
}


def settings(size: str, pairs: int, aa_pairs: int) -> dict[str, Any]:
    """The settings of one comparison (docs/comparison.md); size 00 has no injected slowdown."""
    asked: dict[str, Any] = {
        "base": "3.9.1",
        "head": "3.9.1",
        "scenarios": ["steady"],
        "pairs": pairs,
        "aa_pairs": aa_pairs,
        "primary": {METRIC: 0.05},
        "changes": {
            "cluster": {"brokers": 2, "config": _fetches(WAIT_MS)},
            "topics": {"orders": {"replicas": ["A", "B"]}},
            "load": {"rate": "150/s"},
            "phases": [{"steady": [{"hold": "14s"}]}],
        },
    }
    if size in SLOWER_MS:
        slower = WAIT_MS + SLOWER_MS[size]
        asked["injected_slowdown"] = {
            "metric": METRIC,
            "size": SIZES[size],
            "changes": {"cluster": {"config": _fetches(slower)}},
            "shows_in": SHOWS_IN,
            "words": f"followers' fetches wait {slower} ms instead of {WAIT_MS} ms",
        }
    return asked


def _fetches(wait_ms: int) -> dict[str, str]:
    return {"replica.fetch.min.bytes": "100000000", "replica.fetch.wait.max.ms": str(wait_ms)}


def run(name: str, asked: dict[str, Any]) -> None:
    """One comparison by the command that a person would give; its verdict is its exit code, and any will do."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(asked, file)
        file.flush()
        done = subprocess.run(["make", "compare", f"SETTINGS={file.name}", f"NAME={name}"], cwd=ROOT, check=False)
    if not (ROOT / "site" / "compare" / name / "result.json").exists():
        sys.exit(done.returncode or 1)


def names(which: Sequence[str] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and settings of every comparison, or of those that are asked for, the first of each size before the second
    of any: wherever a series is broken off, each size was tried about equally often.
    """
    asked = [(f"{series}-{size}", size, *told) for series, sizes in SERIES.items() for size, told in sizes.items()]
    for turn in range(1, 1 + max(times for _, _, times, _, _ in asked)):
        for name, size, times, pairs, aa_pairs in asked:
            if turn <= times and name.startswith(tuple(which) or ""):
                yield f"truth-{name}-{turn}", settings(size, pairs, aa_pairs)


def main(which: list[str]) -> None:
    """Run every comparison that has no row yet, of all or of those that are asked for."""
    recorded = {row["campaign_id"] for row in json.loads(comparisons.RESULTS.read_text())}
    for name, asked in names(which):
        if name not in recorded:
            run(name, asked)
            comparisons.main(ROOT / "site")


if __name__ == "__main__":
    main(sys.argv[1:])
