"""Steps that affect traffic between nodes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from clusters.scenario.conditions import Condition
from clusters.scenario.steps.step import Step
from clusters.scenario.targets import Brokers, Node, Peers
from clusters.scenario.values import BytesPerSecond, Seconds
from history.traits import Trait

Direction = Literal["both", "in", "out", "answers"]


class Lag(Step):
    """Keep a follower fetching and in the ISR, but about ``records`` behind."""

    key = "lag"
    traits = frozenset({Trait.RECOVERY_EXPECTED, Trait.NEEDS_LOAD})
    kernel = ("htb", "tbf")
    fault = True
    node: Node
    records: int = Field(gt=0)


class Slow(Step):
    """Limit a follower's bandwidth far below the load until a condition holds; the limit stays until healed."""

    key = "slow"
    traits = frozenset({Trait.HOLDS_BACK_FOLLOWER, Trait.RECOVERY_EXPECTED, Trait.NEEDS_LOAD})
    kernel = ("htb", "tbf")
    fault = True
    node: Node
    until: Condition
    limit: Seconds = 30.0


class Disconnect(Step):
    """Drop all packets between a node and others, except to the probe's port.

    Directions refer to requests: ``in`` drops others' requests to the node, ``out`` the node's requests to others, each
    with the answers. ``answers`` drops only the answers to the node's requests, which others process.
    """

    key = "disconnect"
    traits = frozenset({Trait.UNREACHABLE, Trait.MAY_MOVE_LEADER, Trait.RECOVERY_EXPECTED, Trait.BETWEEN_NODES})
    kernel = ("iptables",)
    fault = True
    needs = frozenset({"network"})
    of_controllers = True
    node: Node
    peers: Peers = Field(alias="from")
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


class Reconnect(Step):
    """End the disconnect between a node and the same others."""

    key = "reconnect"
    traits = frozenset[Trait]()
    ends = ("disconnect",)
    needs = frozenset({"network"})
    of_controllers = True
    node: Node
    peers: Peers = Field(alias="from")


class _ToFetchers(Step):
    """A change of brokers' traffic to a node's replica fetchers."""

    fault = True
    needs = frozenset({"network"})
    into: Node
    senders: Brokers | None = Field(default=None, alias="from")


class LimitBandwidth(_ToFetchers):
    """Limit the bandwidth from brokers (default: all others) to a node's replica fetchers."""

    key = "limit_bandwidth"
    traits = frozenset({Trait.RECOVERY_EXPECTED, Trait.NEEDS_LOAD, Trait.BETWEEN_NODES})
    kernel = ("htb", "tbf")
    rate: BytesPerSecond


class RestoreBandwidth(Step):
    """Remove the bandwidth limit of a node's replica fetchers."""

    key = "restore_bandwidth"
    traits = frozenset[Trait]()
    ends = ("limit_bandwidth",)
    shorthand = "into"
    needs = frozenset({"network"})
    into: Node


class Delay(_ToFetchers):
    """Delay the traffic from brokers (default: all others) to a node's replica fetchers by ``by``."""

    key = "delay"
    traits = frozenset({Trait.RECOVERY_EXPECTED, Trait.BETWEEN_NODES})
    kernel = ("htb", "netem")
    by: Seconds


class Reorder(_ToFetchers):
    """Let ``percent`` of the packets to a node's replica fetchers overtake the rest, which is delayed."""

    key = "reorder"
    traits = frozenset({Trait.RECOVERY_EXPECTED, Trait.BETWEEN_NODES})
    kernel = ("htb", "netem")
    percent: float = Field(gt=0, lt=100)
    by: Seconds = 0.01


class Lose(Step):
    """Drop a share of the packets from other brokers (default: all) to a node."""

    key = "lose"
    traits = frozenset({Trait.MAY_BE_UNREACHABLE, Trait.MAY_MOVE_LEADER, Trait.RECOVERY_EXPECTED, Trait.BETWEEN_NODES})
    kernel = (
        "iptables",
        "xt_statistic",
    )
    fault = True
    needs = frozenset({"network"})
    into: Node
    senders: Brokers | None = Field(default=None, alias="from")
    percent: float = Field(gt=0, lt=100)


STEPS: tuple[type[Step], ...] = (
    Lag,
    Slow,
    Disconnect,
    Reconnect,
    LimitBandwidth,
    RestoreBandwidth,
    Delay,
    Reorder,
    Lose,
)
