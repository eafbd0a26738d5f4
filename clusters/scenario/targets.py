"""Define a step's targets and partitions."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from clusters.scenario.values import Model
from history.partition import TopicPartition

NodeKind = Literal["broker", "controller", "member"]
_OTHER_KINDS: dict[str, NodeKind] = {
    "active controller": "controller",
    "controllers": "controller",
    "member": "member",
    "members": "member",
}


class Target(Model):
    """A step's target, resolved to brokers when the phase reaches the step (docs/scenarios.md lists all)."""

    role: Literal[
        "leader",
        "follower",
        "followers",
        "uninvolved broker",
        "preferred leader",
        "replicas",
        "controller",
        "named",
        "random",
        "brokers",
        "active controller",
        "controllers",
        "member",
        "members",
    ]
    of: TopicPartition | None = None
    name: str | None = None
    member: int | None = None

    @property
    def kind(self) -> NodeKind:
        return _OTHER_KINDS.get(self.role, "broker")

    def __str__(self) -> str:
        if self.member:
            return f"member {self.member}"
        if self.of:
            return f"{self.name or self.role} of {self.of}"
        return {"named": self.name or "", "random": "random broker"}.get(self.role, self.role)


_ALONE = {
    "controller": "controller",
    "active controller": "active controller",
    "controllers": "controllers",
    "brokers": "brokers",
    "random broker": "random",
    "members": "members",
}


def _target(value: object) -> object:
    if not isinstance(value, str):
        return value
    if match := re.fullmatch(
        r"(preferred leader|leader|followers?|uninvolved broker|replicas) of ([\w.-]+-\d+)", value
    ):
        return {"role": match[1], "of": TopicPartition.parse(match[2])}
    if match := re.fullmatch(r"([A-Z]) of ([\w.-]+-\d+)", value):
        return Target(role="named", name=match[1], of=TopicPartition.parse(match[2]))
    if value in _ALONE:
        return {"role": _ALONE[value]}
    if match := re.fullmatch(r"member ([1-9]\d*)", value):
        return Target(role="member", member=int(match[1]))
    if re.fullmatch(r"[A-Z]", value):
        return Target(role="named", name=value)
    raise ValueError(
        f"{value!r} is not a target; use leader|follower|followers|uninvolved broker|preferred leader|replicas of "
        "<topic>-<partition>, controller, active controller, controllers, random broker, brokers, a broker's letter, "
        "member <number> or members"
    )


def _partition(value: object) -> object:
    return TopicPartition.parse(value) if isinstance(value, str) else value


Node = Annotated[Target, BeforeValidator(_target), PlainSerializer(str)]
Partition = Annotated[TopicPartition, BeforeValidator(_partition), PlainSerializer(str)]
Letter = Annotated[str, Field(pattern=r"^[A-Z]$")]


def listed(value: object) -> list[object]:
    """Return one or several values as a list."""
    return value if isinstance(value, list) else [value]


def _peers(value: object) -> object:
    return [each if each in ("clients", "controller") else _target(each) for each in listed(value)]


def _brokers(value: object) -> object:
    return [_target(each) for each in listed(value)]


_AsWritten = PlainSerializer(lambda peers: [str(peer) for peer in peers], when_used="unless-none")
Brokers = Annotated[list[Target], Field(min_length=1), BeforeValidator(_brokers), _AsWritten]
# Here ``controller`` is KRaft's controller, or ZooKeeper.
Peers = Annotated[
    list[Literal["clients", "controller"] | Target], Field(min_length=1), BeforeValidator(_peers), _AsWritten
]


def _of_partition(target: Target) -> Target:
    if target.of is None:
        raise ValueError(f"{target} names no partition; use {target} of <topic>-<partition>")
    return target


Replica = Annotated[Node, AfterValidator(_of_partition)]
