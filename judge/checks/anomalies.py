"""The evidence of each anomaly of ``history.anomalies``."""

from __future__ import annotations

from typing import NamedTuple

from evidence.sources import GROUP, SHARE, sources
from history.anomalies import LOST

_ACCOUNT = sources("sends", "polls", "segments", "offsets")


class Needs(NamedTuple):
    """The sources that a check reads; ``whole``: a gap in these could look like a case."""

    reads: frozenset[str]
    whole: frozenset[str] = frozenset()


NEEDS = {
    # judge/checks/records.py
    "lost_write": Needs(_ACCOUNT, whole=sources("polls")),
    "truncated_ack": Needs(_ACCOUNT, whole=sources("polls")),
    "unknown_offset_ack": Needs(_ACCOUNT, whole=sources("polls")),
    "invisible_ack": Needs(_ACCOUNT, whole=sources("polls")),
    "undrained": Needs(_ACCOUNT),
    "unseen": Needs(_ACCOUNT),
    "inconsistent_offset": Needs(sources("sends", "polls", "segments")),
    "duplicate": Needs(sources("sends", "polls", "segments")),
    "phantom_record": Needs(sources("sends", "polls", "segments"), whole=sources("sends")),
    "corrupt_record": Needs(sources("polls", "segments")),
    "aborted_read": Needs(sources("sends", "polls")),
    # judge/checks/atomicity.py, judge/checks/visibility.py
    "torn_transaction": Needs(_ACCOUNT, whole=sources("polls")),
    "hanging_transaction": Needs(sources("replicas"), whole=sources("replicas")),
    # judge/checks/exactly_once.py
    "lost_output": Needs(sources("polls"), whole=sources("polls")),
    "duplicate_output": Needs(sources("polls")),
    # judge/checks/reading_order.py, judge/checks/visibility.py
    "poll_skip": Needs(sources("polls", "seeks"), whole=sources("polls", "seeks")),
    "nonmonotonic_poll": Needs(sources("polls", "seeks"), whole=sources("seeks")),
    "nonrepeatable_read": Needs(sources("polls", "seeks"), whole=sources("polls")),
    "precommitted_read": Needs(sources("polls", "replicas", "isr")),
    "realtime_order_violation": Needs(sources("sends", "polls")),
    "nonmonotonic_send": Needs(sources("sends")),
    "bad_ack_offset": Needs(sources("sends")),
    "leader_epoch_regression": Needs(sources("polls")),
    # judge/checks/groups.py
    "group_skip": Needs(GROUP | {"polls"}, whole=GROUP),
    # judge/checks/shares.py
    "stuck_record": Needs(SHARE | {"polls"}, whole=SHARE),
    "archived_record": Needs(SHARE | {"polls"}, whole=SHARE),
    # judge/checks/behaviour.py
    "source_disagreement": Needs(sources("history", "isr", "server logs", "epoch files"), whole=sources("history")),
    "behaviour_change": Needs(sources("replicas", "history")),
}
EXPLAINED = (
    *LOST,
    "invisible_ack",
    "undrained",
    "unseen",
)  # judge/verdict/explanations.py
