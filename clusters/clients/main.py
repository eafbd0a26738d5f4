"""Run a client process (``python -m clusters.clients.<role> <config.json>``): signals, log and memory."""

from __future__ import annotations

import ctypes
import logging
import signal
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from clusters.clients.configs import ClientConfig

Config = TypeVar("Config", bound=ClientConfig)
FREED_BYTES = 1 << 26
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # from malloc.h


def stop_on_sigterm() -> threading.Event:
    """Return an event that SIGTERM sets, from a thread: the interrupted code may hold its lock."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: start_new_thread(stop.set, ()))
    return stop


def main(kind: type[Config], run: Callable[..., None], *arguments: object) -> None:
    """Run a client with the configuration file of the command line."""
    log_to_stderr()
    run(kind.from_json(Path(sys.argv[1]).read_text()), *arguments)


def log_to_stderr() -> None:
    """Log to stderr; the Kafka libraries from WARNING on."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.WARNING)


def keep_freed_memory() -> None:
    """Keep up to ``FREED_BYTES``, with glibc, so that the kernel does not zero them: half of the decoding time."""
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, FREED_BYTES)
        mallopt(_TRIM_THRESHOLD, FREED_BYTES)
