"""The ternary outcome of a send."""

from __future__ import annotations

import pytest

from clusters.clients.ledger import outcome


def test_success_is_ok() -> None:
    """No error: the broker acknowledged."""
    assert outcome(None, may_have_retried=True) == "ok"


@pytest.mark.parametrize(
    "error",
    ["never_sent", "transaction_aborted", "MESSAGE_TOO_LARGE", "TOPIC_AUTHORIZATION_FAILED", "INVALID_TOPIC_EXCEPTION"],
)
def test_refused_for_good_is_fail(error: str) -> None:
    """What every attempt meets alike, before the append, is definitely not in the log."""
    assert outcome(error, may_have_retried=True) == "fail"


@pytest.mark.parametrize(
    "error",
    [
        "NOT_LEADER_OR_FOLLOWER",
        "REQUEST_TIMED_OUT",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "UNKNOWN_SERVER_ERROR",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "KafkaConnectionError",
        "KafkaTimeoutError",
        "_MSG_TIMED_OUT",
        "timeout",
        "no_answer",
        "no_acknowledgement",
        "an error of tomorrow",
        "commit _TIMED_OUT",
        "commit TOPIC_AUTHORIZATION_FAILED",
    ],
)
@pytest.mark.parametrize("may_have_retried", [True, False])
def test_anything_else_is_unknown(error: str, may_have_retried: bool) -> None:
    """Time-outs, disconnects, 6, 7, 19, 20 and errors that nobody has seen yet: the record may be in the log."""
    assert outcome(error, may_have_retried=may_have_retried) == "info"


def test_unknown_topic_is_definite_only_without_retries() -> None:
    """A retry that ends at a broker which lost the topic says nothing about the attempts before it."""
    assert outcome("UNKNOWN_TOPIC_OR_PARTITION", may_have_retried=False) == "fail"
    assert outcome("UNKNOWN_TOPIC_OR_PARTITION", may_have_retried=True) == "info"
