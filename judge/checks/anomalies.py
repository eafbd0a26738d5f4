"""The evidence of each anomaly of ``history.anomalies``."""

from __future__ import annotations

from typing import NamedTuple

from evidence.sources import GROUP, SHARE, sources
from history.anomalies import LOST

_ACCOUNT = sources("sends", "polls", "segments", "offsets")
_LOGS = sources("segments")


class Needs(NamedTuple):
    """The sources that a check reads; ``whole``: a gap in these could look like a case.

    Without ``helpful`` ones the check is made, and more cases are undecided. ``clean``: on clean topics only.
    """

    reads: frozenset[str]
    whole: frozenset[str] = frozenset()
    helpful: frozenset[str] = frozenset()
    clean: bool = False


NEEDS = {
    # judge/checks/records.py
    "lost_write": Needs(_ACCOUNT, whole=sources("polls"), helpful=_LOGS),
    "truncated_ack": Needs(_ACCOUNT, whole=sources("polls"), helpful=_LOGS),
    "unknown_offset_ack": Needs(_ACCOUNT, whole=sources("polls"), helpful=_LOGS),
    "invisible_ack": Needs(_ACCOUNT, whole=sources("polls"), helpful=_LOGS),
    "undrained": Needs(_ACCOUNT, helpful=_LOGS),
    "unseen": Needs(_ACCOUNT, helpful=_LOGS),
    "inconsistent_offset": Needs(sources("sends", "polls", "segments"), helpful=_LOGS),
    "duplicate": Needs(sources("sends", "polls", "segments"), helpful=_LOGS),
    "phantom_record": Needs(sources("sends", "polls", "segments"), whole=sources("sends"), helpful=_LOGS),
    "corrupt_record": Needs(sources("polls", "segments"), helpful=_LOGS),
    "aborted_read": Needs(sources("sends", "polls")),
    # judge/checks/atomicity.py, judge/checks/visibility.py
    "torn_transaction": Needs(_ACCOUNT, whole=sources("polls"), helpful=_LOGS),
    "hanging_transaction": Needs(sources("sends", "replicas"), whole=sources("replicas")),
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
    "group_skip": Needs(GROUP | {"polls"}, whole=GROUP, clean=True),
    # judge/checks/shares.py
    "stuck_record": Needs(SHARE | {"polls"}, whole=SHARE, clean=True),
    "archived_record": Needs(SHARE | {"polls"}, whole=SHARE, clean=True),
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
