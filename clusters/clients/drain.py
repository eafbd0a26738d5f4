"""Read everything once more.

A partition ends at its high watermark, or last stable offset, at the start.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import Any

from clusters.clients.configs import DrainConfig
from clusters.clients.main import keep_freed_memory, main
from clusters.clients.polls import About, PollLog
from clusters.clients.reading import Reader
from clusters.clients.summary import Summary
from clusters.kafka.offsets import EARLIEST, LATEST
from history.partition import TopicPartition
from history.streams import RowWriter
from history.tables import SEEKS

log = logging.getLogger("drain")


def drain(reader: Reader, writer: PollLog, deadline: float) -> dict[str, dict[str, Any]]:
    """Read until all partitions are complete or unreadable, or the deadline (monotonic seconds).

    Return for each start_offset, position, end_offset and complete.
    """
    starts: dict[TopicPartition, int | None] = dict.fromkeys(reader.partitions)
    while True:
        before = reader.rows
        for seen in reader.poll():
            writer.add(seen)
        if reader.rows > before and time.monotonic() < deadline:
            continue
        reader.learn()
        starts |= reader.offsets([where for where, start in starts.items() if start is None], EARLIEST)
        ends = reader.offsets(reader.partitions, LATEST)
        reached = {str(where): _reached(reader.position(where), start, ends[where]) for where, start in starts.items()}
        ended = all(of["complete"] or name in reader.unreadable for name, of in reached.items())
        if ended or time.monotonic() >= deadline:
            return reached


def _reached(position: int, start: int | None, end: int | None) -> dict[str, Any]:
    complete = start is not None and end is not None and position >= end
    return {"start_offset": start, "position": position, "end_offset": end, "complete": complete}


def run(config: DrainConfig) -> None:
    """Drain once; write the summary."""
    keep_freed_memory()
    summary = Summary(config, "drain")
    deadline = time.monotonic() + config.limit_s
    with (
        PollLog(config.stream("polls"), About(config.client_id, "final", config.isolation)) as writer,
        RowWriter(config.stream("seeks"), SEEKS) as seeks,
        closing(Reader(config, "final", seeks)) as reader,
    ):
        summary.ready()
        partitions = drain(reader, writer, deadline)
    summary.end(rows=reader.rows, seeks=reader.seeks, partitions=partitions, unreadable=reader.unreadable)
    log.info("ended after %d records: %s", reader.rows, partitions)


if __name__ == "__main__":
    main(DrainConfig, run)
