"""What Kafka's VerifiableProducer says and sends: the names of its lines, and values that are numbers.

A value is ``<prefix>.<n>`` with ``--value-prefix``, else ``<n>``; ``n`` counts from 0 (Kafka's
``org.apache.kafka.tools.VerifiableProducer``). It bears no checksum. Runs inside the client nodes.
"""

from __future__ import annotations

import re

SENT = "producer_send_success"
FAILED = "producer_send_error"
PREFIX = 1  # of the values of a run's own load; further ones have the next numbers
COUNTS = "tool_data"  # the last line of a producer that was told to stop
NUMBER = re.compile(r"(?:(.*)\.)?(\d+)")


def producer_id(prefix: int) -> str:
    """What a producer with this ``--value-prefix`` is called."""
    return f"verifiable-{prefix}"


def named(value: str) -> tuple[str, int] | None:
    """The producer's id and the number in a value with a prefix; None of any other value.

    Kafka prints neither number with a leading zero or a sign.
    """
    match = _PREFIXED.fullmatch(value)
    return (producer_id(int(match[1])), int(match[2])) if match else None


_PREFIXED = re.compile(r"(0|[1-9][0-9]{0,9})\.(0|[1-9][0-9]{0,14})")
