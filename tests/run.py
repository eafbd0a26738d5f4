"""The command behind ``make test``: unit tests first, then tests against real brokers.

At the end it lists the tests that were left out, and each folder's time with its budget. Exceeding a budget fails no
test, since time depends on the machine; together the budgets are what two workers may take of CI's half hour.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

PARTS = {
    "without any cluster": ["-m", "not cluster and not pipeline and not browser and not slow"],
    "with real brokers, browser, Spark and Airflow": ["-m", "(cluster or pipeline or browser) and not slow"],
}
BUDGETS_S = {
    "bench": 130,
    "campaigns": 200,
    "clusters": 80,
    "commands": 40,
    "docs": 40,
    "expectations": 30,
    "integration": 1850,
    "judge": 40,
    "model": 60,
    "operators": 160,
    "reports": 320,
    "spark": 130,
}
OTHERS_S = 20
# A file's tests stay together, since they share a cluster, and files begin in their order: pytest-xdist's default, by
# number of tests, would start the longest last. Four is the largest number of parallel runs that was tried.
BESIDE_EACH_OTHER = ["-n", str(min(os.cpu_count() or 1, 4)), "--dist", "loadfile", "--no-loadscope-reorder"]
SLOWEST = ["--durations=60", "--durations-min=5"]  # for a folder over its budget


def main() -> int:
    """Run both parts even if the first fails; return the first bad exit code. The last line has the totals."""
    codes = []
    ended: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for title, selection in PARTS.items():
        started = time.monotonic()
        print(f"== tests {title}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "results.xml"
            options = [*BESIDE_EACH_OTHER, *SLOWEST, f"--junit-xml={results}"]
            command = [sys.executable, "-m", "pytest", "-q", "tests", *selection, *options]
            codes.append(subprocess.run([*command, *sys.argv[1:]], check=False).returncode)
            ended.update(_counted(results))
            spent.update(spent_by_folder(results))
        print(f"== tests {title}: {time.monotonic() - started:.0f} s", flush=True)
    print(budget_table(spent))
    print("Left out: tests marked slow; they are run by make test-slow.")
    skipped = f", {ended['skipped']} skipped (why: see SKIPPED above)" if ended["skipped"] else ""
    print(f"{ended['passed']} passed, {ended['failed']} failed{skipped}", flush=True)
    return next((code for code in codes if code), 0)


def _counted(results: Path) -> Counter[str]:
    """Return the outcomes of pytest's test cases; empty if pytest did not finish."""
    if not results.is_file():
        return Counter()
    return Counter(_outcome(case) for case in ET.parse(results).iter("testcase"))


def spent_by_folder(results: Path) -> Counter[str]:
    """Return the milliseconds of each folder's tests below ``tests``, fixtures included."""
    spent: Counter[str] = Counter()
    if results.is_file():
        for case in ET.parse(results).iter("testcase"):
            # tests.spark.test_job, or tests.test_imports for a file outside any folder
            _, folder, *below = case.get("classname", "").split(".")
            spent[folder if below else ""] += round(1000 * float(case.get("time", "0")))
    return spent


def budget_table(spent_ms: Mapping[str, int]) -> str:
    """Return a table of each folder's seconds and budget, the longest first."""
    lines = [f"{'folder':<14}{'seconds':>8}{'budget':>8}"]
    for folder, ms in sorted(spent_ms.items(), key=lambda entry: -entry[1]):
        seconds, budget = ms / 1000, BUDGETS_S.get(folder, OTHERS_S)
        lines.append(f"{folder or '(none)':<14}{seconds:>8.0f}{budget:>8}{'  over' if seconds > budget else ''}")
    return "\n".join(lines)


def _outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "skipped"


if __name__ == "__main__":
    sys.exit(main())
