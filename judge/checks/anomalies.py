"""The evidence of each anomaly of ``history.anomalies``."""

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
from history.anomalies import LOST

_ACCOUNT = sources(SENDS, POLLS, SEGMENTS, CAPTURES)


class Needs(NamedTuple):
    """The sources that a check reads; ``whole``: a gap in these could look like a case."""

    reads: frozenset[str]
    whole: frozenset[str] = frozenset()


NEEDS = {
    # judge/checks/records.py
    "lost_write": Needs(_ACCOUNT, whole=sources(POLLS)),
    "truncated_ack": Needs(_ACCOUNT, whole=sources(POLLS)),
    "unknown_offset_ack": Needs(_ACCOUNT, whole=sources(POLLS)),
    "invisible_ack": Needs(_ACCOUNT, whole=sources(POLLS)),
    "undrained": Needs(_ACCOUNT),
    "unseen": Needs(_ACCOUNT),
    "inconsistent_offset": Needs(sources(SENDS, POLLS, SEGMENTS)),
    "duplicate": Needs(sources(SENDS, POLLS, SEGMENTS)),
    "phantom_record": Needs(sources(SENDS, POLLS, SEGMENTS), whole=sources(SENDS)),
    "corrupt_record": Needs(sources(POLLS, SEGMENTS)),
    "aborted_read": Needs(sources(SENDS, POLLS)),
    # judge/checks/atomicity.py, judge/checks/visibility.py
    "torn_transaction": Needs(_ACCOUNT, whole=sources(POLLS)),
    "hanging_transaction": Needs(sources(SAMPLES), whole=sources(SAMPLES)),
    # judge/checks/exactly_once.py
    "lost_output": Needs(sources(POLLS), whole=sources(POLLS)),
    "duplicate_output": Needs(sources(POLLS)),
    # judge/checks/reading_order.py, judge/checks/visibility.py
    "poll_skip": Needs(sources(POLLS, SEEKS), whole=sources(POLLS, SEEKS)),
    "nonmonotonic_poll": Needs(sources(POLLS, SEEKS), whole=sources(SEEKS)),
    "nonrepeatable_read": Needs(sources(POLLS, SEEKS), whole=sources(POLLS)),
    "precommitted_read": Needs(sources(POLLS, SAMPLES, VIEWS)),
    "realtime_order_violation": Needs(sources(SENDS, POLLS)),
    "nonmonotonic_send": Needs(sources(SENDS)),
    "bad_ack_offset": Needs(sources(SENDS)),
    "leader_epoch_regression": Needs(sources(POLLS)),
    # judge/checks/groups.py
    "group_skip": Needs(GROUP | {POLLS}, whole=GROUP),
    # judge/checks/shares.py
    "stuck_record": Needs(SHARE | {POLLS}, whole=SHARE),
    "archived_record": Needs(SHARE | {POLLS}, whole=SHARE),
    # judge/checks/behaviour.py
    "source_disagreement": Needs(sources(HISTORY, VIEWS, LINES, EPOCHS), whole=sources(HISTORY)),
    "behaviour_change": Needs(sources(SAMPLES, HISTORY)),
}
EXPLAINED = (
    *LOST,
    "invisible_ack",
    "undrained",
    "unseen",
)  # judge/verdict/explanations.py
