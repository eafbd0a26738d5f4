"""Limits of transactions (KIP-98)."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.faults import fault_spans
from history.events import Event
from history.manifest import Manifest

SETTLE_NS = 10_000_000_000  # for an abort's markers


def transactional(manifest: Manifest) -> bool:
    """Return whether a run may have transactions."""
    return manifest.foreign or any(producer.transaction_timeout_ms for producer in manifest.producers)


def limit_ns(manifest: Manifest) -> int:
    """Return how long a transaction may be open without a fault."""
    interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    intervals = [int(node.config.get(interval, "10000")) for node in manifest.brokers] or [10_000]
    timeouts = [producer.transaction_timeout_ms or 0 for producer in manifest.producers] or [0]
    return (max(timeouts) + max(intervals)) * 1_000_000 + SETTLE_NS


def faults(events: Sequence[Event]) -> list[tuple[int, int]]:
    """Return when each fault was active, until verified recovery."""
    return [(fault.from_ns, fault.at_ns("healed")) for fault in fault_spans(events)]
