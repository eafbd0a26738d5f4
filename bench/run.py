"""Measure every target and record the results: ``python -m bench.run [STEP …]``, or ``make bench``.

Takes about an hour on two idle cores. Every row has the host's speed before and after.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

from bench import accounting, attached, clients, segments, targets
from bench import judge as judging
from bench.folders import write
from bench.generated.plan import Plan
from bench.host import host, loop_s
from history.errors import HarnessError

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "docs" / "examples" / "operations.jsonl"
ROUNDS = 5
ACCOUNTED = Plan(10_000_000, partitions=12, segments=False)
JUDGED = ("demo", "1.26m", "12m", "partitions", "soak", "loss")

Json = dict[str, Any]


def small_import() -> None:
    """Time the import of 20 operations, up to its page."""
    seconds = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as runs:
            command = [str(ROOT / "plimsoll"), "import", "--format", "operations", "--runs", runs, str(EXAMPLE)]
            began_s = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            seconds.append(round(time.perf_counter() - began_s, 2))
            if not list(Path(runs).glob("*/report/index.html")):
                raise HarnessError(f"The example was not imported: {done.stderr.strip()[-300:]}")
    targets.record([targets.row("small_import", median(seconds), rounds_s=seconds, host=host())])


def accounts() -> None:
    """Compare delivery accounting with DuckDB and Python sets."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as scratch:
        write(ACCOUNTED, Path(scratch) / "run")
        accounting.main([str(Path(scratch) / "run"), "--record"])


def logs() -> None:
    """Compare our segment reader with kafka-dump-log and kafka-python."""
    targets.record(list(segment_rows(segments.main())))


def segment_rows(rows: Sequence[segments.Row]) -> Iterator[Json]:
    """Yield records and MB per second of the largest uncompressed segment."""
    measured_on = host()
    plain = [row for row in rows if (row.reader, row.codec) == (segments.OURS, "none")]
    of_size = ([row for row in plain if row.value_bytes == size] for size in (100, 1024))
    small, large = (max(alike, key=attrgetter("file_bytes")) for alike in of_size)
    records_per_s = round(small.records / median(small.seconds))
    mb_per_s = round(large.file_bytes / median(large.seconds) / 1e6, 1)
    yield targets.row("segments_100_bytes", records_per_s, rounds_s=small.seconds, host=measured_on)
    yield targets.row("segments_1_kib", mb_per_s, rounds_s=large.seconds, host=measured_on)


STEPS: Mapping[str, Callable[[], Any]] = {
    "import": small_import,
    **{name: partial(judging.main, [name, "--record"]) for name in JUDGED},
    "growth": partial(judging.main, ["1m", "50m", "--record"]),
    "accounting": accounts,
    "segments": logs,
    "clients": clients.main,
    "attached": attached.main,
}


def main(argv: Sequence[str]) -> int:
    """Run the steps and print every target; return 1 if one is not met."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description="Measure the targets.")
    parser.add_argument("steps", nargs="*", help=f"some of {', '.join(STEPS)}; all, if none is named")
    chosen = parser.parse_args(argv).steps or list(STEPS)
    if unknown := [name for name in chosen if name not in STEPS]:
        parser.error(f"there is no step {unknown[0]}; choose from {', '.join(STEPS)}")
    print(f"ten million additions take {loop_s()} s", flush=True)
    for number, name in enumerate(chosen, 1):
        print(f"step {number} of {len(chosen)}: {name}", flush=True)
        STEPS[name]()
    print(f"ten million additions take {loop_s()} s")
    results = targets.read()
    print(*targets.lines(results), sep="\n")
    return int(not targets.all_met(results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
