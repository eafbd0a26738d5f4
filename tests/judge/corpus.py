"""Compare the verdicts of two judges on a corpus of recorded runs.

``python -m tests.judge.corpus record DIR`` makes missing runs of scenarios, versions, known bugs, imports and damage in
DIR/runs, with Docker. ``judge DIR --keep NAME`` judges runs without a verdict of that name and moves verdicts to
DIR/verdicts/NAME. ``compare A B`` prints the differences of two such folders.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from campaigns.known_bugs.bugs import BUGS, Bug
from clusters.run import experiment, recorder
from history.folder import RunFolder
from history.kafka_versions import DEFAULT_RELEASE
from history.manifest import Origin
from history.tables import JUDGED
from imports.formats import import_history
from imports.run_folder import Settings
from spark.submit import judge
from tests.mutations.kind import Kind
from tests.mutations.kinds import HARMLESS, KINDS
from tests.mutations.recording import NoPlaceError, Recording

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
AT_ONCE = 2
TOGETHER = 16  # folders that one application judges
SEED = 1
MAIN = "follower_lag_then_leader_kill"
MAIN_ON = ("2.8.2", "3.0.2", "3.9.1", "4.3.1")
# Others run on the newest Kafka.
VERSIONS: Mapping[str, str] = {"rolling_upgrade": "3.8.1"}
MORE = (
    ("survived_faults", "2.8.2"),
    *((name, "3.9.1") for name in ("survived_faults", "transactions", "exactly_once", "group_members")),
    ("share_group", "4.3.0"),
)
IMPORTS: Mapping[Origin, str] = {
    "operations": "operations.jsonl",
    "verifiable": "verifiable.json",
    "ledger": "ledger.jsonl",
    "jepsen": "jepsen.edn",
}
DAMAGED_ON = defaultdict(lambda: "3.9.1", share_group="4.3.0")
TABLES = ("anomaly_counts", "anomalies", "invariants", "delivery", "recovery", "latency", "metrics")
KEYS: Mapping[str, Sequence[str]] = {  # rows without a name are only compared for presence
    "anomaly_counts": ("anomaly", "allowed"),
    "invariants": ("invariant",),
    "delivery": ("topic", "partition"),
    "recovery": ("phase", "fault", "topic", "partition", "metric", "from_ns"),
    "latency": ("phase",),
    "metrics": ("metric", "phase"),
}
# verdict.json repeats tables; ``judge`` always differs.
IN_TABLES = frozenset({"anomalies", "invariants", "delivery"}) | {"judge"}


class Item(NamedTuple):
    """A run of the corpus; ``make`` records it and returns its path."""

    name: str
    make: Callable[[Path], Path]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if everything exists, or nothing differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.judge.corpus", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--minutes", type=float, default=math.inf, help="begin nothing after that time")
    judging = commands.add_parser("judge")
    judging.add_argument("folder", type=Path)
    judging.add_argument("--keep", required=True, metavar="NAME", help="the judge's name")
    judging.add_argument("--together", type=int, default=TOGETHER, help="runs that one Spark application judges")
    judging.add_argument("--minutes", type=float, default=math.inf, help="begin nothing after that time")
    comparing = commands.add_parser("compare")
    comparing.add_argument("one", type=Path)
    comparing.add_argument("other", type=Path)
    comparing.add_argument("--tables", nargs="+", default=TABLES, choices=sorted(JUDGED))
    asked = parser.parse_args(arguments)
    if asked.command == "compare":
        found = list(differences(asked.one, asked.other, asked.tables))
        print("\n".join([*found, f"{len(found)} differences"]))
        return 1 if found else 0
    until = time.monotonic() + asked.minutes * 60
    if asked.command == "record":
        left = record(asked.folder, until)
    else:
        left = judge_all(asked.folder, asked.keep, until, asked.together)
    print(f"{len(left)} left: {', '.join(left)}" if left else "nothing is left")
    return 1 if left else 0


# --- the items ---------------------------------------------------------------------------------------


def runs() -> list[Item]:
    """Return the items that are recorded with a cluster."""
    by_bug = {bug.scenario for bug in BUGS}
    shipped = [path.stem for path in sorted((ROOT / "scenarios").glob("*.yaml")) if path.stem not in by_bug]
    plain = [
        *((name, VERSIONS.get(name, DEFAULT_RELEASE)) for name in shipped),
        *MORE,
        *((MAIN, kafka) for kafka in MAIN_ON),
    ]
    return [
        *(_bug(bug, "bad", bug.bad, bug.bad_changes) for bug in BUGS),
        *(Item(f"{name}-{kafka}", partial(_recorded, name, kafka, {})) for name, kafka in plain),
        *(_bug(bug, "good", bug.good, bug.good_changes) for bug in BUGS if bug.good),
    ]


def _bug(bug: Bug, side: str, kafka: str, changes: Mapping[str, Any]) -> Item:
    return Item(f"{bug.scenario}-{side}-{kafka}", partial(_recorded, bug.scenario, kafka, changes))


def _recorded(scenario: str, kafka: str, changes: Mapping[str, Any], to: Path) -> Path:
    run = experiment.prepare(
        scenario, kafka=kafka, runtime="docker", seed=SEED, changes=changes, runs=to, lease="process"
    )
    recorder.record(run)
    return run


def imports() -> list[Item]:
    """Return the examples of imported histories."""
    return [Item(f"import-{origin}", partial(_imported, origin, file)) for origin, file in IMPORTS.items()]


def _imported(origin: Origin, file: str, to: Path) -> Path:
    return import_history([EXAMPLES / file], origin, Settings(), to).path


def damages(recorded: Path) -> list[Item]:
    """Return every kind of damage, in its scenario's recording."""
    return [
        Item(f"damage-{kind.name}", partial(_damaged, kind, recorded / f"{kind.scenario}-{DAMAGED_ON[kind.scenario]}"))
        for kind in [*HARMLESS, *KINDS]
    ]


def _damaged(kind: Kind, run: Path, to: Path) -> Path:
    recording = Recording.copy(run, to / kind.name, kind.name)
    kind.damage(recording)
    recording.folder.seal()
    return recording.folder.path


# --- record and judge --------------------------------------------------------------------------------


def record(folder: Path, until: float = math.inf) -> list[str]:
    """Make the missing items; return those still missing."""
    recorded, unfinished = folder / "runs", folder / "unfinished"
    recorded.mkdir(parents=True, exist_ok=True)
    items = [imports(), runs(), damages(recorded)]
    for group in items:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda item: _make(item, recorded, unfinished, until), group))
    return [item.name for group in items for item in group if not _is_there(item, recorded)]


def _make(item: Item, recorded: Path, unfinished: Path, until: float) -> None:
    if _is_there(item, recorded) or time.monotonic() > until:
        return
    to = unfinished / item.name
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    told = "recorded"
    try:
        item.make(to).rename(recorded / item.name)
    except NoPlaceError:
        told = "no place for"
        (recorded / f"{item.name}.no-place").touch()
    except Exception as error:  # noqa: BLE001  # any failure: the next item may succeed
        print(f"broke {item.name}: {type(error).__name__}: {error}", flush=True)
        return
    shutil.rmtree(to)
    print(f"{told} {item.name}", flush=True)


def _is_there(item: Item, recorded: Path) -> bool:
    return RunFolder(recorded / item.name).is_sealed or (recorded / f"{item.name}.no-place").exists()


def judge_all(folder: Path, name: str, until: float = math.inf, together: int = TOGETHER) -> list[str]:
    """Judge the runs without this verdict; return those still without."""
    kept = folder / "verdicts" / name
    kept.mkdir(parents=True, exist_ok=True)
    sealed = sorted((path.parent for path in (folder / "runs").glob("*/sealed.json")), key=_damaged_last)
    left = [run for run in sealed if not (kept / run.name).exists()]
    while left and time.monotonic() < until:
        batch, left = left[:together], left[together:]
        judge(batch)
        for run in batch:
            RunFolder(run).verdict.rename(kept / run.name)
    return [run.name for run in left]


def _damaged_last(run: Path) -> tuple[bool, str]:
    return run.name.startswith("damage-"), run.name


# --- compare -----------------------------------------------------------------------------------------


def differences(one: Path, other: Path, tables: Sequence[str] = TABLES) -> Iterator[str]:
    """Yield a line per difference, starting with the run's name."""
    for run in sorted({path.name for folder in (one, other) for path in folder.iterdir()}):
        absent = [folder for folder in (one, other) if not (folder / run).is_dir()]
        if absent:
            yield f"{run}: no verdict in {absent[0]}"
            continue
        yield from (f"{run}: {words}" for words in _of_run(one / run, other / run, tables))


def _of_run(one: Path, other: Path, tables: Sequence[str]) -> Iterator[str]:
    texts = [read_verdict(folder) for folder in (one, other)]
    for key in dict.fromkeys(key for text in texts for key in text if key not in IN_TABLES):
        yield from _values(f"verdict.json {key}", texts[0].get(key), texts[1].get(key))
    for table in tables:
        yield from _of_table(table, *(pq.read_table(folder / table).to_pylist() for folder in (one, other)))


def read_verdict(folder: Path) -> dict[str, Any]:
    """Return the content of verdict.json."""
    return dict(json.loads((folder / "verdict.json").read_text()))


def _of_table(table: str, one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = KEYS.get(table, JUDGED[table].names)
    left, right = (_by_name(rows, names) for rows in (one, other))
    for name in sorted({*left, *right}):
        for mine, yours in zip_longest(left[name], right[name]):
            words = f"{table} {' '.join(name)}"
            if mine is None or yours is None:
                yield f"{words}: {'added' if mine is None else 'missing'}"
                continue
            for column in mine:
                yield from _values(f"{words} {column}", mine[column], yours[column])


def _by_name(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[tuple[str, ...], list[Mapping[str, Any]]]:
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=repr):
        found[tuple(str(row[name]) for name in names)].append(row)
    return found


def _values(words: str, one: Any, other: Any) -> Iterator[str]:
    floats = isinstance(one, float) and isinstance(other, float)
    if not (math.isclose(one, other, rel_tol=1e-9) if floats else one == other):
        yield f"{words}: {one!r} -> {other!r}"


if __name__ == "__main__":
    raise SystemExit(main())
