"""Which of a run's partitions its page shows one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from history.partition import TopicPartition

Row = Mapping[str, Any]

MOST_SHOWN = 24  # what a selector, and a page of a few megabytes, has room for
COMPARED = ("high_watermark", "log_end_offset", "leader_epoch", "log_start_offset")


def partitions_of(tables: Mapping[str, Sequence[Row]]) -> frozenset[TopicPartition]:
    """Every partition that a table of one row or a few a partition names."""
    rows = (row for name in ("delivery", "offsets", "timeline_isr") for row in tables.get(name, ()))
    return frozenset(map(TopicPartition.of, rows))


def shown_of(tables: Mapping[str, Sequence[Row]]) -> frozenset[TopicPartition]:
    """The partitions that a page has room for: those with most cases first, then those whose replicas disagree at the
    end, then those whose leader or ISR changed most, then the first.
    """
    return frozenset(_telling(tables)[:MOST_SHOWN])


def first_topic(tables: Mapping[str, Sequence[Row]]) -> str:
    """The topic of the partition with most to tell, which the page shows first; empty where there is no partition."""
    return next((where.topic for where in _telling(tables)), "")


def _telling(tables: Mapping[str, Sequence[Row]]) -> list[TopicPartition]:
    """Every partition, the one with most to tell first."""
    cases = Counter(TopicPartition.of(row) for row in tables.get("anomalies", ()) if row["topic"] is not None)
    changes = Counter(map(TopicPartition.of, tables.get("timeline_isr", ())))
    apart = disagreements(tables.get("offsets", ()))
    return sorted(
        partitions_of(tables) | set(cases),
        key=lambda where: (-cases[where], not apart.get(where), -changes[where], where),
    )


def disagreements(offsets: Iterable[Row]) -> dict[TopicPartition, list[str]]:
    """Per partition, the values on which replicas disagree at ``after``; one that did not answer is not compared."""
    values: dict[TopicPartition, dict[str, set[int]]] = {}
    for row in offsets:
        if row["capture"] == "after":
            own = values.setdefault(TopicPartition.of(row), {name: set() for name in COMPARED})
            for name in COMPARED:
                if row[name] is not None:
                    own[name].add(row[name])
    return {where: [name for name in COMPARED if len(own[name]) > 1] for where, own in values.items()}
