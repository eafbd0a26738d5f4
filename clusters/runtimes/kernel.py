"""Test optional kernel features before a run needs them, because modules load only on use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from clusters.runtimes import cgroups
from clusters.runtimes.docker.daemon import connected, trying
from clusters.runtimes.docker.image import run_script

Trial = Callable[[], AbstractContextManager[Path]]


class Part(NamedTuple):
    """A kernel feature: its name, what to use instead, and a test command."""

    name: str
    instead: str
    trial: str = ""


PARTS = {
    "iptables": Part("iptables", "pause", "iptables -w -A INPUT -p tcp --dport 1 -j DROP"),
    "xt_statistic": Part(
        "xt_statistic",
        "limit_bandwidth or pause",
        "iptables -w -A INPUT -p tcp --dport 1 -m statistic --mode random --probability 0.5 -j DROP",
    ),
    "htb": Part(
        "sch_htb or cls_u32",
        "pause",
        "tc qdisc add dev lo root handle 1: htb && tc class add dev lo parent 1: classid 1:1 htb rate 1mbit && "
        "tc filter add dev lo parent 1: protocol ip prio 1 u32 match ip sport 1 0xffff flowid 1:1",
    ),
    "tbf": Part(
        "sch_tbf", "pause", "tc qdisc del dev lo root; tc qdisc add dev lo root tbf rate 1mbit burst 15k limit 1mb"
    ),
    "netem": Part(
        "sch_netem",
        "limit_bandwidth, which makes large answers late, or lag",
        "tc qdisc del dev lo root; tc qdisc add dev lo root netem delay 1ms",
    ),
    "cfs_bandwidth": Part("CFS_BANDWIDTH", "lag"),
    "blk_throttle": Part("BLK_DEV_THROTTLING", "limit_cpu"),
    "freezer": Part("CGROUP_FREEZER", "--runtime=process"),
}
OF_EVERY_RUN = ("freezer",)  # docker pauses all servers before it collects their files


def lacking(parts: Iterable[str], trial: Trial) -> dict[str, Part]:
    """Return those of ``parts`` that this host's kernel lacks, in the order of ``PARTS``.

    Each is tested once per process, in a folder of ``trial``.
    """
    wanted = frozenset(parts)
    tried = _missing(tuple(name for name, part in PARTS.items() if name in wanted and part.trial), trial)
    asked: dict[str, Callable[[], bool]] = {
        "cfs_bandwidth": _has_quota,
        "blk_throttle": cgroups.throttles_disks,
        "freezer": cgroups.pauses_processes,
    }
    return {
        name: part
        for name, part in PARTS.items()
        if name in tried or (name in wanted and name in asked and not asked[name]())
    }


@cache
def _missing(parts: tuple[str, ...], trial: Trial) -> tuple[str, ...]:
    """Test in one container, on the loopback of its own network namespace."""
    if not parts:
        return ()
    trials = [f"({PARTS[name].trial}) >/dev/null 2>&1 || echo {number}" for number, name in enumerate(parts)]
    what = f"try whether the kernel has {', '.join(parts)}"
    with connected() as client, trial() as run:
        said = run_script(client, run, "; ".join(trials), what, network_mode="none", cap_add=["NET_ADMIN"])
    return tuple(parts[int(number)] for number in said.split())


@cache
def _has_quota() -> bool:
    with connected() as client, trying("say whether the kernel limits CPU time"):
        return bool(client.info().get("CpuCfsQuota"))
