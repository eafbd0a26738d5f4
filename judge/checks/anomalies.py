"""The anomalies that a run's records and sources can show, with their severities.

S1 breaks a promise that Kafka made under this configuration; S2 is liveness, or needs review.
"""

from __future__ import annotations

SEVERITY = {
    # judge/checks/records.py
    "lost_write": "S1",
    "truncated_ack": "S1",
    "unknown_offset_ack": "S1",
    "invisible_ack": "S2",
    "undrained": "S2",
    "unseen": "S2",
    "inconsistent_offset": "S1",
    "duplicate": "S1",
    "phantom_record": "S1",
    "corrupt_record": "S1",
    "aborted_read": "S1",
    # judge/checks/atomicity.py, judge/checks/visibility.py
    "torn_transaction": "S1",
    "hanging_transaction": "S1",
    # judge/checks/exactly_once.py
    "lost_output": "S1",
    "duplicate_output": "S1",
    # judge/checks/reading_order.py, judge/checks/visibility.py
    "poll_skip": "S1",
    "nonmonotonic_poll": "S1",
    "nonrepeatable_read": "S1",
    "precommitted_read": "S1",
    "realtime_order_violation": "S1",
    "nonmonotonic_send": "S1",
    "bad_ack_offset": "S2",
    "leader_epoch_regression": "S2",
    # judge/checks/groups.py
    "group_skip": "S1",
    # judge/checks/shares.py
    "stuck_record": "S1",
    "archived_record": "S1",
    # judge/checks/behaviour.py
    "source_disagreement": "S2",
    "behaviour_change": "S2",
}
GONE = ("lost_write", "truncated_ack", "unknown_offset_ack")
EXPLAINED = (
    *GONE,
    "invisible_ack",
    "undrained",
    "unseen",
)  # by what the replicas showed (judge/verdict/explanations.py)
