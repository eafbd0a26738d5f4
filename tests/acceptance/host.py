"""What a run may leave on its host."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from clusters.run.host import HOST
from clusters.waiting import wait_until
from history.errors import WaitTimeout
from tests.rows import ROOT

GONE_LIMIT_S = 15.0
STAYS = {"hsperfdata_root", HOST.name}  # of all JVMs; of a host's users
OURS = (str(ROOT), "/kafka/", "kafka.", "clusters.clients")  # in the command line of a run's processes


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
        "processes": {command_line(process) for process in psutil.process_iter() if _is_ours(process)},
        "ports": {str(each.laddr) for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN},
    }


def _said(*command: str) -> set[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {line.strip() for line in done.stdout.splitlines() if line.strip()}


def _is_ours(process: psutil.Process) -> bool:
    words = command_line(process)
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


def command_line(process: psutil.Process) -> str:
    """Return a process's words, or "" if it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def without_checkout(text: str) -> str:
    """Remove the paths of this checkout, its cache and its packages."""
    for shared in (".cache", ".venv"):
        text = text.replace(str((ROOT / shared).resolve()), shared)
    return text.replace(f"{ROOT}/", "")
