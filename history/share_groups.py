"""What recording and judging both rest on of share groups (KIP-932)."""

from __future__ import annotations

STATE_TOPIC = "__share_group_state"  # where the share coordinator keeps what was acknowledged
KINDS = ("accept", "release")  # how a member acknowledges a record
SETTLE = "settle"  # as an event's step: whether a share group came to rest before its members ended


def still_s(lock_s: float) -> float:
    """Within how many seconds without a fault a record that waits is delivered: its lock runs out, members poll.

    Twice the lock for brokers that hold several records up, and 5 s for a group that just lost a member.
    """
    return 2 * lock_s + 5
