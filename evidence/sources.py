"""Evidence that checks depend on, and gaps in it.

Each table of ``history.tables.RECORDED`` is a source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from history.partition import TopicPartition

# Exported logs, leader-epoch-checkpoints, broker log lines, the controller's states and their times, groups at rest,
# every start of a server, followers' rows of the offsets, checkpoint files in these rows.
Files = Literal[
    "segments", "epoch files", "server logs", "history", "dates", "rest", "starts", "followers", "checkpoints"
]
Tables = Literal["sends", "polls", "seeks", "replicas", "isr", "offsets", "positions"]
Groups = Literal["group_reads", "rebalances", "commits", "share_reads", "share_acks"]
Source = Files | Tables | Groups


def sources(*names: Source) -> frozenset[Source]:
    """Return a set of sources."""
    return frozenset(names)


GROUP = sources("group_reads", "rebalances", "commits")
SHARE = sources("share_reads", "share_acks")


def counted(sentences: Sequence[str], what: str) -> str:
    """Return the first sentence, and the number of others."""
    first, more = sentences[0].rstrip("."), len(sentences) - 1
    return f"{first} (and {more:,} more {what}{'s' if more > 1 else ''})" if more else first


class Gap(NamedTuple):
    """Missing evidence: sentence, sources, partition (None: all)."""

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
        return next((why for (source, _), why in self._first.items() if source in sources), None)

    def of(self, sources: Collection[str], where: TopicPartition | None) -> str | None:
        """Return why a partition's source is incomplete, or None."""
        places = (None, where)
        return next((why for s in sorted(sources) for at in places if (why := self._first.get((s, at)))), None)
