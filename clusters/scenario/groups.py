"""A load's group: a consumer group or a share group."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from clusters.scenario.values import Model, Seconds
from history.kafka_versions import has
from history.refusals import first_wrong

GROUP_ID = "plimsoll"
_ASSIGNORS = {"classic": ("range", "roundrobin", "cooperative-sticky"), "consumer": ("range", "uniform")}


class Group(Model):
    """A consumer group, classic or consumer (KIP-848); ``commit`` is at least once, or ``ahead`` at most once."""

    protocol: Literal["classic", "consumer"] = "classic"
    members: int = Field(default=3, ge=1, le=8)
    assignor: str | None = None
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
        if self.protocol == "classic":
            return {"group.min.session.timeout.ms": str(int(self.session_timeout * 1000))}
        return _session_settings("consumer", self.session_timeout)

    def unknown_to(self, kafka_version: str, mode: str) -> str | None:
        if self.protocol == "classic" or (has("consumer_protocol", kafka_version) and mode == "kraft"):
            return None
        return (
            f"protocol: consumer (KIP-848) needs Kafka 4.0 or newer, not {kafka_version}; "
            "use protocol: classic, or a newer version."
        )


class ShareGroup(Model):
    """A share group (KIP-932); a member acknowledges each record after writing it to its stream."""

    protocol: Literal["share"]
    members: int = Field(default=3, ge=1, le=8)
    session_timeout: Seconds = 6.0
    lock: Annotated[Seconds, Field(ge=1, le=60)] = 5.0
    delivery_limit: int = Field(default=5, ge=2, le=10)
    processing: Annotated[Seconds, Field(le=0.5)] = 0.2
    release_every: int | None = Field(default=None, ge=2)

    def broker_settings(self, brokers: int) -> dict[str, str]:
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
        return {"share.auto.offset.reset": "earliest", "share.isolation.level": isolation}

    def unknown_to(self, kafka_version: str, mode: str) -> str | None:
        if has("share_groups", kafka_version) and mode == "kraft":
            return None
        return (
            f"protocol: share (KIP-932) needs Kafka 4.2 or newer, not {kafka_version}; "
            "use protocol: consumer or classic, or a newer version."
        )


def _session_settings(kind: str, session_timeout_s: float) -> dict[str, str]:
    """Return a session timeout of six heartbeats; members cannot set it."""
    session_ms, heartbeat_ms = str(int(session_timeout_s * 1000)), str(int(session_timeout_s * 1000 / 6))
    return {
        f"group.{kind}.min.session.timeout.ms": session_ms,
        f"group.{kind}.session.timeout.ms": session_ms,
        f"group.{kind}.min.heartbeat.interval.ms": heartbeat_ms,
        f"group.{kind}.heartbeat.interval.ms": heartbeat_ms,
    }


def _of_protocol(value: object) -> object:
    if not isinstance(value, dict):
        return value
    try:
        return (ShareGroup if value.get("protocol") == "share" else Group).model_validate(value)
    except ValidationError as error:
        raise ValueError(first_wrong(error)) from error


AnyGroup = Annotated[Group | ShareGroup, BeforeValidator(_of_protocol)]
