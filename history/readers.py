"""Facts about readers."""

from __future__ import annotations

LIVE_CONSUMER = "consumer"  # reads every partition during the load
CATCH_UP = "catch_up"  # event step

_SESSIONS = 2  # a dead member's, and one more if the coordinator moved
_MARGIN_S = 30.0  # a rebalance, the longest back-off, a busy host


def patience_s(session_timeout_s: float = 0.0) -> float:
    """Return how long a reader may pause on a cluster at rest.

    A dead member keeps its partitions until its session expires.
    """
    return _SESSIONS * session_timeout_s + _MARGIN_S
