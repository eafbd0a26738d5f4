"""The group of a load: a consumer group, whose members share its topic's partitions, or a share group, whose members
share the records of each partition.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from clusters.scenario.values import Model, Seconds
from history.kafka_versions import has
from history.refusals import first_wrong

GROUP_ID = "plimsoll"
_ASSIGNORS = {"classic": ("range", "roundrobin", "cooperative-sticky"), "consumer": ("range", "uniform")}


class Group(Model):
    """``protocol``: classic, or consumer (KIP-848). ``assignor`` runs in the members (classic) or in the brokers.

    A member processes a record by writing it down. ``commit: after`` commits what is written (at least once), ``ahead``
    what was fetched and will be written next (at most once). A member that its coordinator does not hear for
    ``session_timeout`` loses its partitions.
    """

    protocol: Literal["classic", "consumer"] = "classic"
    members: int = Field(default=3, ge=1, le=8)
    assignor: str | None = None  # None: the protocol's own
    session_timeout: Seconds = 6.0
    commit_every: Seconds = 1.0
    commit: Literal["after", "ahead"] = "after"

    @model_validator(mode="after")
    def _known_assignor(self) -> Group:
        known = _ASSIGNORS[self.protocol]
        if self.assignor is not None and self.assignor not in known:
            raise ValueError(
                f"assignor {self.assignor!r} is not of protocol {self.protocol}; known: {', '.join(known)}"
            )
        return self

    def broker_settings(self, _brokers: int) -> dict[str, str]:
        """What the brokers must permit for this session time-out, for which a group may not ask by itself."""
        if self.protocol == "classic":
            return {"group.min.session.timeout.ms": str(int(self.session_timeout * 1000))}
        return _session_settings("consumer", self.session_timeout)

    def unknown_to(self, kafka_version: str, mode: str) -> str | None:
        """Why brokers cannot have this group, in one sentence; None: they can."""
        if self.protocol == "classic" or (has("consumer_protocol", kafka_version) and mode == "kraft"):
            return None
        return (
            f"protocol: consumer (KIP-848) needs Kafka 4.0 or newer, not {kafka_version}; "
            "use protocol: classic, or a newer version with KAFKA=."
        )


class ShareGroup(Model):
    """A share group (KIP-932). Each member acknowledges each record that it is given, once it has written it down.

    A record that a member was given is its own for ``lock``; unless it is accepted it is delivered again, at most
    ``delivery_limit`` times in all. A member works on what a poll gave it for ``processing``. Of records whose offset
    divides by ``release_every`` it accepts none: it releases them, at every delivery.
    """

    protocol: Literal["share"]
    members: int = Field(default=3, ge=1, le=8)
    session_timeout: Seconds = 6.0
    lock: Annotated[Seconds, Field(ge=1, le=60)] = 5.0
    delivery_limit: int = Field(default=5, ge=2, le=10)  # what brokers take
    processing: Annotated[Seconds, Field(le=0.5)] = 0.2
    release_every: int | None = Field(default=None, ge=2)

    def broker_settings(self, brokers: int) -> dict[str, str]:
        """Locks and deliveries as asked for, short sessions, and a topic of the group's state that fits the cluster."""
        lock_ms, replicas = str(int(self.lock * 1000)), min(brokers, 3)
        return {
            **_session_settings("share", self.session_timeout),
            "group.share.min.record.lock.duration.ms": lock_ms,
            "group.share.record.lock.duration.ms": lock_ms,
            "group.share.delivery.count.limit": str(self.delivery_limit),
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(min(replicas, 2)),
        }

    def group_settings(self, isolation: str) -> dict[str, str]:
        """What is set on the group itself, before its first member: it reads the topic from its beginning."""
        return {"share.auto.offset.reset": "earliest", "share.isolation.level": isolation}

    def unknown_to(self, kafka_version: str, mode: str) -> str | None:
        """Why brokers cannot have this group, in one sentence; None: they can."""
        if has("share_groups", kafka_version) and mode == "kraft":
            return None
        return (
            f"protocol: share (KIP-932) needs Kafka 4.2 or newer, not {kafka_version}; "
            "use protocol: consumer or classic, or a newer version with KAFKA=."
        )


def _session_settings(kind: str, session_timeout_s: float) -> dict[str, str]:
    """A session time-out, and six heartbeats in it, of every group of a kind whose members do not ask for their own."""
    session_ms, heartbeat_ms = str(int(session_timeout_s * 1000)), str(int(session_timeout_s * 1000 / 6))
    return {
        f"group.{kind}.min.session.timeout.ms": session_ms,
        f"group.{kind}.session.timeout.ms": session_ms,
        f"group.{kind}.min.heartbeat.interval.ms": heartbeat_ms,
        f"group.{kind}.heartbeat.interval.ms": heartbeat_ms,
    }


def _of_protocol(value: object) -> object:
    """The protocol says which group it is, and so which fields it has."""
    if not isinstance(value, dict):
        return value
    try:
        return (ShareGroup if value.get("protocol") == "share" else Group).model_validate(value)
    except ValidationError as error:
        raise ValueError(first_wrong(error)) from error


AnyGroup = Annotated[Group | ShareGroup, BeforeValidator(_of_protocol)]
