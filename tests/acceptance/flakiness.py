"""Repeat the test suite: ``python -m tests.acceptance flakiness [TRY …]``.

Five tries on an idle host, two with a busy loop per core. A row names each failed test.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.host import host
from tests.acceptance.experiment import of_cases
from tests.rows import DATA, ROOT, Row, today

RESULTS = DATA / "flakiness.json"
LOGS = ROOT / ".cache" / "flakiness"
TRIES = {f"quiet {number}": False for number in range(1, 6)} | {f"busy {number}": True for number in (1, 2)}
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
COUNTED = re.compile(r"^(\d+) passed, (\d+) failed", re.MULTILINE)  # the last line of ``make test``


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Run a busy loop per core, each in its own session.

    A host that schedules by session gives each as much CPU as all tests.
    """
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command, start_new_session=True) for _ in range(cores)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def attempt(name: str) -> Row:
    """Run the whole suite once and return the row."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log, began = LOGS / f"{name}.log", time.monotonic()
    speed = host()["ten_million_additions_s"]
    with log.open("w") as file, busy((os.cpu_count() or 1) if TRIES[name] else 0):
        asked = [sys.executable, "-m", "tests.run"]
        strict = {**os.environ, "PLIMSOLL_FORBID_SKIPS": "1"}
        done = subprocess.run(asked, cwd=ROOT, env=strict, stdout=file, stderr=file, check=False)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {
        "try": name,
        **found(log.read_text()),
        "exit_code": done.returncode,
        "seconds": round(time.monotonic() - began),
        "commit": commit.stdout.strip(),
        "ten_million_additions_s": speed,
        "date": today(),
    }


def found(printed: str) -> Row:
    """Return how many tests passed and which failed."""
    counted = COUNTED.findall(printed)
    passed, failed = map(int, counted[-1]) if counted else (0, 0)
    return {"passed": passed, "failed": failed, "which": sorted(set(FAILED.findall(printed)))}


def clean(row: Mapping[str, Any]) -> bool:
    """Return whether every test passed."""
    return bool(row["exit_code"] == 0 and row["passed"] and not row["failed"])


def wrong(row: Row) -> list[str]:
    """Return the failed tests, or that the suite did not finish."""
    return [] if clean(row) else row["which"] or [f"exit code {row['exit_code']}"]


def _words(row: Row) -> str:
    return f"{row['try']}: {row['passed']} passed, {row['seconds']} s"


main = of_cases(RESULTS, "try", {name: name for name in TRIES}, attempt=attempt, words=_words, wrong=wrong)
