"""The ternary outcome of a send: ok, fail (definitely not written) or info (it may be in the log).

In a transaction it is the transaction's: ok (committed), fail (aborted: no committed reader may see it) or info.
Anything not known to be harmless is info. A retriable error is never definite once the client may have retried:
an earlier attempt may have been written and its answer lost.
"""

from __future__ import annotations

from typing import Literal

Outcome = Literal["ok", "fail", "info"]

NEVER_SENT = "never_sent"  # refused on this side, before any byte of it was handed to a connection
NO_ANSWER = "no_answer"  # still in flight when the producer ended
NO_ACKNOWLEDGEMENT = "no_acknowledgement"  # acks=0: the broker says nothing
ABORTED = "transaction_aborted"  # nobody ever asked to commit it, or the coordinator confirmed its abort

# The broker refuses these before it appends, and refuses every attempt alike.
_REFUSED = frozenset(
    {
        "MESSAGE_TOO_LARGE",
        "INVALID_TOPIC_EXCEPTION",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_REQUIRED_ACKS",
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_TIMESTAMP",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "INVALID_RECORD",
        NEVER_SENT,
        ABORTED,
    }
)
# Refused before the append as well, but an earlier attempt may have met another answer.
_REFUSED_THIS_TIME = frozenset({"UNKNOWN_TOPIC_OR_PARTITION"})


def outcome(error: str | None, *, may_have_retried: bool) -> Outcome:
    """Classify a send by the name of its error (None: the broker answered with success)."""
    if error is None:
        return "ok"
    if error in _REFUSED or (error in _REFUSED_THIS_TIME and not may_have_retried):
        return "fail"
    return "info"
