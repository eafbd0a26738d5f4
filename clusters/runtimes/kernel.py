"""What not every kernel has: tried before a run that needs it, since a module is not found out before it is used."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import docker

from clusters.leftovers import hold_trial
from clusters.runtimes.docker import asking, run_script


class Part(NamedTuple):
    """Something of the kernel's, the steps that need it on docker, what else makes do, and how it is tried."""

    name: str
    steps: frozenset[str]
    instead: str
    trial: str = ""


PARTS = (
    Part("iptables", frozenset({"cut", "lose"}), "pause", "iptables -w -A INPUT -p tcp --dport 1 -j DROP"),
    Part(
        "xt_statistic",
        frozenset({"lose"}),
        "shape or pause",
        "iptables -w -A INPUT -p tcp --dport 1 -m statistic --mode random --probability 0.5 -j DROP",
    ),
    Part(
        "sch_htb or cls_u32",
        frozenset({"shape", "delay", "reorder", "lag", "slow"}),
        "pause",
        "tc qdisc add dev lo root handle 1: htb && tc class add dev lo parent 1: classid 1:1 htb rate 1mbit && "
        "tc filter add dev lo parent 1: protocol ip prio 1 u32 match ip sport 1 0xffff flowid 1:1",
    ),
    Part(
        "sch_netem",
        frozenset({"delay", "reorder"}),
        "shape, which makes large answers late, or lag",
        "tc qdisc del dev lo root; tc qdisc add dev lo root netem delay 1ms",
    ),
)
QUOTA = Part("CFS_BANDWIDTH", frozenset({"starve_cpu"}), "lag")


def lacking(steps: Iterable[str]) -> dict[str, Part]:
    """Those of these steps that this host's kernel cannot do, by their keys, each with the first thing that it lacks.

    Only what these steps need is tried, and once in a process.
    """
    asked = frozenset(steps)
    missing = _missing(tuple(part for part in PARTS if part.steps & asked))
    if asked & QUOTA.steps and not _has_quota():
        missing = (*missing, QUOTA)
    return {step: part for part in reversed(missing) for step in sorted(part.steps & asked)}


@cache
@asking("say what this kernel can do")
def _missing(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Tried in one container, on the loopback of a network namespace of its own."""
    if not parts:
        return ()
    trials = [f"({part.trial}) >/dev/null 2>&1 || echo {number}" for number, part in enumerate(parts)]
    client = docker.from_env(timeout=60)
    try:
        with hold_trial() as run:
            said = run_script(client, run, "; ".join(trials), network_mode="none", cap_add=["NET_ADMIN"])
    finally:
        client.close()
    return tuple(parts[int(number)] for number in said.split())


@cache
@asking("say what this kernel can do")
def _has_quota() -> bool:
    client = docker.from_env(timeout=60)
    try:
        return bool(client.info().get("CpuCfsQuota"))
    finally:
        client.close()
