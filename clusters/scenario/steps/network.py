"""Steps that stand between nodes."""

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
    """Keep a follower alive and fetching, but about so many records behind, in the ISR."""

    key = "lag"
    traits = frozenset({Trait.RECOVERY_EXPECTED, Trait.NEEDS_LOAD})
    kernel = ("htb", "tbf")
    fault = True
    node: Node
    records: int = Field(gt=0)


class Slow(Step):
    """Feed a follower far less than is produced until a condition holds; stays so until healed."""

    key = "slow"
    traits = frozenset({Trait.HOLDS_BACK_FOLLOWER, Trait.RECOVERY_EXPECTED, Trait.NEEDS_LOAD})
    kernel = ("htb", "tbf")
    fault = True
    node: Node
    until: Condition
    limit: Seconds = 30.0


class Disconnect(Step):
    """Drop all packets between a node and others; the probe's port stays open.

    TCP needs both ways, so one way is meant of requests: ``in`` drops what others ask of the node, ``out`` what the
    node asks of others, each with its answers. ``answers`` drops no more than the answers to what the node asks:
    others receive its requests, and act upon them.
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
                f"direction {self.direction} cuts nothing from clients, which a broker asks nothing; use in or both"
            )
        if self.node.role == "active controller" and "clients" in self.peers:
            raise ValueError("the active controller has no clients to be cut from; name brokers or controllers")
        if self.direction == "in" and "controller" in self.peers:
            raise ValueError(
                "direction in cuts nothing from the controller, which a broker asks; use out, answers or both"
            )
        return self


class Reconnect(Step):
    """End the cut between a node and the same others."""

    key = "reconnect"
    traits = frozenset[Trait]()
    ends = ("disconnect",)
    needs = frozenset({"network"})
    of_controllers = True
    node: Node
    peers: Peers = Field(alias="from")


class _ToFetchers(Step):
    """Something done to what brokers (all others where none are named) send to a node's replica fetchers."""

    fault = True
    needs = frozenset({"network"})
    into: Node
    senders: Brokers | None = Field(default=None, alias="from")


class LimitBandwidth(_ToFetchers):
    """Limit what brokers (all others where none are named) send to a node's replica fetchers."""

    key = "limit_bandwidth"
    traits = frozenset({Trait.RECOVERY_EXPECTED, Trait.NEEDS_LOAD, Trait.BETWEEN_NODES})
    kernel = ("htb", "tbf")
    rate: BytesPerSecond


class RestoreBandwidth(Step):
    """Lift the limit on what a node's replica fetchers get."""

    key = "restore_bandwidth"
    traits = frozenset[Trait]()
    ends = ("limit_bandwidth",)
    shorthand = "into"
    needs = frozenset({"network"})
    into: Node


class Delay(_ToFetchers):
    """Let what brokers (all others where none are named) send to a node's replica fetchers arrive later by so much."""

    key = "delay"
    traits = frozenset({Trait.RECOVERY_EXPECTED, Trait.BETWEEN_NODES})
    kernel = ("htb", "netem")
    by: Seconds


class Reorder(_ToFetchers):
    """Let so many per cent of what brokers send to a node's replica fetchers overtake the rest, which is held back."""

    key = "reorder"
    traits = frozenset({Trait.RECOVERY_EXPECTED, Trait.BETWEEN_NODES})
    kernel = ("htb", "netem")
    percent: float = Field(gt=0, lt=100)
    by: Seconds = 0.01


class Lose(Step):
    """Lose so many of the packets that other brokers (all where none are named) send to a node."""

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
