"""What this machine can do, what missing things prevent, and remedies."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from clusters.paths import CACHE, ROOT
from clusters.runtimes import capabilities
from commands.outcome import Outcome
from history.commands import run_command
from history.errors import BadInput, HarnessError
from history.exit_codes import FAIL, PASS
from history.java import java_of
from history.kafka_versions import DEFAULT_RELEASE

MIN_MEMORY_GB = 6.0  # three brokers, then clients, then Spark
MIN_DISK_GB = 3.0
_LIMIT_S = 15


@dataclass(frozen=True)
class Check:
    """A finding or, if missing, cost and remedy; no scenario runs without a ``required`` one."""

    name: str
    ok: bool
    found: str
    cost: str = ""
    get: str = ""
    required: bool = False


def examine(port: int) -> Outcome:
    """Make all checks; fail if no scenario can run here."""
    checks = list(_checks(port))
    missing = [check for check in checks if not check.ok]
    ready = not any(check.required for check in missing)
    lines = [line for check in checks for line in _lines(check)]
    if not ready:
        end = "No scenario can run here yet; the first thing to get: " + next(c.get for c in missing if c.required)
    elif missing:
        end = f"Ready, without {', '.join(check.name for check in missing)}."
    else:
        end = "Ready for everything."
    facts = {"ready": ready, "checks": [asdict(check) for check in checks]}
    return Outcome(PASS if ready else FAIL, [*lines, "", end], facts)


def _lines(check: Check) -> Iterator[str]:
    yield f"{'ok' if check.ok else 'MISSING':8}{check.name:22}{check.found}"
    if not check.ok:
        width = max(60, shutil.get_terminal_size().columns)
        for title, text in (("costs", check.cost), ("get it", check.get)):
            indent = " " * 30
            yield textwrap.fill(f"{title}: {text}", width, initial_indent=indent, subsequent_indent=indent)


def _checks(port: int) -> Iterator[Check]:
    docker = _docker()
    yield docker
    if docker.ok:
        yield from _kernel()
    yield _java()
    yield _memory()
    yield _cpus()
    yield _disk()
    yield from (_port(number) for number in (port, port + 1))
    yield _package_index()
    yield _jars()


def _docker() -> Check:
    from clusters.runtimes.docker.daemon import daemon_answers  # slow import

    if daemon_answers():
        return Check("Docker", True, "a daemon answers")
    from clusters.scenario.scenario import load_scenario, scenario_names

    needs = {name: load_scenario(name).needs for name in scenario_names()}
    can = [name for name in needs if needs[name] <= capabilities("process")]
    return Check(
        "Docker",
        False,
        "no daemon answers",
        f"brokers run as processes of this host: {len(can)} of {len(needs)} scenarios, no faults of network and disk, "
        "no comparisons, no capacity plans",
        "install Docker (Debian: apt-get install docker.io), start it, and join its group: usermod -aG docker $USER",
    )


def _kernel() -> Iterator[Check]:
    from clusters.run.leftovers import hold_scratch_run  # slow import
    from clusters.runtimes.kernel import PARTS, lacking
    from clusters.scenario.steps.catalog import STEPS

    missing = lacking(PARTS, hold_scratch_run)
    for name, part in PARTS.items():
        steps = ", ".join(sorted(key for key, step in STEPS.items() if name in step.kernel))
        yield Check(
            part.name,
            name not in missing,
            "the kernel lacks it" if name in missing else "the kernel has it",
            f"{f'the steps {steps} are' if steps else 'every run on docker is'} refused; use {part.instead} instead",
            "load the module (modprobe), or boot a kernel of your distribution that has it; sandboxes and small VMs "
            "often leave it out",
        )


def _java() -> Check:
    try:
        java, why = java_of(), ""
    except BadInput as refusal:
        java, why = None, str(refusal)
    return Check(
        "Java",
        java is not None,
        f"{java}, released {java.released}" if java else why,
        "nothing can be judged, and no broker runs",
        "run make setup again, or name a JDK: --java=21 or --java=<folder>",
        required=True,
    )


def _memory() -> Check:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return Check(
        "memory",
        total >= MIN_MEMORY_GB,
        f"{total:.1f} GB",
        f"below {MIN_MEMORY_GB:g} GB brokers or Spark may be killed in the middle of a run",
        "use a larger machine, or scenarios with fewer brokers",
    )


def _cpus() -> Check:
    count = len(os.sched_getaffinity(0))
    return Check(
        "CPUs",
        count >= 2,
        str(count),
        "brokers and clients share one CPU: latencies are the host's, and runs take longer",
        "use a machine with two CPUs or more",
    )


def _disk() -> Check:
    free = shutil.disk_usage(ROOT).free / 1e9
    return Check(
        "disk",
        free >= MIN_DISK_GB,
        f"{free:.1f} GB free below {ROOT}",
        f"below {MIN_DISK_GB:g} GB recordings may not fit",
        "free some; old folders below runs/ may be removed",
        required=True,
    )


def _port(number: int) -> Check:
    from service.airflow import ADDRESS

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, number))
            free = True
        except (OSError, OverflowError):
            free = False
    return Check(
        f"port {number}",
        free,
        "free" if free else "in use (by plimsoll up itself?)",
        "plimsoll up cannot start there",
        "plimsoll up --port takes another",
    )


def _package_index() -> Check:
    """Ask pip, which knows set-up's index, proxy and certificates."""
    command = [sys.executable, "-m", "pip", "index", "versions", "uv", "--disable-pip-version-check", "--retries=0"]
    try:
        answers = run_command([*command, f"--timeout={_LIMIT_S}"], 4 * _LIMIT_S).returncode == 0
    except HarnessError:
        answers = False
    return Check(
        "package index",
        answers,
        "answers" if answers else "does not answer",
        "what is installed works; set-up and the first run under Docker need it",
        "name one that can be reached in PIP_INDEX_URL and UV_DEFAULT_INDEX, or a proxy in HTTPS_PROXY",
    )


def _jars() -> Check:
    here = sorted(path.name for path in (CACHE / "kafka").glob("[0-9]*"))
    return Check(
        "Kafka's jars",
        bool(here),
        ", ".join(here) or "none fetched yet",
        f"the first run fetches {DEFAULT_RELEASE} from Maven Central (5 to 40 s)",
        "nothing to do with a network; docs/install.md explains how to configure Java's proxy and certificates",
    )
