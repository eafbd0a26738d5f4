"""Evidence sources that checks depend on, and missing evidence.

Each recorded table is a source by its name (``history.tables.RECORDED``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from history.partition import TopicPartition

SEGMENTS = "segments"  # the replicas' exported logs
EPOCHS = "epoch files"  # the replicas' leader-epoch-checkpoints
LINES = "server logs"  # the brokers' log lines
HISTORY = "history"  # the controller's states
DATES = "dates"  # times of the controller's states
SENDS, POLLS, SEEKS, SAMPLES, VIEWS, CAPTURES = "sends", "polls", "seeks", "replicas", "isr", "offsets"
GROUP = frozenset({"group_reads", "rebalances", "commits"})
POSITIONS = "positions"
REST = "rest"  # whether readers and groups came to rest before their stop
SHARE = frozenset({"share_reads", "share_acks"})


def sources(*names: str) -> frozenset[str]:
    """Return a set of sources."""
    return frozenset(names)


def counted(sentences: Sequence[str], what: str) -> str:
    """Return the first sentence as a clause, and the number of others."""
    first, more = sentences[0].rstrip("."), len(sentences) - 1
    return f"{first} (and {more:,} more {what}{'s' if more > 1 else ''})" if more else first


class Gap(NamedTuple):
    """Missing evidence: a sentence, the sources, and the partition (None: any)."""

    why: str
    sources: frozenset[str] = frozenset()
    where: TopicPartition | None = None


class Gaps:
    """Missing evidence by source and partition."""

    def __init__(self, gaps: Iterable[Gap]) -> None:
        self._first: dict[tuple[str, TopicPartition | None], str] = {}
        for gap in gaps:
            for source in gap.sources:
                self._first.setdefault((source, gap.where), gap.why)

    def anywhere(self, sources: Collection[str]) -> str | None:
        """Return why one of the sources is incomplete, or None."""
        return next((why for (source, _), why in self._first.items() if source in sources), None)

    def of(self, sources: Collection[str], where: TopicPartition | None) -> str | None:
        """Return why one of the sources is incomplete for a partition, or None."""
        places = (None, where)
        return next((why for s in sorted(sources) for at in places if (why := self._first.get((s, at)))), None)
