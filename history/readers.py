"""Facts about readers, shared by recording and judging."""

from __future__ import annotations

LIVE_CONSUMER = "consumer"  # the client that reads every partition during the load
CATCH_UP = "catch_up"  # event step: whether readers reached the end before their stop

_SESSIONS = 2  # a dead member's session, and another if the coordinator moved
_MARGIN_S = 30.0  # a rebalance, the longest client back-off, and a busy host


def patience_s(session_timeout_s: float = 0.0) -> float:
    """Return how many seconds a reader may stand still on a cluster at rest.

    A dead member keeps its partitions until its session expires; a live one rejoins within a heartbeat.
    """
    return _SESSIONS * session_timeout_s + _MARGIN_S
