"""Facts about share groups (KIP-932)."""

from __future__ import annotations

STATE_TOPIC = "__share_group_state"  # the share coordinator's
KINDS = ("accept", "release")  # of acknowledgements
SETTLE = "settle"  # event step


def still_s(lock_s: float) -> float:
    """Return within how many seconds a waiting record is delivered without faults.

    Twice the lock, plus 5 s after losing a member.
    """
    return 2 * lock_s + 5
