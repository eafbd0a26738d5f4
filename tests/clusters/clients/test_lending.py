"""Locks with priority inheritance, tried in librdkafka itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import confluent_kafka.cimpl  # noqa: F401  # brings the library along
import pytest

from clusters.clients.lending import cells_of

# In its own process, since the change cannot be undone. A queue begins with its lock.
MADE = """
import ctypes
from clusters.clients import librdkafka

library = librdkafka._library()
if {lends}:
    assert librdkafka.lend_priority()
producer = librdkafka.Producer({{"bootstrap.servers": "127.0.0.1:1", "log_level": 0}}, "orders")
library.rd_kafka_queue_new.restype, library.rd_kafka_queue_new.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
queue = library.rd_kafka_queue_new(producer._handle)
lock = ctypes.c_void_p.from_address(queue).value
print(ctypes.c_int.from_address(lock + 16).value & 32)
"""


@pytest.mark.parametrize("lends", [True, False])
def test_the_library_makes_locks_that_lend(lends: bool) -> None:
    """With priority inheritance switched on, librdkafka's new locks have it; otherwise they do not."""
    printed = subprocess.run(
        [sys.executable, "-c", MADE.format(lends=lends)], capture_output=True, text=True, check=True
    )

    assert (int(printed.stdout) != 0) is lends


# An ordinary exit runs the registered functions.
ENDED = """
import atexit, logging
from clusters.clients.lending import end_process

atexit.register(print, "taken apart")
logging.error("a last line")
print("a last word")
{ends}
"""


@pytest.mark.parametrize(
    ("ends", "said"), [("end_process(3)", "a last word\n"), ("exit(3)", "a last word\ntaken apart\n")]
)
def test_a_process_that_lends_ends_with_its_interpreter_whole(ends: str, said: str) -> None:
    """``end_process`` flushes output and sets the exit code without running exit handlers; ``exit`` runs them."""
    ended = subprocess.run([sys.executable, "-c", ENDED.format(ends=ends)], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (3, said)
    assert "a last line" in ended.stderr


def test_a_function_that_is_not_called_has_no_cell() -> None:
    """Only functions that the library calls have an entry that can be redirected."""
    library = next(
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "librdkafka" in line
    )
    data = Path(library).read_bytes()

    assert list(cells_of(data, b"mtx_lock"))
    assert list(cells_of(data, b"mtx_lock_never")) == []
