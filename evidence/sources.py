"""The sources of evidence in a run folder, by which checks declare what they rest on, and what is missing of them.

A recorded table is a source by its name (``history.tables.RECORDED``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from history.partition import TopicPartition

SEGMENTS = "segments"  # the replicas' exported logs
EPOCHS = "epoch files"  # the replicas' leader-epoch-checkpoints
LINES = "server logs"  # the brokers' own words
HISTORY = "history"  # the controller's states
DATES = "dates"  # their times
SENDS, POLLS, SEEKS, SAMPLES, VIEWS, CAPTURES = "sends", "polls", "seeks", "replicas", "isr", "offsets"
GROUP = frozenset({"group_reads", "rebalances", "commits"})
POSITIONS = "positions"
REST = "rest"  # whether readers and groups had come to rest before they were ended
SHARE = frozenset({"share_reads", "share_acks"})


def sources(*names: str) -> frozenset[str]:
    """Return a set of sources."""
    return frozenset(names)


def counted(sentences: Sequence[str], what: str) -> str:
    """Return the first of some sentences as a clause, and how many more of ``what`` there are."""
    first, more = sentences[0].rstrip("."), len(sentences) - 1
    return f"{first} (and {more:,} more {what}{'s' if more > 1 else ''})" if more else first


class Gap(NamedTuple):
    """Something that is missing: a sentence, of which sources, and of which partition (None: of any)."""

    why: str
    sources: frozenset[str] = frozenset()
    where: TopicPartition | None = None


class Gaps:
    """What is missing, by source and partition."""

    def __init__(self, gaps: Iterable[Gap]) -> None:
        self._first: dict[tuple[str, TopicPartition | None], str] = {}
        for gap in gaps:
            for source in gap.sources:
                self._first.setdefault((source, gap.where), gap.why)

    def anywhere(self, sources: Collection[str]) -> str | None:
        """Return why one of some sources is not whole, or None if all are."""
        return next((why for (source, _), why in self._first.items() if source in sources), None)

    def of(self, sources: Collection[str], where: TopicPartition | None) -> str | None:
        """Return why one of some sources is not whole for a partition, or None if all are."""
        places = (None, where)
        return next((why for s in sorted(sources) for at in places if (why := self._first.get((s, at)))), None)
