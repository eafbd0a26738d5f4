"""Work that goes on beside a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def every(seconds: float, work: Callable[[], object]) -> Iterator[None]:
    """Call ``work`` in a thread every few seconds, until the block ends."""
    ended = Event()

    def go_on() -> None:
        while not ended.wait(seconds):
            work()

    thread = Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
