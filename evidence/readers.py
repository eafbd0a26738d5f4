"""Readers' final positions in one partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from history.events import Event
from history.manifest import Manifest
from history.readers import CATCH_UP, LIVE_CONSUMER

SILENT_NS = 10_000_000_000  # readers report once a second


class ReaderFacts(NamedTuple):
    """Facts about all readers.

    ``alive`` ones had just reported; ``silent`` ones ran but had not. ``members`` read ``topic``. None moved for
    ``still_ns``; a reader may pause for ``patience_ns``.
    """

    patience_ns: int
    still_ns: int = 0
    alive: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    topic: str | None = None

    @property
    def members(self) -> list[str]:
        return sorted(self.alive - {LIVE_CONSUMER})


@dataclass(frozen=True)
class ReaderEvidence:
    """Readers' positions in one partition; None: nothing fetched."""

    positions: Mapping[str, int | None]
    facts: ReaderFacts

    @classmethod
    def of(cls, table: pa.Table, facts: ReaderFacts) -> ReaderEvidence:
        return cls({row["reader"]: row["position"] for row in table.to_pylist()}, facts)


def reader_facts(
    manifest: Manifest,
    events: Sequence[Event],
    clients: Sequence[Mapping[str, Any]],
    faults: Sequence[tuple[int, int]],
) -> ReaderFacts | None:
    """Return the facts, None without readers or their positions."""
    if manifest.patience_s is None or manifest.foreign:
        return None
    patience_ns = int(manifest.patience_s * 1e9)
    looked = next((event for event in events if event.step == CATCH_UP), None)
    if looked is None:
        return ReaderFacts(patience_ns)
    reported_ns: Mapping[str, int] = looked.detail.get("told", {})
    alive = {reader for reader, t_ns in reported_ns.items() if looked.t_ns - t_ns <= SILENT_NS}
    running = {each["client_id"] for each in clients if _is_reader(each, manifest) and _ran_at(each, looked.t_ns)}
    drained_ns = [each["ended_ns"] for each in clients if each["role"] == "drain" and each.get("ended_ns")]
    ended_ns = [ended for _, ended in faults]
    since_ns = max([looked.detail.get("still_since_ns", looked.t_ns), *drained_ns, *ended_ns])
    grouped = None if manifest.shares else manifest.grouped
    return ReaderFacts(
        patience_ns=patience_ns,
        still_ns=looked.t_ns - since_ns,
        alive=frozenset(alive),
        silent=frozenset((running | reported_ns.keys()) - alive),
        topic=grouped["topic"] if grouped else None,
    )


def _is_reader(client: Mapping[str, Any], manifest: Manifest) -> bool:
    return client["client_id"] == LIVE_CONSUMER or (client["role"] == "member" and not manifest.shares)


def _ran_at(client: Mapping[str, Any], t_ns: int) -> bool:
    return bool(client.get("started_ns", t_ns) <= t_ns <= (client.get("ended_ns") or 0))
