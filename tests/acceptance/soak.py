"""Run an hour of randomised faults in each mode: ``python -m tests.acceptance soak [MODE …]``.

Each row is one ``plimsoll soak``: violations, processes' memory growth, peaks of drain and judge, and the record's
size. Runs and pages are in ``.cache/soak``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from clusters.scenario.schedules import FAULT_MIX
from history.manifest import read_manifest
from reports.memory import used
from reports.run_data import read_run
from reports.timeline import end_of_run
from tests.acceptance.experiment import of_cases
from tests.acceptance.fault_mixes import play
from tests.acceptance.reliability import known_bugs
from tests.rows import DATA, ROOT, Row, today

RESULTS = DATA / "soak.json"
FOLDER = ROOT / ".cache" / "soak"
MINUTES = 62  # the record may be a minute shorter
WATCHED = {  # by a part of their command lines
    "drain": "clusters.clients.drain",
    "driver": "spark/application.py",
    "driver's JVM": "org.apache.spark.deploy.SparkSubmit",
}
KAFKAS_OWN = re.compile("broker|controller|zookeeper")  # processes whose memory is not Plimsoll's
FLAT = 0.2
MAX_BYTES_PER_RECORD = 1000  # per acknowledged record of 100 bytes


class Soak(NamedTuple):
    """The mode, version and seed of a soak."""

    mode: str
    kafka: str
    seed: int


SOAKS = (Soak("kraft", "4.4.0", 1), Soak("zookeeper", "3.9.1", 2))


class Peaks:
    """Track watched processes' peak resident memory, in MB."""

    def __init__(self) -> None:
        self.mb: dict[str, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(2):
            for process in psutil.process_iter():
                with suppress(psutil.Error):
                    words = " ".join(process.cmdline())
                    for name in (name for name, part in WATCHED.items() if part in words):
                        used_mb = process.memory_info().rss / 1e6
                        self.mb[name] = max(self.mb.get(name, 0.0), used_mb)


def attempt(soak: Soak) -> Row:
    """Run one soak and return its row."""
    asked = ["--kafka", soak.kafka, "--minutes", str(MINUTES), "--seed", str(soak.seed)]
    with Peaks() as peaks:
        code = play("soak", FOLDER / soak.mode, FAULT_MIX, {"cluster": {"mode": soak.mode}}, asked)
    return row(soak, code, max((FOLDER / soak.mode / "runs").iterdir()), peaks.mb)


def row(soak: Soak, code: int, run: Path, peaks_mb: Mapping[str, float]) -> Row:
    """Return the row of a run folder and its verdict."""
    data = read_run(run)
    delivery = data.verdict.get("delivery", {})
    return {
        **soak._asdict(),
        "exit_code": code,
        "verdict": data.verdict["verdict"],
        "sentence": data.verdict.get("sentence"),
        "known_bugs": known_bugs(data.verdict),
        "minutes": round(end_of_run(data) / 60, 1),
        "phases": len(read_manifest(data.folder.manifest).scenario["phases"]),
        "acked": delivery.get("acked", 0),
        "invariants": {name: found["verdict"] for name, found in data.verdict.get("invariants", {}).items()},
        "grew": {own.name: round(own.growth, 3) for own in used(data) if own.growth is not None},
        "most_mb": {own.name: round(max(own.mb)) for own in used(data)} | {n: round(mb) for n, mb in peaks_mb.items()},
        "record_mb": round(sum(file.stat().st_size for file in run.rglob("*") if file.is_file()) / 1e6),
        "date": today(),
    }


def wrong(found: Mapping[str, Any]) -> list[str]:
    """Return a row's violated expectations; known bugs are allowed."""
    grew = {name: share for name, share in found["grew"].items() if not KAFKAS_OWN.match(name)}
    size = found["record_mb"] * 1e6 / max(found["acked"], 1)
    return [
        *([found["sentence"]] if found["verdict"] != "pass" and not found.get("known_bugs") else []),
        *(f"{name} is unknown" for name, verdict in found["invariants"].items() if verdict == "unknown"),
        *(f"{name} grew by {share:.0%}" for name, share in grew.items() if share > FLAT),
        *([f"{size:.0f} bytes for each acknowledged record"] if size > MAX_BYTES_PER_RECORD else []),
    ]


def _words(found: Row) -> str:
    return f"{found['mode']}: {found['minutes']} min"


main = of_cases(RESULTS, "mode", {soak.mode: soak for soak in SOAKS}, attempt=attempt, words=_words, wrong=wrong)
