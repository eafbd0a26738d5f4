"""The starts that fail half-way: what each lacks, and what the command should then say."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

from history.exit_codes import BAD_INPUT, PASS, UNKNOWN

KAFKA = "4.3.1"
RUN = f"./plimsoll run tests/acceptance/kills.yaml --kafka {KAFKA} --runtime {{runtime}} --runs $RUNS"


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
_LOCK = "$CACHE/jars/.lock"
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
        before=f"rm -rf $CACHE/kafka/{KAFKA} $CACHE/jars",
        says=r".*\.jar could not be fetched: expected the SHA-256 .*; let this host reach Maven Central",
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
        before=f"rm -rf $CACHE/kafka/{KAFKA} && mkdir -p $CACHE/jars"
        f" && touch {_LOCK} && chown 1234 {_LOCK} && chmod 600 {_LOCK}",
        says=r"jars/\.lock: Permission denied; let your user write there",
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
        command=RUN.replace("tests/acceptance/kills.yaml", "controller_isolated"),
    ),
    Start(
        name="a kernel without traffic control",
        before=_REFUSED.replace("TOOL", "tc"),
        says=r"step lag, for which this host's kernel lacks sch_htb or cls_u32; use pause, or a kernel that has it",
        code=BAD_INPUT,
        runtime="docker",
        command=RUN.replace("tests/acceptance/kills.yaml", "follower_lag_then_leader_kill"),
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
