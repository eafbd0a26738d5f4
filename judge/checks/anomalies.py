"""The anomalies that a run can show.

S1 violates a guarantee of Kafka under this configuration; S2 is liveness, or needs review.
"""

from __future__ import annotations

from typing import NamedTuple

from evidence.sources import (
    CAPTURES,
    EPOCHS,
    GROUP,
    HISTORY,
    LINES,
    POLLS,
    SAMPLES,
    SEEKS,
    SEGMENTS,
    SENDS,
    SHARE,
    VIEWS,
    sources,
)

_ACCOUNT = sources(SENDS, POLLS, SEGMENTS, CAPTURES)


class Anomaly(NamedTuple):
    """An anomaly; ``whole``: sources in which a gap could look like a case."""

    severity: str
    reads: frozenset[str]
    whole: frozenset[str] = frozenset()


ANOMALIES = {
    # judge/checks/records.py
    "lost_write": Anomaly("S1", _ACCOUNT, whole=sources(POLLS)),
    "truncated_ack": Anomaly("S1", _ACCOUNT, whole=sources(POLLS)),
    "unknown_offset_ack": Anomaly("S1", _ACCOUNT, whole=sources(POLLS)),
    "invisible_ack": Anomaly("S2", _ACCOUNT, whole=sources(POLLS)),
    "undrained": Anomaly("S2", _ACCOUNT),
    "unseen": Anomaly("S2", _ACCOUNT),
    "inconsistent_offset": Anomaly("S1", sources(SENDS, POLLS, SEGMENTS)),
    "duplicate": Anomaly("S1", sources(SENDS, POLLS, SEGMENTS)),
    "phantom_record": Anomaly("S1", sources(SENDS, POLLS, SEGMENTS), whole=sources(SENDS)),
    "corrupt_record": Anomaly("S1", sources(POLLS, SEGMENTS)),
    "aborted_read": Anomaly("S1", sources(SENDS, POLLS)),
    # judge/checks/atomicity.py, judge/checks/visibility.py
    "torn_transaction": Anomaly("S1", _ACCOUNT, whole=sources(POLLS)),
    "hanging_transaction": Anomaly("S1", sources(SAMPLES), whole=sources(SAMPLES)),
    # judge/checks/exactly_once.py
    "lost_output": Anomaly("S1", sources(POLLS), whole=sources(POLLS)),
    "duplicate_output": Anomaly("S1", sources(POLLS)),
    # judge/checks/reading_order.py, judge/checks/visibility.py
    "poll_skip": Anomaly("S1", sources(POLLS, SEEKS), whole=sources(POLLS, SEEKS)),
    "nonmonotonic_poll": Anomaly("S1", sources(POLLS, SEEKS), whole=sources(SEEKS)),
    "nonrepeatable_read": Anomaly("S1", sources(POLLS, SEEKS), whole=sources(POLLS)),
    "precommitted_read": Anomaly("S1", sources(POLLS, SAMPLES, VIEWS)),
    "realtime_order_violation": Anomaly("S1", sources(SENDS, POLLS)),
    "nonmonotonic_send": Anomaly("S1", sources(SENDS)),
    "bad_ack_offset": Anomaly("S2", sources(SENDS)),
    "leader_epoch_regression": Anomaly("S2", sources(POLLS)),
    # judge/checks/groups.py
    "group_skip": Anomaly("S1", GROUP | {POLLS}, whole=GROUP),
    # judge/checks/shares.py
    "stuck_record": Anomaly("S1", SHARE | {POLLS}, whole=SHARE),
    "archived_record": Anomaly("S1", SHARE | {POLLS}, whole=SHARE),
    # judge/checks/behaviour.py
    "source_disagreement": Anomaly("S2", sources(HISTORY, VIEWS, LINES, EPOCHS), whole=sources(HISTORY)),
    "behaviour_change": Anomaly("S2", sources(SAMPLES, HISTORY)),
}
SEVERITY = {name: anomaly.severity for name, anomaly in ANOMALIES.items()}
GONE = ("lost_write", "truncated_ack", "unknown_offset_ack")
EXPLAINED = (
    *GONE,
    "invisible_ack",
    "undrained",
    "unseen",
)  # by what the replicas showed (judge/verdict/explanations.py)
