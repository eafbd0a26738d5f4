"""Facts about share groups (KIP-932), shared by recording and judging."""

from __future__ import annotations

STATE_TOPIC = "__share_group_state"  # the share coordinator's acknowledgement state
KINDS = ("accept", "release")  # acknowledgement types
SETTLE = "settle"  # event step: whether a share group came to rest before its stop


def still_s(lock_s: float) -> float:
    """Return within how many seconds a waiting record is delivered without faults: its lock expires, members poll.

    Twice the lock for brokers that delay several records, plus 5 s after losing a member.
    """
    return 2 * lock_s + 5
