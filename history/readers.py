"""What recording and judging both rest on of readers: the live consumer, and the members of a consumer group."""

from __future__ import annotations

LIVE_CONSUMER = "consumer"  # the client that reads every partition while the loads run
CATCH_UP = "catch_up"  # as an event's step: whether all readers reached the end before they were ended

_SESSIONS = 2  # the one of a member that is gone, and another one if the coordinator moved meanwhile
_MARGIN_S = 30.0  # for a rebalance, the longest back-off of a client, and a busy host


def patience_s(session_timeout_s: float = 0.0) -> float:
    """Return for how many seconds a reader may stand still short of the end, with the cluster at rest.

    A dead member keeps its partitions until its session ends; a member that lives rejoins within a heartbeat.
    """
    return _SESSIONS * session_timeout_s + _MARGIN_S
