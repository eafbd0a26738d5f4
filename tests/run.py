"""The command behind ``make test``: unit tests first, then tests against real brokers; says what was left out."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

PARTS = {
    "without any cluster": ["-m", "not cluster and not pipeline and not browser and not slow"],
    "with real brokers, browser, Spark and Airflow": ["-m", "(cluster or pipeline or browser) and not slow"],
}


def main() -> int:
    """Run both parts even if the first fails; returns the first bad exit code. The last line is their sum."""
    codes = []
    ended: Counter[str] = Counter()
    for title, selection in PARTS.items():
        started = time.monotonic()
        print(f"== tests {title}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "results.xml"
            command = [sys.executable, "-m", "pytest", "-q", "tests", *selection, f"--junit-xml={results}"]
            codes.append(subprocess.run([*command, *sys.argv[1:]], check=False).returncode)
            ended.update(_counted(results))
        print(f"== tests {title}: {time.monotonic() - started:.0f} s", flush=True)
    print("Left out: tests marked slow; they are run by make test-slow.")
    skipped = f", {ended['skipped']} skipped (why: see SKIPPED above)" if ended["skipped"] else ""
    print(f"{ended['passed']} passed, {ended['failed']} failed{skipped}", flush=True)
    return next((code for code in codes if code), 0)


def _counted(results: Path) -> Counter[str]:
    """How pytest's test cases ended; nothing when pytest did not come to its end."""
    if not results.is_file():
        return Counter()
    return Counter(_outcome(case) for case in ET.parse(results).iter("testcase"))


def _outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "skipped"


if __name__ == "__main__":
    sys.exit(main())
