"""Shape traffic between containers: iptables drops, HTB classes separate, tbf within them limits, netem delays."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from clusters.runtimes.docker.namespaces import Namespaces
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import Flow, LimitCounters

HAS_EGRESS_LIMIT = "tc class show dev eth0 | grep -q 'htb 1:1 '"
NETEM_PACKETS = 100_000  # held back at a time; more are dropped
TBF_QUEUE = "16mb"  # likewise
UNLIMITED = "10gbit"
QUANTUM = 60_000  # bytes; HTB's default at this rate causes warnings in the kernel's log
STILL_THERE = "still there"
CONNECTS = 10
# The response or refusal comes from the delayed port.
_CONNECT = """
import socket, sys, time
for _ in range(int(sys.argv[3])):
    with socket.socket() as connection:
        connection.settimeout(5)
        began = time.monotonic()
        connection.connect_ex((sys.argv[1], int(sys.argv[2])))
        print(time.monotonic() - began)
"""


class DockerNetwork:
    """Set rules in the nodes' network namespaces."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces

    def drop_packets(self, node: Node, rule: str, flows: list[Flow]) -> None:
        commands = [f"-N {rule}", *(f"-A {rule} {_match(flow)} -j DROP" for flow in flows)]
        hooks = [f"-I {hook} -j {rule}" for hook in ("INPUT", "OUTPUT")]
        script = " && ".join(f"iptables -w {command}" for command in commands + hooks)
        self._namespaces.run_script(node, script, f"drop packets of {node.name}")

    def dropped_packets(self, node: Node, rule: str) -> int | None:
        script = f"iptables -w -nvxL {rule} 2>/dev/null || true"
        return _packets(self._namespaces.run_script(node, script, f"count the dropped packets of {node.name}"))

    def stop_dropping(self, node: Node, rule: str) -> int | None:
        unhook = [f"iptables -w -D {hook} -j {rule}" for hook in ("INPUT", "OUTPUT")]
        count = f"iptables -w -nvxL {rule}"
        script = "; ".join([*unhook, count, f"iptables -w -F {rule}", f"iptables -w -X {rule}"])
        script += f"; ! iptables -w -S | grep {rule} || echo {STILL_THERE}"
        said = self._namespaces.run_script(node, script, f"stop dropping packets of {node.name}")
        return None if STILL_THERE in said else _packets(said)

    def limit_ingress(self, node: Node, senders: list[Node], port: int, bytes_per_s: float) -> None:
        # Not by the class's rate (docs/dev/adr/0007-lag-by-shaping.md): with tbf a new rate applies at once.
        rate = f"rate {max(int(bytes_per_s * 8), 8)}bit burst 15k limit {TBF_QUEUE}"
        self._hold_back(node, senders, port, f"tbf {rate}", "limit")

    def delay_ingress(self, node: Node, senders: list[Node], port: int, by_s: float, overtaking: float = 0.0) -> None:
        reorder = f" reorder {overtaking:g}%" if overtaking else ""
        self._hold_back(node, senders, port, f"netem delay {by_s * 1000:g}ms{reorder} limit {NETEM_PACKETS}", "delay")

    def _hold_back(self, node: Node, senders: list[Node], port: int, how: str, what: str) -> None:
        minor = _class_of(node)
        hold = f"tc qdisc replace dev eth0 parent 1:{minor} handle {minor}: {how}"
        self._at_each(senders, f"{_classed(node, port)} && {hold}", f"{what} what {{}} sends to {node.name}")

    def restore_ingress(self, node: Node, senders: list[Node]) -> None:
        self._at_each(senders, _restored(node), f"restore what {{}} sends to {node.name}")

    def _at_each(self, senders: list[Node], script: str, what: str) -> None:
        def run(sender: Node) -> None:
            self._namespaces.run_script(sender, script, what.format(sender.name))

        with ThreadPoolExecutor(len(senders)) as pool:  # each starts a container
            list(pool.map(run, senders))

    def round_trips_s(self, node: Node, sender: Node, port: int) -> list[float]:
        told = (sender.address, str(port), str(CONNECTS))
        return [float(line) for line in self._namespaces.show(node, "python3", "-c", _CONNECT, *told).split()]

    def limited(self, node: Node, sender: Node) -> LimitCounters | None:
        shown = self._namespaces.show(sender, "tc", "-j", "-s", "qdisc", "show", "dev", "eth0")
        parent = f"1:{_class_of(node)}"
        for qdisc in json.loads(shown or "[]"):
            if qdisc.get("parent") == parent:
                waiting = qdisc["backlog"] > 0
                return LimitCounters(passed_bytes=qdisc["bytes"], held_back=qdisc["overlimits"] + waiting)
        return None


def _match(flow: Flow) -> str:
    parts = [f"-s {flow.source}"] * bool(flow.source) + [f"-d {flow.destination}"] * bool(flow.destination)
    parts.append(f"-p tcp --{'sport' if flow.port_of == 'source' else 'dport'} {flow.port}")
    if flow.response_ends:
        parts.append("--tcp-flags PSH PSH")
    if flow.share < 1:
        parts.append(f"-m statistic --mode random --probability {flow.share:.6f}")
    return " ".join(parts)


def _classed(node: Node, port: int) -> str:
    """Return a command that adds, once, an unlimited class for traffic to a node's fetchers.

    It is below the class of the sender's limit, if any, so that its traffic counts there, too.
    """
    minor = _class_of(node)
    return (
        f"parent=1:; {HAS_EGRESS_LIMIT} && parent=1:1; "
        f"tc filter show dev eth0 parent 1: prio {minor} 2>/dev/null | grep -q . || ("
        "(tc qdisc show dev eth0 | grep -q 'htb 1:' || tc qdisc add dev eth0 root handle 1: htb default 0)"
        f" && tc class add dev eth0 parent $parent classid 1:{minor} htb rate {UNLIMITED} quantum {QUANTUM} && "
        f"tc filter add dev eth0 parent 1: protocol ip prio {minor} u32 match ip dst {node.address}/32 "
        f"match ip sport {port} 0xffff flowid 1:{minor})"
    )


def _restored(node: Node) -> str:
    """Return a command that removes a limit after its queue was sent: TCP resends dropped packets only later."""
    minor = _class_of(node)
    waits = f"tc -s qdisc show dev eth0 | grep -A2 'parent 1:{minor} ' | grep -q 'backlog [^0]'"
    return (
        f"tc qdisc change dev eth0 parent 1:{minor} handle {minor}: tbf rate {UNLIMITED} burst 1mb limit {TBF_QUEUE}; "
        f"tc filter del dev eth0 parent 1: prio {minor}; "
        f"turns=0; while [ $turns -lt 100 ] && {waits}; do turns=$((turns + 1)); sleep 0.02; done; "
        f"tc class del dev eth0 classid 1:{minor}; "
        "tc class show dev eth0 | grep -q htb || tc qdisc del dev eth0 root; tc qdisc show dev eth0"
    )


def _class_of(node: Node) -> int:
    """Return the minor number of the HTB class for traffic into a broker, also its filter's priority."""
    return 10 + (node.node_id or 0)  # at least two digits, unlike classes of resource limits


def _packets(listed: str) -> int | None:
    """Return the sum of packet counters listed by iptables -nvx; None without a rule."""
    counts = [int(line.split()[0]) for line in listed.splitlines() if " DROP " in line]
    return sum(counts) if counts else None
