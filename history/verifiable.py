"""Values of Kafka's VerifiableProducer: ``<prefix>.<n>`` or ``<n>``, without checksum.

Runs in client nodes.
"""

from __future__ import annotations

import re

SENT = "producer_send_success"
FAILED = "producer_send_error"
PREFIX = 1  # further loads count up
COUNTS = "tool_data"  # a stopped producer's
NUMBER = re.compile(r"(?:(.*)\.)?(\d+)")


def producer_id(prefix: int) -> str:
    """Return the producer id for a prefix."""
    return f"verifiable-{prefix}"


def named(value: str) -> tuple[str, int] | None:
    """Return a prefixed value's producer id and number, or None."""
    match = _PREFIXED.fullmatch(value)
    return (producer_id(int(match[1])), int(match[2])) if match else None


_PREFIXED = re.compile(r"(0|[1-9][0-9]{0,9})\.(0|[1-9][0-9]{0,14})")
