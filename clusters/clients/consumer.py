"""The live consumer: ``python -m clusters.clients.consumer <config.json>``; reads on until SIGTERM."""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path

from clusters.clients.configs import ConsumerConfig
from clusters.clients.reading import Reader
from clusters.clients.summary import Summary, log_to_stderr, stop_on_sigterm
from history.streams import RowWriter
from history.tables import POLLS, SEEKS

log = logging.getLogger("consumer")


def run(config: ConsumerConfig, stop: threading.Event) -> None:
    """Record every record as it is seen, until ``stop`` is set."""
    summary = Summary(config, "consumer")
    with RowWriter(config.stream("polls"), POLLS) as writer, RowWriter(config.stream("seeks"), SEEKS) as seeks:
        reader = Reader(config, "live", seeks)
        while not stop.is_set():
            for row in reader.poll():
                writer.add(row)
                summary.ready()
            writer.flush_if_due()
    summary.end(rows=reader.rows, seeks=reader.seeks, unreadable=reader.unreadable)
    log.info("ended after %d records", reader.rows)


if __name__ == "__main__":
    log_to_stderr()
    run(ConsumerConfig.from_json(Path(sys.argv[1]).read_text()), stop_on_sigterm())
