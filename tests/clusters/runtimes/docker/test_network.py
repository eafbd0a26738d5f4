"""Rules in network namespaces: what is run where, and what is read from the kernel's answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.runtimes.docker.daemon import Daemon
from clusters.runtimes.docker.limits import DockerLimits
from clusters.runtimes.docker.network import DockerNetwork
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import LimitCounters


class Namespaces:
    """Notes what is run in which node's namespace, and prints what is told."""

    def __init__(self, said: str = "") -> None:
        self.said = said
        self.scripts: list[tuple[str, str]] = []

    def run_script(self, node: Node, script: str, _what: str) -> str:
        self.scripts.append((node.name, script))
        return self.said

    def show(self, _node: Node, *_command: str) -> str:
        return self.said


def played(said: str = "") -> tuple[DockerNetwork, list[tuple[str, str]]]:
    """A network in whose namespaces every command prints this, and the scripts that are run by node."""
    namespaces: Any = Namespaces(said)
    return DockerNetwork(namespaces), namespaces.scripts


def test_shaping_is_set_at_every_sender() -> None:
    """What a follower receives is limited where it is sent, by address and port; None takes it away."""
    network, scripts = played()
    a, b, c = (Node(name, "broker", f"172.30.7.{n}", Path("/w"), "java", ()) for n, name in enumerate("abc", 11))
    network.limit_ingress(a, [b, c], 9091, 1000.0)
    network.limit_ingress(a, [b, c], 9091, None)

    assert [name for name, _ in scripts] == ["b", "c", "b", "c"]
    assert all("match ip dst 172.30.7.11/32" in script for _, script in scripts[:2])
    assert all("match ip sport 9091" in script and "rate 8000bit" in script for _, script in scripts[:2])
    assert all("tc qdisc del" in script for _, script in scripts[2:])


def test_a_resource_limit_and_a_lag_share_one_tree() -> None:
    """The lag's class goes below the sender's own where there is one, and only that class is taken away again."""
    namespaces: Any = Namespaces()
    network, limits = DockerNetwork(namespaces), DockerLimits(Daemon(Path("/runs/a-run")), namespaces)
    a, b = (Node(name, "broker", f"172.30.7.{n}", Path("/w"), "java", ()) for n, name in enumerate("ab", 11))
    limits.limit_egress(b, 1_000_000.0)
    network.limit_ingress(a, [b], 9091, 1000.0)
    network.limit_ingress(a, [b], 9091, None)
    own, lag, lifted = (script for _, script in namespaces.scripts)

    assert "parent 1: classid 1:1 htb rate 8000000bit" in own
    assert "parent 1:1 classid 1:2 htb rate 800000bit ceil 8000000bit" in own
    assert "grep -q 'htb 1:1 ' && parent=1:1" in lag
    assert "parent $parent classid 1:10" in lag
    assert "tc filter del dev eth0 parent 1: prio 10; tc class del dev eth0 classid 1:10;" in lifted
    assert "tc class show dev eth0 | grep -q htb || tc qdisc del dev eth0 root" in lifted


def test_traffic_into_two_brokers_is_limited_side_by_side() -> None:
    """Each has a class and a filter of its own at the same sender."""
    network, scripts = played()
    one, other, sender = (
        Node(name, "broker", f"172.30.7.{n}", Path("/w"), "java", (), node_id=n) for n, name in enumerate("abc", 1)
    )
    network.limit_ingress(one, [sender], 9091, 1000.0)
    network.limit_ingress(other, [sender], 9091, 1000.0)

    assert ["flowid 1:11" in script and "prio 11 u32" in script for _, script in scripts] == [True, False]
    assert ["flowid 1:12" in script and "prio 12 u32" in script for _, script in scripts] == [False, True]


def test_packets_are_held_back_within_the_limits_class() -> None:
    """So that only those are which the limit is about, and lifting it lifts both."""
    network, scripts = played()
    a, b = (Node(name, "broker", "172.30.7.1", Path("/w"), "java", (), node_id=n) for n, name in enumerate("ab", 1))
    network.delay_ingress(a, b, 0.25)
    network.delay_ingress(a, b, 0.01, 25)

    assert scripts == [
        ("b", "tc qdisc add dev eth0 parent 1:11 netem delay 250ms limit 100000"),
        ("b", "tc qdisc add dev eth0 parent 1:11 netem delay 10ms reorder 25% limit 100000"),
    ]


CLASS = """class htb 1:11 root prio 0 rate 80Kbit ceil 80Kbit burst 15Kb cburst 1600b
 Sent 905 bytes 3 pkt (dropped 0, overlimits 7 requeues 0)
 backlog 0b 0p requeues 0
 lended: 3 borrowed: 0 giants: 0
"""


@pytest.mark.parametrize(
    ("shown", "counted"),
    [
        (CLASS, LimitCounters(905, 7)),
        (CLASS.replace("backlog 0b 0p", "backlog 1514b 1p"), LimitCounters(905, 8)),
        ("", None),
    ],
)
def test_what_passed_a_limit_and_had_to_wait_is_the_kernels_count(shown: str, counted: LimitCounters | None) -> None:
    """Where there is no such class it lists nothing; what waits at this moment counts, too."""
    network, _ = played(shown)
    a, b = (Node(name, "broker", "172.30.7.1", Path("/w"), "java", (), node_id=1) for name in "ab")

    assert network.limited(a, b) == counted


QDISCS = """qdisc htb 1: root refcnt 2 r2q 10 default 0 direct_packets_stat 5 direct_qlen 1000
 Sent 99 bytes 9 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
qdisc netem 8002: parent 1:12 limit 100000 delay 50ms
 Sent 44 bytes 4 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
qdisc netem 8001: parent 1:11 limit 100000 delay 50ms
 Sent 905 bytes 3 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 66b 1p requeues 0
"""


@pytest.mark.parametrize(("shown", "delayed"), [(QDISCS, 905), (QDISCS.replace("1:11", "1:13"), None), ("", None)])
def test_what_was_delayed_is_netems_own_count(shown: str, delayed: int | None) -> None:
    """Not that of the class above it, nor of the delay into another broker."""
    network, _ = played(shown)
    a, b = (Node(name, "broker", "172.30.7.1", Path("/w"), "java", (), node_id=1) for name in "ab")

    assert network.delayed_bytes(a, b) == delayed


CHAIN = """Chain cut-1 (2 references)
    pkts      bytes target     prot opt in     out     source               destination
      12      720 DROP       tcp  --  *      *       172.30.7.2           172.30.7.1           tcp dpt:9091
       3      180 DROP       tcp  --  *      *       172.30.7.1           172.30.7.2           tcp spt:9091
"""


@pytest.mark.parametrize(
    ("said", "dropped"), [(CHAIN, 15), (CHAIN.replace("12 ", "0 ").replace(" 3 ", " 0 "), 0), ("", None)]
)
def test_dropped_packets_are_counted_over_all_matches(said: str, dropped: int | None) -> None:
    """None is no such rule, zero a rule that has dropped nothing."""
    network, _ = played(said)
    node = Node("a", "broker", "172.30.7.1", Path("/w"), "java", ())

    assert network.dropped_packets(node, "cut-1") == dropped


@pytest.mark.parametrize(("said", "dropped"), [(CHAIN, 15), (f"{CHAIN}-N cut-1\nstill there\n", None)])
def test_rules_are_taken_away_whole(said: str, dropped: int | None) -> None:
    """Out of both hooks; what the kernel lists afterwards says whether that succeeded."""
    network, scripts = played(said)
    node = Node("a", "broker", "172.30.7.1", Path("/w"), "java", ())
    network.drop_packets(node, "cut-1", ["-p tcp --dport 9092"])
    assert network.stop_dropping(node, "cut-1") == dropped

    assert scripts[0][1] == (
        "iptables -w -N cut-1 && iptables -w -A cut-1 -p tcp --dport 9092 -j DROP"
        " && iptables -w -I INPUT -j cut-1 && iptables -w -I OUTPUT -j cut-1"
    )
    assert scripts[1][1].startswith("iptables -w -D INPUT -j cut-1; iptables -w -D OUTPUT -j cut-1; ")
