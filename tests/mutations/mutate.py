"""Count the damage that the judge detects: ``make mutate`` writes docs/data/mutation.json.

Clean runs of several versions of Kafka (kept in runs/mutate/clean) are damaged in every way and judged. ``python -m
tests.mutations.mutate [--places N] [--kinds NAME …] [--add] [RUN …]``; ``--add`` keeps the counted rows.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from campaigns.statistics.intervals import clopper_pearson
from history.errors import HarnessError
from history.folder import RunFolder
from history.manifest import read_manifest
from spark.submit import judge
from tests.acceptance.reliability import VERSIONS, record
from tests.mutations.kind import Kind
from tests.mutations.kinds import HARMLESS, KINDS
from tests.mutations.recording import NoPlaceError, Recording
from tests.rows import DATA, ROOT, Row, read, today, write

RUNS = ROOT / "runs" / "mutate"
CLEAN = RUNS / "clean"
SO_FAR = RUNS / "rows.json"
RESULTS = DATA / "mutation.json"
SCENARIOS = {
    "survived_faults": VERSIONS,
    "transactions": ("3.9.1", "4.3.0"),
    "exactly_once": ("4.3.1",),
    "group_members": ("3.9.1",),
    "share_group": ("4.3.0",),
}
TOGETHER = 24  # folders that one application judges
UNDAMAGED = [
    *(Kind(f"undamaged_{name}", "Nothing is changed.", (), None, lambda _: "nowhere", name) for name in SCENARIOS),
    *HARMLESS,
]


class Copy(NamedTuple):
    """A damaged copy and its damage."""

    kind: Kind
    version: str
    folder: RunFolder
    where: str
    place: int


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if all damage was detected without a false alarm."""
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("runs", nargs="*", type=Path, help="clean run folders instead of runs/mutate/clean")
    parser.add_argument("--places", type=int, default=1, help="places to damage in each run, for each kind")
    parser.add_argument("--kinds", nargs="+", default=[], help="these kinds only; nothing is kept then")
    parser.add_argument("--add", action="store_true", help="keep the counted rows, and judge what they lack")
    asked = parser.parse_args(arguments)
    kinds = [kind for kind in [*UNDAMAGED, *KINDS] if not asked.kinds or kind.name in asked.kinds]
    kept = SO_FAR if SO_FAR.is_file() or not asked.add else RESULTS
    rows = [] if asked.kinds else read(kept)
    done = {(row["kind"], row["kafka"], row["place"]) for row in rows}
    places = range(asked.places)
    outstanding = {
        kind.scenario
        for kind in kinds
        if not {(kind.name, version, place) for version in SCENARIOS[kind.scenario] for place in places} <= done
    }
    given = {name: [run for run in asked.runs if _scenario(run) == name] for name in SCENARIOS}
    runs = {name: given[name] or (list(clean_runs(name)) if name in outstanding else []) for name in SCENARIOS}
    planned = [
        (kind, run, place)
        for kind in kinds
        for run in runs[kind.scenario]
        for place in places
        if (kind.name, _version(run), place) not in done
    ]
    started = time.monotonic()
    for at in range(0, len(planned), TOGETHER):
        rows += judged_batch(planned[at : at + TOGETHER])
        judged = min(at + TOGETHER, len(planned))
        left = (time.monotonic() - started) / judged * (len(planned) - judged)
        print(f"{judged} of {len(planned)} judged, about {left / 60:.0f} min left", flush=True)
        if not asked.kinds:
            write(SO_FAR, rows)
    print(table(rows))
    if not asked.kinds:
        write(RESULTS, rows)
        SO_FAR.unlink(missing_ok=True)
    return 0 if all(row["seen"] for row in rows) else 1


def clean_runs(scenario: str) -> Iterator[Path]:
    """Yield a clean run of a scenario per version; record missing ones."""
    kept = [file.parent for file in CLEAN.glob("*/sealed.json") if _scenario(file.parent) == scenario]
    for version in SCENARIOS[scenario]:
        found = [run for run in kept if _version(run) == version]
        yield found[0] if found else recorded_clean(scenario, version)


def recorded_clean(scenario: str, version: str) -> Path:
    """Record a run that passes; a version's own bugs may need several tries.

    Raises:
        HarnessError: none of five tries passed.
    """
    for _ in range(5):
        run = record(scenario, version, RUNS)
        judge([run])
        if json.loads(RunFolder(run).verdict_file.read_text())["verdict"] == "pass":
            CLEAN.mkdir(parents=True, exist_ok=True)
            return run.rename(CLEAN / run.name)
        shutil.rmtree(run)
    raise HarnessError(f"None of five runs of {scenario} on Kafka {version} passed, so there is nothing to damage.")


def _version(run: Path) -> str:
    return read_manifest(RunFolder(run).manifest).kafka_version


def _scenario(run: Path) -> str:
    return read_manifest(RunFolder(run).manifest).scenario_name


def judged_batch(planned: list[tuple[Kind, Path, int]]) -> list[Row]:
    """Make and judge the copies in one application."""
    shutil.rmtree(RUNS / "damaged", ignore_errors=True)
    copies = [copy for kind, run, place in planned if (copy := damaged(kind, run, place)) is not None]
    if copies:
        judge([copy.folder.path for copy in copies])
    rows = [outcome(copy) for copy in copies]
    shutil.rmtree(RUNS / "damaged", ignore_errors=True)
    return rows


def damaged(kind: Kind, run: Path, place: int) -> Copy | None:
    """Return a sealed copy with one damage, or None without a place."""
    to = RUNS / "damaged" / f"{kind.name}-{_version(run)}-{place}"
    recording = Recording.copy(run, to, f"{kind.name} {place}")
    try:
        where = kind.damage(recording)
    except NoPlaceError:
        shutil.rmtree(to)
        return None
    recording.folder.seal()
    return Copy(kind, _version(run), recording.folder, where, place)


def outcome(copy: Copy) -> dict[str, Any]:
    """Return a row of mutation.json."""
    verdict = json.loads(copy.folder.verdict_file.read_text())
    broken = sorted(name for name, found in verdict["invariants"].items() if found["violations"])
    reported = [*sorted(verdict["anomalies"]), *sorted(broken, key=lambda name: int(name[1:]))]
    return {
        "kind": copy.kind.name,
        "kafka": copy.version,
        "date": today(),
        "place": copy.place,
        "where": copy.where,
        "verdict": verdict["verdict"],
        "reported": reported,
        "reasons": verdict["reasons"][:3],
        "seen": seen(copy.kind, verdict, reported),
    }


def seen(kind: Kind, verdict: dict[str, Any], reported: list[str]) -> bool:
    """Return whether the verdict reports the damage or names the missing evidence."""
    if not kind.found_by and not kind.reason:
        return verdict["verdict"] == "pass" and not reported
    if kind.reason is None:
        return bool(set(kind.found_by) & set(reported))
    named = any(re.search(kind.reason, reason) for reason in verdict["reasons"])
    return verdict["verdict"] == "unknown" and named and (not kind.found_by or bool(set(kind.found_by) & set(reported)))


def table(rows: list[Row]) -> str:
    """Return the table, one line per kind."""
    lines = ["| damage | what is done | seen as | seen | of |", "|---|---|---|---|---|"]
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind.name]
        if own:
            names = [f"`{name}`" for name in kind.found_by] or [f"{_verdicts(own)}, naming the {kind.reason}"]
            lines.append(
                f"| {kind.name} | {kind.words} | {', '.join(names).replace('|', ' or ')} "
                f"| {sum(row['seen'] for row in own)} | {len(own)} |"
            )
    return "\n".join(lines)


def _verdicts(rows: list[Row]) -> str:
    return " or ".join(sorted({row["verdict"] for row in rows}))


def upper_bound(found: int, tries: int) -> float:
    """Return the one-sided Clopper-Pearson bound at 95 %."""
    return clopper_pearson(found, tries, confidence=0.90)[1]  # two sides of 5 %


if __name__ == "__main__":
    raise SystemExit(main())
