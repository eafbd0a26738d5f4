"""Write the setting names of each minor release of Kafka: ``python -m tests.history.kafka_settings``.

The newest patch of each release lists its own (``ListSettings.java``), never a build under test. Needs a JDK's
compiler.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from clusters.kafka.jars import kafka_jars
from history.kafka_settings import TABLE
from history.kafka_versions import CLIENT_RELEASES, DEFAULT_RELEASE, Version

SOURCE = Path(__file__).with_name("ListSettings.java")


def names_of(release: str, classes: Path) -> set[tuple[str, str]]:
    """Return a release's settings as pairs of broker or topic, and name."""
    command = ["java", "-cp", f"{classes}:{kafka_jars(release)}/*", SOURCE.stem]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    lines = (line.split(" ") for line in told.splitlines())
    return {(words[0], words[1]) for words in lines if len(words) == 2 and words[0] in ("broker", "topic")}


def table(found: dict[Version, set[tuple[str, str]]]) -> dict[str, dict[str, str]]:
    """Return each name's releases, such as 2.8-3.9 or 2.8-."""
    releases = sorted(found)
    rows: dict[str, dict[str, str]] = {"broker": {}, "topic": {}}
    for kind, name in sorted(set().union(*found.values())):
        known = [release for release in releases if (kind, name) in found[release]]
        last = "" if known[-1] == releases[-1] else known[-1].minor_release
        rows[kind][name] = f"{known[0].minor_release}-{last}"
    return rows


def main() -> None:
    """Query every release and write the table."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["javac", "-d", folder, str(SOURCE)], check=True, timeout=60)
        releases = (DEFAULT_RELEASE, *CLIENT_RELEASES)
        found = {Version.parse(release): names_of(release, Path(folder)) for release in releases}
    TABLE.write_text(json.dumps(table(found), indent=1) + "\n")


if __name__ == "__main__":
    main()
