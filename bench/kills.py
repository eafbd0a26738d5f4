"""Kill a process of Plimsoll during a run: ``python -m bench.kills KILLS [FIRST]`` writes docs/data/kills.json.

A try's number determines the process, stage and delay of SIGKILL. After one ``plimsoll clean``, the host must be as
before, and the judged record must not pass unless complete. Tries whose process had ended do not count. FIRST is the
lowest number, so that hosts can share tries; from 10,000 on they are during faults, in containers. Run nothing else of
Plimsoll on the host.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from clusters.run.host_lock import LOCK
from clusters.run.stages import COLLECT, TEAR_DOWN, stages
from clusters.runtimes.docker.daemon import daemon_answers
from clusters.scenario.scenario import Scenario
from clusters.waiting import wait_until
from history.errors import WaitTimeout
from history.events import read_events
from history.folder import RunFolder
from history.manifest import read_manifest

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "data" / "kills.json"
AMID_FAULTS = 10_000  # the first try during faults
# waiting for a lost broker, producers, replicas and readers takes about five minutes
END_LIMIT_S = 600.0
STAGE_LIMIT_S = 300.0
GONE_LIMIT_S = 15.0

# a stage's name on the screen, and its usual length in seconds on two cores
AT_RISK = {
    "phase 2/3": 4.0,
    "stopping the clients": 0.3,  # they write buffered rows
    "collecting": 4.0,
    "removing everything": 3.0,
}
OTHERS = {
    "starting the cluster": 8.0,
    "creating the topics": 0.3,
    "starting the clients": 2.0,
    "phase 1/3": 2.0,
    "reading every record again": 1.0,
    "judging": 6.0,
    "writing the page": 2.0,
}
CLIENTS = {"producer": "clusters.clients.producer", "consumer": "clusters.clients.consumer"} | {
    "prober": "clusters.clients.prober"
}
STAYS = {"hsperfdata_root", LOCK.name}  # of all JVMs; of a host's users
OURS = (str(ROOT), "/kafka/", "kafka.", "clusters.clients")  # in the command line of a run's processes
WHILE_CLIENTS_LIVE = ("phase 1/3", "phase 2/3", "stopping the clients")


@dataclass(frozen=True)
class Moment:
    """The process to kill and the time."""

    number: int
    runtime: str
    victim: str
    stage: str
    after_s: float
    scenario: str = "kills"


def moment(number: int) -> Moment:
    """Return what the try of a number does, always the same."""
    drawn = random.Random(number)
    if number >= AMID_FAULTS:
        victim = drawn.choice(victims("phase 2/3", "docker"))
        return Moment(number, "docker", victim, "phase 2/3", round(drawn.uniform(0, 10), 2), "kills_amid_faults")
    runtime = ("process", "docker")[number % 2]
    at_risk = number // 2 % 2 == 0
    stage = drawn.choice(sorted(AT_RISK if at_risk else OTHERS))
    victim = drawn.choice(victims(stage, runtime))
    return Moment(number, runtime, victim, stage, round(drawn.uniform(0, (AT_RISK | OTHERS)[stage]), 2))


def victims(stage: str, runtime: str) -> list[str]:
    """Return the processes that can be killed in a stage."""
    found = ["command", "scheduler"]
    if stage in WHILE_CLIENTS_LIVE:
        found += [*CLIENTS]
    if stage == "judging":
        found += ["spark-submit", "spark-driver"]
    elif runtime == "docker" and stage not in ("creating the topics", "writing the page"):
        found += ["shim", "docker"]
    return found


# --- processes -----------------------------------------------------------------------------------


def processes_of(victim: str, command: int) -> list[psutil.Process]:
    """Return a victim's processes in a command's run."""
    if victim == "command":
        return [psutil.Process(command)]
    if victim == "docker":
        return [process for process in psutil.process_iter() if _name(process) == "dockerd"]
    if victim == "shim":
        return [process for process in psutil.process_iter() if _name(process).startswith("containerd-shim")][:1]
    if victim in CLIENTS:  # in a container it is not a descendant of the command
        return [process for process in psutil.process_iter() if CLIENTS[victim] in _words(process)]
    own = psutil.Process(command).children(recursive=True)
    wanted: Callable[[psutil.Process], bool] = {
        "scheduler": lambda process: " dags test " in _words(process),
        "spark-submit": lambda process: "org.apache.spark.deploy.SparkSubmit" in _words(process),
        "spark-driver": lambda process: "python" in _name(process) and "spark/" in _words(process),
    }[victim]
    return [process for process in own if wanted(process)][:1]


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


# --- resources of a host -------------------------------------------------------------------------


def inventory() -> dict[str, set[str]]:
    """Return everything that a run may leave on the host, by kind; qdiscs contain traffic classes."""
    return {
        "containers": _said("docker", "ps", "--all", "--format", "{{.Names}}"),
        "networks": _said("docker", "network", "ls", "--format", "{{.Name}}"),
        "volumes": _said("docker", "volume", "ls", "--format", "{{.Name}}"),
        "links": {re.sub(r"@.*", "", line.split(": ")[1]) for line in _said("ip", "-oneline", "link")},
        "addresses": {" ".join(line.split()[1:4]) for line in _said("ip", "-oneline", "address")},
        "namespaces": _said("ip", "netns", "list"),
        "rules": {re.sub(r"\[.*?\]", "", line) for line in _said("iptables-save") if not line.startswith("#")},
        "qdiscs": {re.sub(r" refcnt \d+", "", line) for line in _said("tc", "qdisc", "show")},
        "mounts": {line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()},
        "temporary": {entry.name for folder in ("/tmp", "/dev/shm") for entry in Path(folder).iterdir()},
        "processes": {_words(process) for process in psutil.process_iter() if _is_ours(process)},
        "ports": {str(each.laddr) for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN},
    }


def _said(*command: str) -> set[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {line.strip() for line in done.stdout.splitlines() if line.strip()}


def _is_ours(process: psutil.Process) -> bool:
    words = _words(process)
    mine = {os.getpid(), *(each.pid for each in psutil.Process().parents())}
    return process.pid not in mine and any(own in words for own in OURS)


def left(before: Mapping[str, set[str]], after: Mapping[str, set[str]]) -> list[str]:
    """Return new resources that are not meant to stay."""
    return [f"{kind}: {one}" for kind in before for one in sorted(after[kind] - before[kind] - STAYS)]


def staying(before: Mapping[str, set[str]]) -> list[str]:
    """Wait for ``GONE_LIMIT_S``: a killed daemon's links disappear late."""
    stays = list[str]()

    def gone() -> bool:
        stays[:] = left(before, inventory())
        return not stays

    with suppress(WaitTimeout):
        wait_until(gone, limit_s=GONE_LIMIT_S, every_s=1, what="all to disappear")
    return stays


# --- a try ---------------------------------------------------------------------------------------


def attempt(at: Moment, runs: Path) -> dict[str, Any]:
    """Kill, clean, judge and compare; return the row."""
    before = inventory()
    scenario = str(ROOT / "bench" / f"{at.scenario}.yaml")
    asked = [str(ROOT / "plimsoll"), "run", scenario, "--runtime", at.runtime, "--runs", str(runs)]
    with (runs.parent / f"{at.number}.log").open("w") as log:
        process = subprocess.Popen([*asked, "--seed", str(at.number)], stdout=subprocess.PIPE, stderr=log, text=True)
        screen = _Screen(process)
        killed = _kill(at, process, screen)
        if at.victim == "docker":
            _start_docker()
        try:
            code: int | None = process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = None
    cleaned = subprocess.run([ROOT / "plimsoll", "clean"], capture_output=True, text=True, check=False)
    stays = staying(before)
    found = sorted(runs.glob("*/manifest.json"))
    return {
        **asdict(at),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "killed": killed,
        "exit_code": code,
        "clean": cleaned.returncode,
        "left": stays,
        "judged": [judged(path.parent) for path in found],
    }


class _Screen:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.text = ""
        self._process = process
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        for line in self._process.stdout or ():
            self.text += line


def _kill(at: Moment, process: subprocess.Popen[str], screen: _Screen) -> str:
    """Return "" if the process had already ended."""
    wait_until(
        lambda: at.stage in screen.text or process.poll() is not None,
        limit_s=STAGE_LIMIT_S,
        every_s=0.05,
        what=at.stage,
    )
    time.sleep(at.after_s)
    if process.poll() is not None:
        return ""
    met = processes_of(at.victim, process.pid)
    words = [without_checkout(_words(each)) for each in met]
    for each in met:
        each.send_signal(signal.SIGKILL)
    return words[0] if words else ""


def without_checkout(text: str) -> str:
    """Remove the paths of this checkout, its cache and its packages."""
    for shared in (".cache", ".venv"):
        text = text.replace(str((ROOT / shared).resolve()), shared)
    return text.replace(f"{ROOT}/", "")


def _start_docker() -> None:
    """Its containerd is dead, too, but its pid may be in use again."""
    for of in ("docker.pid", "docker/containerd/containerd.pid"):
        Path("/var/run", of).unlink(missing_ok=True)
    subprocess.Popen(["dockerd"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_until(daemon_answers, limit_s=60, what="the Docker daemon to answer")


def judged(run: Path) -> dict[str, Any]:
    """Judge a run if necessary and return its verdict."""
    folder = RunFolder(run)
    code = 0
    if not folder.verdict_file.exists():
        code = subprocess.run([ROOT / "plimsoll", "judge", run], capture_output=True, check=False).returncode
    verdict = json.loads(folder.verdict_file.read_text())["verdict"] if folder.verdict_file.exists() else None
    return {"whole": is_whole(run), "verdict": verdict, "judge": code}


def is_whole(run: Path) -> bool:
    """Return whether a run is sealed and every recording stage succeeded, or was repeated.

    An interrupted stage has no end event. The seal is collecting's last act.
    """
    folder = RunFolder(run)
    scenario = Scenario.model_validate(read_manifest(folder.manifest).scenario)
    recording = {stage.name for stage in stages(scenario)} - {TEAR_DOWN.name}
    ends = [event for event in read_events(folder.stages) if event.kind == "stage_ended" and event.step in recording]
    ended = {(COLLECT.name, "success"), *((event.step, event.detail["state"]) for event in ends)}
    return folder.is_sealed and ended == {(stage, "success") for stage in recording}


def wrong(row: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a row."""
    passed = any(run["verdict"] == "pass" and not run["whole"] for run in row["judged"])
    code = row["exit_code"]
    return [
        *(["it did not end"] if code is None else []),
        *([f"the process had ended before the kill, with exit code {code}"] if code and not row["killed"] else []),
        *([f"clean ended with {row['clean']}"] if row["clean"] else []),
        *row["left"],
        *(["an incomplete record passed"] if passed else []),
    ]


def met(rows: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of tries that killed their process."""
    return sum(bool(row["killed"]) for row in rows)


def untried(rows: Sequence[Mapping[str, Any]], first: int) -> int:
    """Return the lowest number from ``first`` on without a row."""
    tried = {row["number"] for row in rows}
    return next(number for number in count(first) if number not in tried)


def main(wanted: int, first: int = 0) -> int:
    """Make tries until ``wanted`` kills; return 1 if a row is wrong."""
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    kept = Path(tempfile.mkdtemp(prefix="kills-", dir=ROOT / ".cache"))
    while met(rows) < wanted:
        at = moment(untried(rows, first))
        runs = kept / f"try {at.number}"
        runs.mkdir()
        row = attempt(at, runs)
        rows.append(row)
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
        told = "; ".join([*([] if row["killed"] else ["nobody there"]), *(wrong(row) or ["nothing left"])])
        print(f"{at.number}: {at.victim} in {at.stage!r} on {at.runtime}: {row['judged']}; {told}", flush=True)
        if not wrong(row):
            shutil.rmtree(runs)
    bad = [row["number"] for row in rows if wrong(row)]
    print(f"{len(rows)} tries, {met(rows)} of them met their process; {len(bad)} with something wrong: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
