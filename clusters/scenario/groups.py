"""The consumer group of a load: members that share its topic's partitions, as an application's consumers do."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from clusters.scenario.values import Model, Seconds
from history.kafka_versions import has

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

    def broker_settings(self) -> dict[str, str]:
        """What the brokers must permit for this session time-out, for which a group may not ask by itself."""
        session_ms = str(int(self.session_timeout * 1000))
        if self.protocol == "classic":
            return {"group.min.session.timeout.ms": session_ms}
        heartbeat_ms = str(int(self.session_timeout * 1000 / 6))
        return {
            "group.consumer.min.session.timeout.ms": session_ms,
            "group.consumer.session.timeout.ms": session_ms,
            "group.consumer.min.heartbeat.interval.ms": heartbeat_ms,
            "group.consumer.heartbeat.interval.ms": heartbeat_ms,
        }

    def unknown_to(self, kafka_version: str, mode: str) -> str | None:
        """Why brokers cannot have this group, in one sentence; None: they can."""
        if self.protocol == "classic" or (has("consumer_protocol", kafka_version) and mode == "kraft"):
            return None
        return (
            f"protocol: consumer (KIP-848) needs Kafka 4.0 or newer, not {kafka_version}; "
            "use protocol: classic, or a newer version with KAFKA=."
        )
