"""The command behind ``make test``: every test that is not marked slow, in one session of pytest.

At the end it lists the tests that were left out, and each folder's time with its budget. Exceeding a budget fails no
test, since time depends on the machine; together the budgets are what two workers may take of CI's half hour.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

BUDGETS_S = {
    "acceptance": 50,
    "bad_input": 60,
    "campaigns": 200,
    "clusters": 80,
    "commands": 40,
    "docs": 190,  # two runs of a lesson on real brokers
    "expectations": 30,
    "integration": 1700,
    "judge": 40,
    "model": 60,
    "mutations": 30,
    "operators": 160,
    "reports": 320,
    "service": 60,
    "spark": 130,
}
OTHERS_S = 20
# tests/conftest.py decides which tests stay together, and their order. More than four runs in parallel were not tried.
IN_PARALLEL = ["-n", str(min(os.cpu_count() or 1, 4)), "--dist", "loadscope", "--no-loadscope-reorder"]
SLOWEST = ["--durations=60", "--durations-min=5"]  # for a folder over its budget


def main() -> int:
    """Run every test that is not marked slow; return pytest's exit code. The last line counts the tests."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        options = [*IN_PARALLEL, *SLOWEST, f"--junit-xml={results}"]
        command = [sys.executable, "-m", "pytest", "-q", "tests", "-m", "not slow", *options]
        code = subprocess.run([*command, *sys.argv[1:]], check=False).returncode
        ended, spent = _counted(results), spent_by_folder(results)
    print(budget_table(spent))
    print("Left out: tests marked slow; make test-slow runs them.")
    skipped = f", {ended['skipped']} skipped (why: see SKIPPED above)" if ended["skipped"] else ""
    print(f"{ended['passed']} passed, {ended['failed']} failed{skipped}", flush=True)
    return code


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
