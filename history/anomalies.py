"""The anomalies that a run can show. docs/checks.md defines them; ``judge.checks.anomalies`` has their evidence."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Truncation(StrEnum):
    """How the truncation of a log causes an anomaly."""

    RECORD_GONE = "the record is gone"
    OFFSET_REUSED = "a later record got an earlier offset"
    MARKER_GONE = "the end of a transaction is gone"
    READ_AGAIN = "a reader received other records before or after"


class Anomaly(NamedTuple):
    """An anomaly's properties.

    ``severity``: S1 violates a guarantee of Kafka under this configuration; S2 is liveness, or needs review. ``lost``:
    no reader will return an acknowledged record. ``truncation``: how a truncated log may cause it. ``control``: the
    records that its positive control shows, in words. ``permitted_by``: what permits them, unless acks or unclean
    elections do.
    """

    severity: str
    lost: bool = False
    truncation: Truncation | None = None
    control: str = ""
    permitted_by: str = ""


GONE, REUSED, MARKER, REREAD = Truncation

ANOMALIES = {
    "lost_write": Anomaly("S1", lost=True, truncation=GONE, control="lost records"),
    "truncated_ack": Anomaly("S1", lost=True, truncation=GONE),
    "unknown_offset_ack": Anomaly("S1", lost=True, truncation=GONE),
    "invisible_ack": Anomaly("S2"),
    "undrained": Anomaly("S2"),
    "unseen": Anomaly("S2"),
    "inconsistent_offset": Anomaly("S1", truncation=GONE),
    "duplicate": Anomaly("S1", control="duplicated records", permitted_by="enable.idempotence=false"),
    "phantom_record": Anomaly("S1"),
    "corrupt_record": Anomaly("S1"),
    "aborted_read": Anomaly("S1", truncation=MARKER),
    "torn_transaction": Anomaly("S1", truncation=GONE),
    "hanging_transaction": Anomaly("S1", truncation=MARKER),
    "lost_output": Anomaly("S1"),
    "duplicate_output": Anomaly(
        "S1", control="records copied twice", permitted_by="offsets that are committed apart from the copies"
    ),
    "poll_skip": Anomaly("S1", truncation=REREAD),
    "nonmonotonic_poll": Anomaly("S1"),
    "nonrepeatable_read": Anomaly("S1", truncation=REREAD),
    "precommitted_read": Anomaly("S1"),
    "realtime_order_violation": Anomaly("S1", truncation=REUSED),
    "nonmonotonic_send": Anomaly("S1", truncation=REUSED),
    "bad_ack_offset": Anomaly("S2"),
    "leader_epoch_regression": Anomaly("S2"),
    "group_skip": Anomaly("S1", control="records that the group skipped", permitted_by="commits ahead of processing"),
    "stuck_record": Anomaly("S1"),
    "archived_record": Anomaly(
        "S1",
        control="records that the share group gave up",
        permitted_by="members that release them at every delivery",
    ),
    "source_disagreement": Anomaly("S2"),
    "behaviour_change": Anomaly("S2"),
}
SEVERITY = {name: anomaly.severity for name, anomaly in ANOMALIES.items()}
LOST = tuple(name for name, anomaly in ANOMALIES.items() if anomaly.lost)
CONTROLS = tuple(name for name, anomaly in ANOMALIES.items() if anomaly.control)


def with_truncation(*kinds: Truncation) -> tuple[str, ...]:
    """Return the names of the anomalies that a truncated log may cause in one of these ways."""
    return tuple(name for name, anomaly in ANOMALIES.items() if anomaly.truncation in kinds)
