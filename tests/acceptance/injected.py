"""Run comparisons with a known true effect: ``python -m tests.acceptance injected [WHICH …]``.

Runs those without a row whose names begin with an argument, such as ``main-20``. Followers wait for more bytes than
ever arrive, so a fetch lasts ``replica.fetch.wait.max.ms``, an acks=all record waits for the current and the next one,
and p99 is twice the timer plus some milliseconds.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import yaml

from history.errors import HarnessError
from history.results.compare import CompareResult
from tests.acceptance.comparisons import RESULTS, row_of
from tests.acceptance.experiment import Experiment
from tests.rows import ROOT, Row, read

METRIC = "latency_p99_ms@steady"
SHOWS_IN = "request_fetch_follower_ms@steady"
WAIT_MS = 56  # p99 is 2 * 56 + 8 ms, so that 3 ms more are 5 %
SLOWER_MS = {"03": 2, "05": 3, "10": 6, "20": 12}  # size in percent → ms added to the timer
SIZES = {"03": 0.033, "05": 0.05, "10": 0.10, "20": 0.20}
# Series → size → (comparisons, pairs of base and head, pairs of base and itself).
SERIES = {
    "main": {"00": (6, 10, 2), "10": (3, 10, 2), "20": (3, 10, 2)},
    "sizes": dict.fromkeys(SLOWER_MS, (4, 3, 2)),
    "itself": {"00": (8, 2, 2)},
}


def settings(size: str, pairs: int, aa_pairs: int) -> dict[str, Any]:
    """Return a comparison's settings (docs/comparison.md); size 00 has no slowdown."""
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


def attempt(named: tuple[str, Row]) -> Row | None:
    """Run one comparison by its ordinary command and return its row.

    Raises:
        HarnessError: it has no result.
    """
    name, asked = named
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(asked, file)
        file.flush()
        done = subprocess.run(["make", "compare", f"SETTINGS={file.name}", f"NAME={name}"], cwd=ROOT, check=False)
    result = ROOT / "site" / "compare" / name / "result.json"
    if not result.exists():
        raise HarnessError(f"{name} ended with exit code {done.returncode} and has no result; see its messages above.")
    return row_of(CompareResult.read(result))


def names(which: Sequence[str] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and settings, the sizes in turn."""
    asked = [(f"{series}-{size}", size, *told) for series, sizes in SERIES.items() for size, told in sizes.items()]
    for turn in range(1, 1 + max(times for _, _, times, _, _ in asked)):
        for name, size, times, pairs, aa_pairs in asked:
            if turn <= times and name.startswith(tuple(which) or ""):
                yield f"truth-{name}-{turn}", settings(size, pairs, aa_pairs)


def outstanding(arguments: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """Yield all or the chosen comparisons without a row."""
    recorded = {row["campaign_id"] for row in read(RESULTS)}
    return ((name, asked) for name, asked in names(arguments) if name not in recorded)


def _words(row: Row) -> str:
    return f"{row['campaign_id']}: {', '.join(row['verdicts'])}"


main = Experiment(RESULTS, "campaign_id", outstanding, attempt, _words, order=itemgetter("created_at"))
