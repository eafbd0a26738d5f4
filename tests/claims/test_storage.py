"""Claims about files and log starts, on segments written by the tests."""

import struct
from pathlib import Path

import pytest

from claims.recording import Recording
from kafka_files.batches import HEADER
from tests.claims.rows import event, files, recording, settings, still, verdict_of

FIRST_MS = 1_700_000_000_000


def batch(offset: int, at_ms: int) -> bytes:
    """Return a batch of one record with a valid header and a body of ten bytes."""
    return HEADER.pack(offset, HEADER.size - 12 + 10, 0, 2, 0, 0, 0, at_ms, at_ms, -1, -1, -1, 1) + bytes(10)


def replica(folder: Path, batches: int = 40, *, wrong: bool = False) -> Path:
    """Write a replica with batches 1 ms apart, and an entry in both indexes for every tenth batch."""
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(b"".join(batch(n, FIRST_MS + n) for n in range(batches)))
    size = len(batch(0, 0))
    tenths = range(10, batches, 10)
    index = b"".join(struct.pack(">ii", n, (n + 9 * wrong) * size) for n in tenths)
    times = b"".join(struct.pack(">qi", FIRST_MS + n, n) for n in tenths)
    (folder / f"{0:020}.index").write_bytes(index + bytes(80))
    (folder / f"{0:020}.timeindex").write_bytes(times + bytes(120))
    return folder


BEGAN, MOVED = still(1, 0, 1, 5, 5), still(1, 2, 3, 5, 5, log_start_offset=3)
LEAD = [*still(1, 0, 0.9, 5, 5), *still(1, 1, 3, 5, 5, log_start_offset=3)]
SOON = [*still(2, 0, 1.3, 5, 5), *still(2, 1.4, 3, 5, 5, log_start_offset=3)]
LATE = [*still(2, 0, 2, 5, 5), *still(2, 2.1, 3, 5, 5, log_start_offset=3)]
AGAIN = [row | {"received_ns": row["received_ns"] + 50_000_000} for row in LEAD]
AHEAD = [*still(1, 0, 2, 5, 8), *still(2, 0, 2, 5, 8)]
LEVEL = [*still(1, 0, 2, 8, 8), *still(2, 0, 2, 8, 8)]
STOPPED = [*still(1, 0, 2, 5, 8), *still(2, 0, 2, 5, 5)]

CASES: list[tuple[str, Recording, str]] = [
    ("C41", recording(events=[settings(log__segment__bytes="1073741824")]), "shown"),
    ("C41", recording(events=[settings(log__segment__bytes="1048576")]), "refuted"),
    ("C41", recording(), "not observable"),
    ("C42", recording(), "not observable"),
    ("C43", recording([*BEGAN, *MOVED]), "shown"),
    ("C43", recording(MOVED), "refuted"),
    ("C43", recording(BEGAN), "not observable"),
    ("C44", recording([*LEAD, *SOON]), "shown"),
    ("C44", recording([*LEAD, *LATE]), "refuted"),
    ("C44", recording([*LEAD, *AGAIN, *LATE]), "refuted"),
    ("C44", recording([*LEAD, *LATE[:10]]), "not observable"),  # it fell silent
    ("C44", recording(still(1, 0, 3, 5, 5)), "not observable"),
    ("C45", recording(AHEAD), "shown"),
    ("C45", recording(STOPPED), "refuted"),
    ("C45", recording([*STOPPED, *still(3, 0, 2, 5, 8)]), "shown"),
    ("C45", recording(LEVEL), "not observable"),
]


@pytest.mark.parametrize(("claim", "given", "verdict"), CASES)
def test_the_answer_follows_the_rows(claim: str, given: Recording, verdict: str) -> None:
    """Rows show or refute a claim, and nearly equal rows do not."""
    assert verdict_of(claim, given) == verdict


@pytest.mark.parametrize(("wrong", "verdict"), [(False, "shown"), (True, "refuted")])
def test_indexes_that_lead_to_the_batch_show_the_claim(tmp_path: Path, wrong: bool, verdict: str) -> None:
    """Indexes whose entries lead to their batches show the claim; one entry behind its batch refutes it."""
    folder = replica(tmp_path / "orders-0", 400, wrong=wrong)

    assert verdict_of("C42", recording(replicas=files([(1, folder)]))) == verdict


def test_a_replica_without_an_index_refutes_the_claim(tmp_path: Path) -> None:
    """A replica that lacks one of the three files refutes the claim."""
    folder = replica(tmp_path / "orders-0")
    (folder / f"{0:020}.timeindex").unlink()

    assert verdict_of("C42", recording(replicas=files([(1, folder)]))) == "refuted"


@pytest.mark.parametrize(("at_timestamp", "verdict"), [(25, "shown"), (26, "refuted")])
def test_a_leaders_look_up_is_compared_with_its_segments(tmp_path: Path, at_timestamp: int, verdict: str) -> None:
    """A leader's lookup is compared with its segments: another batch than that of offset 25 is wrong."""
    look_up = {"partition": 0, "broker": 1, "offset": 25, "batch": 25}
    look_up |= {"timestamp_ms": FIRST_MS + 25, "at_timestamp": at_timestamp}
    described = event(1, "described", target="orders", look_ups=[look_up])
    given = recording(events=[described], replicas=files([(1, replica(tmp_path / "orders-0"))]))

    assert verdict_of("C42", given) == verdict


@pytest.mark.parametrize(("limit", "verdict"), [("5000", "shown"), ("100", "refuted")])
def test_a_rolled_segment_is_compared_with_its_limit(tmp_path: Path, limit: str, verdict: str) -> None:
    """A rolled segment beyond the topic's limit refutes the claim."""
    folder = replica(tmp_path / "orders-0")
    (folder / f"{40:020}.log").write_bytes(batch(40, FIRST_MS + 40))
    named = {"broker": {"log.segment.bytes": {"default": str(1 << 30)}}, "topic": {"segment.bytes": {"topic": limit}}}
    described = event(1, "described", target="orders", settings=named, look_ups=[])

    assert verdict_of("C41", recording(events=[described], replicas=files([(1, folder)]))) == verdict
