"""The command behind ``make test``: unit tests first, then tests against real brokers; says what was left out."""

from __future__ import annotations

import subprocess
import sys
import time

PARTS = {
    "without any cluster": ["-m", "not cluster and not pipeline and not slow"],
    "with real brokers, Spark applications and Airflow": ["-m", "(cluster or pipeline) and not slow"],
}


def main() -> int:
    """Run both parts even if the first fails; returns the first bad exit code."""
    codes = []
    for title, selection in PARTS.items():
        started = time.monotonic()
        print(f"== tests {title}", flush=True)
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "tests", *selection, *sys.argv[1:]], check=False)
        print(f"== tests {title}: {time.monotonic() - started:.0f} s", flush=True)
        codes.append(done.returncode)
    print("Left out: tests marked slow; they are run by make test-slow.", flush=True)
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
