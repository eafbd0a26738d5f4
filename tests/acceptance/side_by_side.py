"""Test that concurrent runs do not affect each other: ``python -m tests.acceptance side_by_side TRIES``.

Each row of docs/data/side_by_side.json starts four runs with different versions, faults and runtimes at once, two of
them as an unprivileged user with a separate checkout. Required: addresses differ; only its own run starts and ends a
node; files belong to the run's user; ``fail`` is only by a known bug; exit codes match verdicts; the host is as before.
Start it as root, with nothing else on the host and a Python that all users may execute.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from history.events import errors_of, read_events
from history.exit_codes import EXIT_CODES, UNKNOWN
from history.folder import RunFolder
from history.manifest import read_manifest
from tests.acceptance.experiment import Experiment
from tests.acceptance.host import inventory, left
from tests.acceptance.reliability import known_bugs
from tests.rows import DATA, ROOT, Row, read, today

RESULTS = DATA / "side_by_side.json"
USER = pwd.getpwnam("nobody")  # every Linux host has it
OWN = pwd.getpwuid(os.getuid()).pw_name
OTHER = ROOT / ".cache" / "other-checkout"
DOCKER = Path("/var/run/docker.sock")
RATE = 100  # per second: two cores carry a dozen brokers
LIMIT_S = 900


class Asked(NamedTuple):
    """A run, and whether the other user starts it."""

    scenario: str
    kafka: str
    runtime: str
    other: bool = False


ASKED = (
    Asked(str(Path(__file__).with_name("kills.yaml")), "3.9.1", "docker"),
    Asked("rolling_restart", "4.3.0", "docker", other=True),
    Asked("survived_faults", "2.8.2", "docker"),
    Asked("controller_failover", "4.4.0", "process", other=True),
)


def check_out() -> None:
    """Clone the current commit for the other user, with packages and jars."""
    shutil.rmtree(OTHER, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, OTHER], check=True)
    (OTHER / ".venv").symlink_to(ROOT / ".venv")
    for name in ("clients", "jars", "java", "java-in-image", "kafka"):  # their locks belong to each user
        (OTHER / ".cache" / name).mkdir(parents=True)
        for found in (ROOT / ".cache" / name).glob("[!.]*"):
            (OTHER / ".cache" / name / found.name).symlink_to(found)
    subprocess.run(["chown", "--recursive", "--no-dereference", f"{USER.pw_uid}:{USER.pw_gid}", OTHER], check=True)
    asked = [str(OTHER / "plimsoll"), "--help"]
    tried = subprocess.run(asked, capture_output=True, text=True, check=False, **_as_the_other())
    if tried.returncode:
        sys.exit(f"{USER.pw_name} cannot run this project: {tried.stderr.strip()}")


def attempt(number: int) -> Row:
    """Start all runs, wait, check, and return the row. Only a wrong one's runs stay."""
    folder = Path(tempfile.mkdtemp(prefix="side-by-side-", dir=ROOT / ".cache"))
    folder.chmod(0o755)  # it also contains the other user's runs
    before = inventory()
    places = [folder / str(place) for place in range(len(ASKED))]
    started = [_start(asked, number, place) for asked, place in zip(ASKED, places, strict=True)]
    codes = [_code(process) for process in started]
    subprocess.run([ROOT / "plimsoll", "clean"], capture_output=True, check=False)
    runs = [next(iter(sorted(place.glob("runs/*/manifest.json"))), None) for place in places]
    row = {
        "number": number,
        "date": today(),
        "runs": [
            {**asked._asdict(), "scenario": Path(asked.scenario).stem, "user": run and run.owner(), "exit_code": code}
            | seen(run and run.parent)
            | {"foreign": foreign(place, USER.pw_name if asked.other else OWN)}
            for asked, code, place, run in zip(ASKED, codes, places, runs, strict=True)
        ],
        "shared": shared([addresses(run) for run in runs if run]),
        "left": left(before, inventory()),
    }
    if not wrong(row):
        shutil.rmtree(folder)
    return row


def _start(asked: Asked, seed: int, place: Path) -> subprocess.Popen[bytes]:
    place.mkdir(parents=True)
    command = [str((OTHER if asked.other else ROOT) / "plimsoll"), "run", asked.scenario, "--kafka", asked.kafka]
    command += ["--runtime", asked.runtime, "--rate", str(RATE), "--seed", str(seed), "--runs", str(place / "runs")]
    if asked.other:
        os.chown(place, USER.pw_uid, USER.pw_gid)
    with place.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, **(_as_the_other() if asked.other else {}))


def _as_the_other() -> dict[str, Any]:
    variables = os.environ | {"HOME": str(OTHER), "USER": USER.pw_name, "LOGNAME": USER.pw_name}
    groups = [DOCKER.stat().st_gid]
    return {"user": USER.pw_uid, "group": USER.pw_gid, "extra_groups": groups, "env": variables, "cwd": OTHER}


def _code(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait(60)
        return None


def seen(run: Path | None) -> dict[str, Any]:
    """Return a run's verdict, and what others did to its nodes."""
    if run is None:
        return {"verdict": None, "known_bugs": [], "touched": ["nothing was recorded"]}
    folder = RunFolder(run)
    told = json.loads(folder.verdict_file.read_text()) if folder.verdict_file.exists() else {}
    return {
        "verdict": told.get("verdict"),
        "known_bugs": known_bugs(told) if told else [],
        "touched": [*errors_of(folder), *restarts(folder)],
    }


def restarts(folder: RunFolder) -> list[str]:
    """Return nodes that were started more often than their own run ended them."""
    ended = Counter[str]()
    for event in read_events(folder.events):
        if event.kind == "inject":
            ended.update(event.target.split(", "))
    starts = Counter(each.node for each in read_manifest(folder.manifest).incarnations)
    return [f"{node} was started {times} times" for node, times in starts.items() if times > 1 + ended[node]]


def foreign(folder: Path, user: str) -> list[str]:
    """Return a run's files that belong to another user."""
    return [
        f"{path.relative_to(folder)} is {path.owner()}'s" for path in sorted(folder.rglob("*")) if path.owner() != user
    ]


def addresses(manifest: Path) -> set[str]:
    """Return the addresses on which a run's nodes listened."""
    listeners = ("advertised.listeners", "listeners")
    told = [node.config.get(name, "") for node in read_manifest(manifest).nodes for name in listeners]
    return {each.split("://")[-1] for line in told for each in line.split(",") if each}


def shared(of_runs: Sequence[set[str]]) -> list[str]:
    """Return the addresses that two runs used at once."""
    return sorted(set().union(*(first & second for first, second in combinations(of_runs, 2))))


def wrong(row: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a row."""
    return [
        *(f"{run['scenario']}: {what}" for run in row["runs"] for what in [*run["touched"], *run.get("foreign", [])]),
        *(f"{run['scenario']}: fail" for run in row["runs"] if run["verdict"] == "fail" and not run.get("known_bugs")),
        *(
            f"{run['scenario']} ended with {run['exit_code']}"
            for run in row["runs"]
            if run["exit_code"] != EXIT_CODES.get(run["verdict"], UNKNOWN)
        ),
        *row["shared"],
        *row["left"],
    ]


def outstanding(arguments: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of tries up to TRIES, with a checkout for the other user."""
    numbers = range(len(read(RESULTS)), int(arguments[0]) if arguments else 0)
    if numbers:
        check_out()
        yield from numbers
        shutil.rmtree(OTHER)


def _words(row: Row) -> str:
    verdicts = ", ".join(f"{run['scenario']} {run['verdict']}" for run in row["runs"])
    return f"{row['number']}: {verdicts}"


main = Experiment(RESULTS, "number", outstanding, attempt, _words, wrong)
