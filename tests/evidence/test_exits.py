"""Which ends of servers the faults of a run explain."""

import pytest

from evidence.exits import explanation
from tests.evidence.folders import S, happened, manifest

CORRUPT = "[main] ERROR Found a corrupted batch: org.apache.kafka.common.errors.CorruptRecordException: CRC"
LOG_DIR = "[log-dir] ERROR Shutdown broker because all log dirs in /data have failed (kafka.log.LogManager)"
MEMORY = "[main] FATAL java.lang.OutOfMemoryError: Java heap space"
ORDERLY = "[main] INFO Loading logs from log dirs ArrayBuffer(/data)"


@pytest.mark.parametrize(
    ("step", "target", "log", "why"),
    [
        ("flip_bit", "broker-3", [CORRUPT], "flip_bit changed its files"),
        ("truncate", "broker-3", [LOG_DIR, "bye"], "truncate changed its files"),
        ("flip_bit", "broker-3", [MEMORY, ORDERLY], None),
        ("flip_bit", "broker-3", [], None),
        ("flip_bit", "broker-2", [CORRUPT], None),
        ("configure", "broker-3", [CORRUPT], None),
    ],
)
def test_a_step_that_changed_files_explains_an_end_by_a_storage_error(step, target, log, why):
    """At any time after it, since the files stay changed; an end for lack of memory has another cause."""
    exited = happened(900 * S, "server_exited", target="broker-3", detail={"exit_status": 1, "log": log})
    events = [
        happened(10 * S, "inject", step=step, target=target),
        happened(12 * S, "healed", step=step, target=target),
        exited,
    ]

    assert explanation(exited, events, manifest()) == why


def test_a_storage_error_before_the_files_were_changed_is_unexplained():
    """The server ended at 9 s, and the bit was flipped at 10 s."""
    exited = happened(9 * S, "server_exited", target="broker-3", detail={"log": [CORRUPT]})

    assert (
        explanation(exited, [exited, happened(10 * S, "inject", step="flip_bit", target="broker-3")], manifest())
        is None
    )
