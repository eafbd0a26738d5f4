"""Judge folders with one piece of evidence deleted, and count wrong verdicts; part of ``make mutate``.

``python -m tests.mutations.absence [RUN …]`` tries generated folders and the named runs; other rows of
docs/data/absence.json are kept.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench import folders
from bench.generated.plan import Plan, Planted
from history.folder import RunFolder
from history.manifest import read_manifest
from tests.mutations.deletions import Absence, deletions
from tests.rows import DATA, Row, put, today

RESULTS = DATA / "absence.json"
GENERATED = {
    "sound": Planted(),
    "lost": Planted(lost=3),
    "read otherwise": Planted(duplicates=1, phantoms=1, aborted=1, reordered=2),
}


def plan_of(name: str) -> Plan:
    """Return the plan of a generated folder."""
    return Plan(records=160, partitions=2, producers=2, seconds=10, probe_hz=10, planted=GENERATED[name])


def counted(absence: Absence, name: str) -> Row:
    """Delete each piece of evidence in turn and count the verdicts."""
    verdicts, wrong = Counter[str](), {}
    for deletion in deletions(absence.folder):
        found = absence.without(deletion)
        verdicts[found.verdict] += 1
        if sentences := absence.wrong(deletion, found):
            wrong[deletion.words] = sentences
    whole, date = absence.whole.verdict, today()
    deleted = verdicts.total()
    return {"folder": name, "whole": whole, "deleted": deleted, **_verdicts(verdicts), "wrong": wrong, "date": date}


def _verdicts(counts: Counter[str]) -> dict[str, int]:
    return {verdict: counts[verdict] for verdict in ("pass", "fail", "unknown")}


def _folders(runs: Iterable[Path], scratch: Path) -> Iterator[tuple[str, RunFolder]]:
    for name in GENERATED:
        yield f"generated, {name}", folders.write(plan_of(name), scratch / name.replace(" ", "-"))
    for run in runs:
        manifest = read_manifest(RunFolder(run).manifest)
        yield f"{manifest.scenario_name} on {manifest.kafka_version}", RunFolder(run)


def main(arguments: list[str] | None = None) -> int:
    """Write the rows; return 0 if no verdict was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations.absence", description=__doc__)
    parser.add_argument("runs", nargs="*", type=Path, help="run folders, in addition to the generated ones")
    asked = parser.parse_args(arguments)
    wrong = 0
    with tempfile.TemporaryDirectory(dir=asked.runs[0].parent if asked.runs else None) as scratch:
        for name, folder in _folders(asked.runs, Path(scratch)):
            row = counted(Absence(folder, Path(scratch)), name)
            wrong += len(row["wrong"])
            put(RESULTS, "folder", [row])
            print(f"{name}: {row['deleted']} deletions, {len(row['wrong'])} wrong", flush=True)
            for words, sentences in row["wrong"].items():
                print(f"  without {words}: {'; '.join(sentences)}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
