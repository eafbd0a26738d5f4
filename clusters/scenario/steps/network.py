"""Steps that affect traffic between nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from clusters.scenario.conditions import Condition
from clusters.scenario.steps.step import Duration, Step
from clusters.scenario.targets import Brokers, Node, Peers
from clusters.scenario.values import BytesPerSecond, Seconds
from history.traits import Trait

if TYPE_CHECKING:
    from clusters.scenario.scenario import Scenario

Direction = Literal["both", "in", "out", "answers"]


class _OfFollower(Step):
    kernel = ("htb", "tbf")
    fault = True
    needs = frozenset({"pause", "files"})  # the process runtime pauses it; docker's limit follows the logs' growth
    node: Node

    def check(self, scenario: Scenario) -> None:
        """Require another replica on the host's disk, whose files show the growth."""
        follower, small = self.node, scenario.cluster.disks.keys()
        topic = scenario.topics[follower.of.topic] if follower.of else next(iter(scenario.topics.values()))
        on_host = set(topic.replicas) - small - {follower.name}
        if small and len(on_host) < (1 if follower.name else 2):  # a role may be bound to one of them
            raise ValueError(
                "the rate is measured at another replica, on the host's disk; take one that cannot be "
                f"{follower} out of cluster.disks"
            )


class Lag(_OfFollower):
    """Keep a follower fetching and in the ISR, but about ``records`` behind."""

    key = "lag"
    example = "{node: follower of orders-0, records: 2000}"
    traits = frozenset({Trait.RECOVERY_EXPECTED, Trait.NEEDS_LOAD})
    records: int = Field(gt=0)


class Slow(_OfFollower):
    """Limit a follower's bandwidth far below the load until a condition holds; the limit stays until healed."""

    key = "slow"
    example = "{node: follower of orders-0, until: {out_of_isr: follower of orders-0}, limit: 20s}"
    traits = frozenset({Trait.HOLDS_BACK_FOLLOWER, Trait.RECOVERY_EXPECTED, Trait.NEEDS_LOAD})
    until: Condition
    limit: Seconds = 30.0

    @property
    def duration(self) -> Duration:
        return Duration.of_wait(self.limit)


class _FromPeers(Step):
    needs = frozenset({"disconnect"})
    may_target = frozenset({"broker", "controller"})
    node: Node
    peers: Peers = Field(alias="from")

    @property
    def required(self) -> frozenset[str]:
        return super().required | {"controllers"} if "controller" in self.peers else super().required

    @property
    def scope(self) -> tuple[str, ...]:
        return str(self.node), *map(str, self.peers)


class Disconnect(_FromPeers):
    """Drop all packets between a node and others, except to the probe's port.

    Directions refer to requests: ``in`` drops others' requests to the node, ``out`` the node's requests to others, each
    with the answers. ``answers`` drops only the answers to the node's requests, which others process.
    """

    key = "disconnect"
    example = "{node: leader of orders-0, from: [followers of orders-0, controller]}"
    traits = frozenset({Trait.UNREACHABLE, Trait.MAY_MOVE_LEADER, Trait.RECOVERY_EXPECTED, Trait.BETWEEN_NODES})
    kernel = ("iptables",)
    fault = True
    direction: Direction = "both"

    @model_validator(mode="after")
    def _asks(self) -> Disconnect:
        if self.direction in ("out", "answers") and "clients" in self.peers:
            raise ValueError(
                f"direction {self.direction} has no effect on clients, to which brokers send no requests; "
                "use in or both"
            )
        if self.node.role == "active controller" and "clients" in self.peers:
            raise ValueError("the active controller has no clients to be cut from; name brokers or controllers")
        if self.direction == "in" and "controller" in self.peers:
            raise ValueError(
                "direction in has no effect on the controller, to which brokers send requests; use out, answers or both"
            )
        return self


class Reconnect(_FromPeers):
    """End the disconnect between a node and the same others."""

    key = "reconnect"
    example = "{node: leader of orders-0, from: [followers of orders-0, controller]}"
    traits = frozenset[Trait]()
    ends = (Disconnect.key,)


class FromBrokers(Step):
    """A change of brokers' traffic to a node."""

    fault = True
    needs = frozenset({"network"})
    into: Node
    senders: Brokers | None = Field(default=None, alias="from")


class LimitBandwidth(FromBrokers):
    """Limit the bandwidth from brokers (default: all others) to a node's replica fetchers."""

    key = "limit_bandwidth"
    example = "{into: B, from: A, rate: 20kB/s}"
    traits = frozenset({Trait.RECOVERY_EXPECTED, Trait.NEEDS_LOAD, Trait.BETWEEN_NODES})
    kernel = ("htb", "tbf")
    rate: BytesPerSecond


class RestoreBandwidth(Step):
    """Remove the bandwidth limit of a node's replica fetchers."""

    key = "restore_bandwidth"
    example = "B"
    traits = frozenset[Trait]()
    ends = (LimitBandwidth.key,)
    shorthand = "into"
    needs = frozenset({"network"})
    into: Node


class Delay(FromBrokers):
    """Delay the traffic from brokers (default: all others) to a node's replica fetchers by ``by``."""

    key = "delay"
    example = "{into: B, by: 100ms}"
    traits = frozenset({Trait.RECOVERY_EXPECTED, Trait.BETWEEN_NODES})
    kernel = ("htb", "netem")
    percent: ClassVar[float] = 0.0  # of packets overtake
    by: Seconds


class Reorder(FromBrokers):
    """Let ``percent`` of the packets to a node's replica fetchers overtake the rest, which is delayed."""

    key = "reorder"
    example = "{into: B, percent: 25, by: 20ms}"
    traits = frozenset({Trait.RECOVERY_EXPECTED, Trait.BETWEEN_NODES})
    kernel = ("htb", "netem")
    percent: float = Field(gt=0, lt=100)
    by: Seconds = 0.01


class Lose(FromBrokers):
    """Drop a share of the packets from other brokers (default: all) to a node."""

    key = "lose"
    example = "{into: follower of orders-0, from: leader of orders-0, percent: 5}"
    traits = frozenset({Trait.MAY_BE_UNREACHABLE, Trait.MAY_MOVE_LEADER, Trait.RECOVERY_EXPECTED, Trait.BETWEEN_NODES})
    kernel = ("iptables", "xt_statistic")
    percent: float = Field(gt=0, lt=100)
