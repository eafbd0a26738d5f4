"""Rules in network namespaces: the commands run, and the kernel output read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusters.runtimes.docker.daemon import Daemon
from clusters.runtimes.docker.limits import DockerLimits
from clusters.runtimes.docker.network import DockerNetwork
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import Flow, LimitCounters


class Namespaces:
    """Keeps the scripts run in each node's namespace, and prints this output."""

    def __init__(self, said: str = "") -> None:
        self.said = said
        self.scripts: list[tuple[str, str]] = []

    def run_script(self, node: Node, script: str, _what: str) -> str:
        self.scripts.append((node.name, script))
        return self.said

    def show(self, _node: Node, *_command: str) -> str:
        return self.said


def played(said: str = "") -> tuple[DockerNetwork, list[tuple[str, str]]]:
    """Return a network whose commands print this, and its scripts by node."""
    namespaces: Any = Namespaces(said)
    return DockerNetwork(namespaces), namespaces.scripts


def test_shaping_is_set_at_every_sender() -> None:
    """Traffic into a broker is limited and restored at every sender, by destination address and port."""
    network, scripts = played()
    a, b, c = (Node(name, "broker", f"172.30.7.{n}", Path("/w"), "java", ()) for n, name in enumerate("abc", 11))
    network.limit_ingress(a, [b, c], 9091, 1000.0)
    network.restore_ingress(a, [b, c])

    assert sorted(name for name, _ in scripts[:2]) == sorted(name for name, _ in scripts[2:]) == ["b", "c"]
    assert all("match ip dst 172.30.7.11/32" in script for _, script in scripts[:2])
    assert all("match ip sport 9091" in script and "tbf rate 8000bit" in script for _, script in scripts[:2])
    assert all("tc qdisc del" in script for _, script in scripts[2:])


def test_what_waits_goes_before_its_class_does() -> None:
    """Restoring raises the rate, removes the filter, waits for the backlog, and then deletes the class."""
    network, scripts = played()
    a, b = (Node(name, "broker", "172.30.7.1", Path("/w"), "java", (), node_id=n) for n, name in enumerate("ab", 1))
    network.restore_ingress(a, [b])

    ((_, script),) = scripts
    order = [script.index(part) for part in ("tbf rate 10gbit", "tc filter del", "backlog [^0]", "tc class del")]
    assert order == sorted(order)


def test_a_resource_limit_and_a_lag_share_one_tree() -> None:
    """A lag's class is created below the sender's resource limit if there is one, and only that class is removed."""
    namespaces: Any = Namespaces()
    network, limits = DockerNetwork(namespaces), DockerLimits(Daemon(Path("/runs/a-run")), namespaces)
    a, b = (Node(name, "broker", f"172.30.7.{n}", Path("/w"), "java", ()) for n, name in enumerate("ab", 11))
    limits.limit_egress(b, 1_000_000.0)
    network.limit_ingress(a, [b], 9091, 1000.0)
    network.restore_ingress(a, [b])
    own, lag, lifted = (script for _, script in namespaces.scripts)

    assert "parent 1: classid 1:1 htb rate 8000000bit" in own
    assert "parent 1:1 classid 1:2 htb rate 800000bit ceil 8000000bit" in own
    assert "grep -q 'htb 1:1 ' && parent=1:1" in lag
    assert "parent $parent classid 1:10" in lag
    assert "tc filter del dev eth0 parent 1: prio 10;" in lifted
    assert "tc class del dev eth0 classid 1:10;" in lifted
    assert "tc class show dev eth0 | grep -q htb || tc qdisc del dev eth0 root" in lifted


def test_traffic_into_two_brokers_is_limited_side_by_side() -> None:
    """Limits into two brokers have separate classes and filters at the same sender."""
    network, scripts = played()
    one, other, sender = (
        Node(name, "broker", f"172.30.7.{n}", Path("/w"), "java", (), node_id=n) for n, name in enumerate("abc", 1)
    )
    network.limit_ingress(one, [sender], 9091, 1000.0)
    network.limit_ingress(other, [sender], 9091, 1000.0)

    assert ["flowid 1:11" in script and "prio 11 u32" in script for _, script in scripts] == [True, False]
    assert ["flowid 1:12" in script and "prio 12 u32" in script for _, script in scripts] == [False, True]


def test_packets_are_held_back_in_the_same_class() -> None:
    """Delay and reordering use the broker's class, without a rate limit."""
    network, scripts = played()
    a, b = (Node(name, "broker", "172.30.7.1", Path("/w"), "java", (), node_id=n) for n, name in enumerate("ab", 1))
    network.delay_ingress(a, [b], 9091, 0.25)
    network.delay_ingress(a, [b], 9091, 0.01, 25)

    held = "tc qdisc replace dev eth0 parent 1:11 handle 11: netem"
    assert [script.split(" && ")[-1] for _, script in scripts] == [
        f"{held} delay 250ms limit 100000",
        f"{held} delay 10ms reorder 25% limit 100000",
    ]
    assert all("flowid 1:11" in script and "tbf" not in script for _, script in scripts)


QDISCS = json.dumps(
    [
        {"kind": "htb", "handle": "1:", "root": True, "bytes": 99, "overlimits": 0, "backlog": 0},
        {"kind": "netem", "handle": "12:", "parent": "1:12", "bytes": 44, "overlimits": 0, "backlog": 66},
        {"kind": "tbf", "handle": "11:", "parent": "1:11", "bytes": 905, "overlimits": 7, "backlog": 0},
    ]
)


@pytest.mark.parametrize(
    ("shown", "node_id", "counted"),
    [
        (QDISCS, 1, LimitCounters(905, 7)),
        (QDISCS.replace('"backlog": 0}', '"backlog": 1514}'), 1, LimitCounters(905, 8)),
        (QDISCS, 2, LimitCounters(44, 1)),
        (QDISCS, 3, None),
        ("[]", 1, None),
        ("", 1, None),
    ],
)
def test_what_passed_and_had_to_wait_is_the_kernels_count(
    shown: str, node_id: int, counted: LimitCounters | None
) -> None:
    """Counters are those of this broker's limit or delay; packets in the backlog count as held back."""
    network, _ = played(shown)
    a, b = (Node(name, "broker", "172.30.7.1", Path("/w"), "java", (), node_id=node_id) for name in "ab")

    assert network.limited(a, b) == counted


CHAIN = """Chain cut-1 (2 references)
    pkts      bytes target     prot opt in     out     source               destination
      12      720 DROP       tcp  --  *      *       172.30.7.2           172.30.7.1           tcp dpt:9091
       3      180 DROP       tcp  --  *      *       172.30.7.1           172.30.7.2           tcp spt:9091
"""


@pytest.mark.parametrize(
    ("said", "dropped"), [(CHAIN, 15), (CHAIN.replace("12 ", "0 ").replace(" 3 ", " 0 "), 0), ("", None)]
)
def test_dropped_packets_are_counted_over_all_matches(said: str, dropped: int | None) -> None:
    """Dropped packets are summed over all matches; None means that the rule does not exist."""
    network, _ = played(said)
    node = Node("a", "broker", "172.30.7.1", Path("/w"), "java", ())

    assert network.dropped_packets(node, "cut-1") == dropped


@pytest.mark.parametrize(("said", "dropped"), [(CHAIN, 15), (f"{CHAIN}-N cut-1\nstill there\n", None)])
def test_rules_are_taken_away_whole(said: str, dropped: int | None) -> None:
    """A rule is inserted into and removed from both hooks; if the kernel still lists it, the result is None."""
    network, scripts = played(said)
    node = Node("a", "broker", "172.30.7.1", Path("/w"), "java", ())
    network.drop_packets(node, "cut-1", [Flow(None, None, 9092, "destination")])
    assert network.stop_dropping(node, "cut-1") == dropped

    assert scripts[0][1] == (
        "iptables -w -N cut-1 && iptables -w -A cut-1 -p tcp --dport 9092 -j DROP"
        " && iptables -w -I INPUT -j cut-1 && iptables -w -I OUTPUT -j cut-1"
    )
    assert scripts[1][1].startswith("iptables -w -D INPUT -j cut-1; iptables -w -D OUTPUT -j cut-1; ")


@pytest.mark.parametrize(
    ("flow", "match"),
    [
        (Flow("1.1.1.1", "1.1.1.2", 9091, "destination"), "-s 1.1.1.1 -d 1.1.1.2 -p tcp --dport 9091"),
        (Flow("1.1.1.1", None, 9092, "source"), "-s 1.1.1.1 -p tcp --sport 9092"),
        (Flow(None, "1.1.1.2", 9092, "destination"), "-d 1.1.1.2 -p tcp --dport 9092"),
        (Flow(None, None, 9091, "source", response_ends=True), "-p tcp --sport 9091 --tcp-flags PSH PSH"),
        (
            Flow(None, None, 9091, "source", share=0.05),
            "-p tcp --sport 9091 -m statistic --mode random --probability 0.050000",
        ),
    ],
)
def test_a_flow_becomes_a_match_of_iptables(flow: Flow, match: str) -> None:
    """Absent addresses match any; a share is a probability."""
    network, scripts = played()
    network.drop_packets(Node("a", "broker", "172.30.7.1", Path("/w"), "java", ()), "cut-1", [flow])

    assert f"-A cut-1 {match} -j DROP" in scripts[0][1]
