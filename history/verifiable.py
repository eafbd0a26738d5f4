"""Output and values of Kafka's VerifiableProducer.

A value is ``<prefix>.<n>`` with ``--value-prefix``, else ``<n>``; ``n`` counts from 0
(``org.apache.kafka.tools.VerifiableProducer``), without checksum. Runs in client nodes.
"""

from __future__ import annotations

import re

SENT = "producer_send_success"
FAILED = "producer_send_error"
PREFIX = 1  # prefix of the run's own load; further loads count up
COUNTS = "tool_data"  # last line of a stopped producer
NUMBER = re.compile(r"(?:(.*)\.)?(\d+)")


def producer_id(prefix: int) -> str:
    """Return the producer id for a ``--value-prefix``."""
    return f"verifiable-{prefix}"


def named(value: str) -> tuple[str, int] | None:
    """Return producer id and number of a prefixed value, None for others.

    Kafka prints both numbers without sign or leading zeros.
    """
    match = _PREFIXED.fullmatch(value)
    return (producer_id(int(match[1])), int(match[2])) if match else None


_PREFIXED = re.compile(r"(0|[1-9][0-9]{0,9})\.(0|[1-9][0-9]{0,14})")
