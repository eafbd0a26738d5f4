"""Run the live consumer until SIGTERM."""

from __future__ import annotations

import logging
import threading
from contextlib import closing

from clusters.clients.configs import ConsumerConfig
from clusters.clients.main import keep_freed_memory, main, stop_on_sigterm
from clusters.clients.polls import About, PollLog
from clusters.clients.reading import Reader
from clusters.clients.summary import Summary
from history.streams import RowWriter
from history.tables import SEEKS

log = logging.getLogger("consumer")


def run(config: ConsumerConfig, stop: threading.Event) -> None:
    """Record all records until ``stop`` is set."""
    keep_freed_memory()
    summary = Summary(config, "consumer")
    with (
        PollLog(config.stream("polls"), About(config.client_id, "live", config.isolation)) as writer,
        RowWriter(config.stream("seeks"), SEEKS) as seeks,
        closing(Reader(config, "live", seeks)) as reader,
    ):
        while not stop.is_set():
            for seen in reader.poll():
                writer.add(seen)
                summary.ready()
            writer.flush_if_due()
            summary.so_far(reader.positions, received=reader.rows)
    summary.end(rows=reader.rows, seeks=reader.seeks, unreadable=reader.unreadable)
    log.info("ended after %d records", reader.rows)


if __name__ == "__main__":
    main(ConsumerConfig, run, stop_on_sigterm())
