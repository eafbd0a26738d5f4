"""Kill a process of Plimsoll during a run: ``python -m tests.acceptance kills KILLS [FIRST]``.

A try's number determines the process, stage and delay of SIGKILL. After one ``plimsoll clean``, the host must be as
before, and the judged record must not pass unless complete. Tries whose process had ended do not count. FIRST is the
lowest number, so that hosts can share tries; from 10,000 on they are during faults, in containers. Run nothing else of
Plimsoll on the host.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from clusters.run.stages import COLLECT, TEAR_DOWN, stages
from clusters.runtimes.docker.daemon import daemon_answers
from clusters.scenario.scenario import Scenario
from clusters.waiting import wait_until
from history.events import read_events
from history.folder import RunFolder
from history.manifest import read_manifest
from tests.acceptance.experiment import Experiment
from tests.acceptance.host import command_line, inventory, staying, without_checkout
from tests.rows import DATA, ROOT, Row, read, today

RESULTS = DATA / "kills.json"
AMID_FAULTS = 10_000  # the first try during faults
# waiting for a lost broker, producers, replicas and readers takes about five minutes
END_LIMIT_S = 600.0
STAGE_LIMIT_S = 300.0

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
AIRFLOWS = ("api-server", "scheduler", "triggerer")
CLIENTS = {"producer": "clusters.clients.producer", "consumer": "clusters.clients.consumer"} | {
    "prober": "clusters.clients.prober"
}
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
    found = ["command", *AIRFLOWS, "worker", "task"]
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
    if victim in ("docker", "shim", *CLIENTS):
        return _outside(victim)
    own = psutil.Process(command).children(recursive=True)
    return _at_work(own, victim) if victim in ("worker", "task") else [each for each in own if _is(victim, each)][:1]


def _outside(victim: str) -> list[psutil.Process]:
    """Return processes that are no descendants of the command; in a container a client is none."""
    if victim in CLIENTS:
        return [process for process in psutil.process_iter() if CLIENTS[victim] in command_line(process)]
    if victim == "docker":
        return [process for process in psutil.process_iter() if _name(process) == "dockerd"]
    return [process for process in psutil.process_iter() if _name(process).startswith("containerd-shim")][:1]


def _at_work(own: Sequence[psutil.Process], victim: str) -> list[psutil.Process]:
    """Return a task, or the workers with all tasks, so that nobody reports their end."""
    workers = {each.pid: each for each in own if command_line(each).startswith("airflow worker -- LocalExecutor")}
    tasks = [each for each in own if each.ppid() in workers]
    return tasks[:1] if victim == "task" else [*(workers[task.ppid()] for task in tasks), *tasks]


def _is(victim: str, process: psutil.Process) -> bool:
    words = command_line(process)
    if victim == "spark-submit":
        return "org.apache.spark.deploy.SparkSubmit" in words
    if victim == "spark-driver":
        return "python" in _name(process) and "spark/" in words
    return words.removesuffix(" --skip-serve-logs").endswith(f" {victim}")


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""


# --- a try ---------------------------------------------------------------------------------------


def attempt(at: Moment) -> Row:
    """Kill, clean, judge and compare; return the row. Only a wrong one's runs stay."""
    kept = Path(tempfile.mkdtemp(prefix="kills-", dir=ROOT / ".cache"))
    runs = kept / f"try {at.number}"
    runs.mkdir()
    before = inventory()
    scenario = str(Path(__file__).with_name(f"{at.scenario}.yaml"))
    asked = [str(ROOT / "plimsoll"), "run", scenario, "--runtime", at.runtime, "--runs", str(runs)]
    with (kept / "log").open("w") as log:
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
    row = {
        **asdict(at),
        "date": today(),
        "killed": killed,
        "exit_code": code,
        "clean": cleaned.returncode,
        "left": stays,
        "judged": [judged(path.parent) for path in sorted(runs.glob("*/manifest.json"))],
    }
    if not wrong(row):
        shutil.rmtree(kept)
    return row


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
    words = [without_checkout(command_line(each)) for each in met]
    for each in met:
        each.send_signal(signal.SIGKILL)
    return words[0] if words else ""


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


def outstanding(arguments: Sequence[str]) -> Iterator[Moment]:
    """Yield moments until there are as many kills as asked; FIRST is the lowest number of a try."""
    wanted, first, *_ = [*map(int, arguments), 0, 0]
    while met(rows := read(RESULTS)) < wanted:
        yield moment(untried(rows, first))


def _row_words(row: Row) -> str:
    missed = "" if row["killed"] else ", which had ended"
    return f"{row['number']}: {row['victim']}{missed} in {row['stage']!r} on {row['runtime']}, {row['judged']}"


main = Experiment(RESULTS, "number", outstanding, attempt, _row_words, wrong)
