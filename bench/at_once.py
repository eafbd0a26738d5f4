"""Measure correctness runs per hour, 1 to 4 at once: ``python -m bench.at_once``; takes more than an hour.

Every number gets the same schedules; with 1 each run is alone on the host.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import targets
from bench.host import host
from clusters.paths import ROOT
from history.errors import HarnessError
from history.events import read_events

SECONDS = 30  # of a schedule; start, drain and teardown come on top
SEED = 510
HOUR_NS = 3_600_000_000_000


class Recorded(NamedTuple):
    """Runs of one number at once; times from the first request to the last run's end."""

    runs: int
    elapsed_ns: int
    unknown: int

    @property
    def per_hour(self) -> float:
        return self.runs * HOUR_NS / self.elapsed_ns


def main() -> None:
    """Measure and record all targets."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("numbers", type=int, nargs="*", default=targets.AT_ONCE, help="how many at once; default: all")
    options.add_argument("--schedules", type=int, default=30, help="runs for each number")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as folder:
        for at_once in asked.numbers:
            targets.record(list(rows(at_once, record(Path(folder), at_once, asked.schedules))))
    targets.record([targets.row("at_once_gain", round(gain(targets.read()), 3), host=host())])


def record(folder: Path, at_once: int, schedules: int) -> Recorded:
    """Record and judge a campaign.

    Raises:
        HarnessError: it came to no result.
    """
    name = f"at-once-{at_once}"
    words = ["--schedules", schedules, "--seconds", SECONDS, "--seed", SEED, "--at-once", at_once, "--name", name]
    command = [str(ROOT / "plimsoll"), "fuzz", *map(str, words), "--shrink-runs", "0", "--runs", str(folder / "runs")]
    subprocess.run(command, check=False)  # unknown verdicts are counted
    campaign = folder / "site" / "fuzz" / name
    if not (campaign / "result.json").is_file():
        raise HarnessError(f"{' '.join(command)} came to no result.")
    return of_campaign(campaign, schedules)


def of_campaign(folder: Path, schedules: int) -> Recorded:
    """Read when a campaign's runs were recorded, and their verdicts; a run without one counts as unknown."""
    times = [event.t_ns for event in read_events(folder / "stages.jsonl") if event.step == "record"]
    verdicts = [run["verdict"] for run in json.loads((folder / "result.json").read_text())["runs"]]
    return Recorded(schedules, max(times) - min(times), verdicts.count("unknown") + schedules - len(verdicts))


def rows(at_once: int, recorded: Recorded) -> Iterator[targets.Json]:
    """Yield runs per hour and the share of unknown verdicts."""
    of = {"runs": recorded.runs, "seconds": SECONDS, "host": host()}
    yield targets.row(f"at_once_{at_once}", round(recorded.per_hour, 1), **of)
    yield targets.row(f"unknown_{at_once}", round(recorded.unknown / recorded.runs, 3), **of)


def gain(results: Sequence[targets.Json]) -> float:
    """Return the most runs per hour with few unknown verdicts, in times of those of single runs, from the last rows."""
    last: dict[str, float] = {each["target"]: each["figure"] for each in results}
    numbers = [number for number in targets.AT_ONCE if last.get(f"unknown_{number}", 1.0) <= targets.MOST_UNKNOWN]
    return max((last[f"at_once_{number}"] for number in numbers), default=0.0) / last["at_once_1"]


if __name__ == "__main__":
    main()
