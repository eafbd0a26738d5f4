"""Show a watched cluster: a table for people, lines of JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clusters.attached.state import Health, PartitionNow, ReplicaNow

_URGENT = (Health.NO_LEADER, Health.LEADER_SILENT, Health.UNDER_MIN_ISR)
_COLOURS = dict.fromkeys(_URGENT, "bold red") | {Health.HEALTHY: "green"}
_WARNING = "yellow"
UNKNOWN = "?"


def table(partitions: Sequence[PartitionNow], title: str, rows: int) -> RenderableType:
    """Return the worst partitions as a table of at most ``rows``, with a line on all of them."""
    worst = sorted(partitions, key=lambda each: (each.health, -_behind_s(each), each.where))
    found = Table(title=title, title_justify="left", expand=False, pad_edge=False)
    for name in ("partition", "state", "leader", "epoch", "ISR", "high watermark", "log end", "replicas: behind"):
        found.add_column(name, justify="right" if name in ("epoch", "high watermark", "log end") else "left")
    for each in worst[:rows]:
        colour = _COLOURS.get(each.health, _WARNING)
        found.add_row(
            str(each.where),
            Text(each.health.words, style=colour),
            UNKNOWN if each.leader < 0 else str(each.leader),
            str(each.leader_epoch) + (f" (+{each.leader_changes})" if each.leader_changes else ""),
            " ".join(map(str, each.isr)),
            _offset(each.high_watermark) + (f" still {each.hw_still_s:.0f} s" if each.hw_still_s >= 1 else ""),
            _offset(each.log_end_offset),
            _behind(each),
        )
    return Group(Text(summary(partitions)), found)


def summary(partitions: Iterable[PartitionNow]) -> str:
    """Return the number of partitions in each state, worst first."""
    counts = Counter(each.health for each in partitions)
    return f"{counts.total():,} partitions: " + ", ".join(
        f"{counts[health]:,} {health.words}" for health in Health if counts[health]
    )


def lines(partitions: Iterable[PartitionNow]) -> list[str]:
    """Return a line on each partition."""
    return [
        f"{each.where}: {each.health.words}, leader {UNKNOWN if each.leader < 0 else each.leader} "
        f"epoch {each.leader_epoch}, ISR {list(each.isr)}, high watermark {_offset(each.high_watermark)}, "
        f"log end {_offset(each.log_end_offset)}, behind: {_behind(each)}"
        for each in partitions
    ]


def _behind(partition: PartitionNow) -> str:
    return ", ".join(_replica(each) for each in partition.replicas if each.error or each.broker_id != partition.leader)


def json_line(partitions: Iterable[PartitionNow]) -> str:
    """Return every partition's state as one line of JSON."""
    found = [
        {
            "topic": each.where.topic,
            "partition": each.where.partition,
            "state": each.health.name.lower(),
            "leader": None if each.leader < 0 else each.leader,
            "leader_epoch": each.leader_epoch,
            "leader_changes": each.leader_changes,
            "isr": list(each.isr),
            "high_watermark": each.high_watermark,
            "log_end_offset": each.log_end_offset,
            "high_watermark_still_s": round(each.hw_still_s, 3),
            "replicas": [_as_json(replica) for replica in each.replicas],
        }
        for each in partitions
    ]
    return json.dumps({"at": datetime.now(UTC).isoformat(), "partitions": found}, separators=(",", ":"))


def _as_json(replica: ReplicaNow) -> dict[str, Any]:
    found = replica._asdict()
    found["behind_s"] = round(replica.behind_s, 3)
    return found


def _behind_s(partition: PartitionNow) -> float:
    return max((replica.behind_s for replica in partition.replicas), default=0.0)


def _offset(offset: int | None) -> str:
    return UNKNOWN if offset is None else f"{offset:,}"


def _replica(replica: ReplicaNow) -> str:
    name = f"{replica.broker_id}" if replica.in_isr else f"{replica.broker_id} (out)"
    if replica.error:
        return f"{name}: {replica.error.lower().replace('_', ' ')} for {replica.behind_s:.0f} s"
    if not replica.lag:
        return f"{name}: {0 if replica.log_end_offset is not None else UNKNOWN}"
    since = f" for {replica.behind_s:.0f} s" if replica.behind_s >= 1 else ""
    return f"{name}: {replica.lag:,}{since}"
