"""Claims about files and log starts, on segments written by the tests."""

import struct
from pathlib import Path

from claims import storage
from kafka_files.batches import HEADER
from tests.claims.rows import event, recording, settings, state, still

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


def test_indexes_that_lead_to_the_batch_show_the_claim(tmp_path: Path) -> None:
    """Indexes whose entries lead to their batches show the claim; one entry behind its batch refutes it."""
    for name, verdict in (("right", "shown"), ("wrong", "refuted")):
        replica(tmp_path / name / "orders-0", 400, wrong=name == "wrong")
        told = recording(data={1: tmp_path / name})
        assert storage.files_are_log_index_timeindex(told).verdict == verdict
    assert storage.files_are_log_index_timeindex(recording()).verdict == "not observable"


def test_a_leaders_look_up_is_held_against_its_segments(tmp_path: Path) -> None:
    """A leader's lookup is compared with its segments: another batch than that of offset 25 is wrong."""
    replica(tmp_path / "orders-0")
    for found, verdict in ((25, "shown"), (26, "refuted")):
        look_up = {
            "partition": 0,
            "broker": 1,
            "offset": 25,
            "batch": 25,
            "timestamp_ms": FIRST_MS + 25,
            "at_timestamp": found,
        }
        asked = event(1, "described", target="orders", look_ups=[look_up])
        told = recording(data={1: tmp_path}, events=[asked])
        assert storage.files_are_log_index_timeindex(told).verdict == verdict


def test_a_default_of_1_gib_shows_where_segments_roll() -> None:
    """A default of 1 GiB shows the claim, another default refutes it, and a missing answer decides nothing."""
    for told, verdict in (("1073741824", "shown"), ("1048576", "refuted")):
        events = [settings(log__segment__bytes=told)]
        assert storage.segments_roll_at_1_gib(recording(events=events)).verdict == verdict
    assert storage.segments_roll_at_1_gib(recording()).verdict == "not observable"


def test_a_log_start_that_moves_from_0_is_shown() -> None:
    """A log start that moves from 0 shows the claim; another first one refutes it, and a constant one does neither."""
    began, moved = still(1, 0, 1, 5, 5), still(1, 2, 3, 5, 5, log_start=3)

    assert storage.log_start_moves(recording([*began, *moved])).verdict == "shown"
    assert storage.log_start_moves(recording(moved)).verdict == "refuted"
    assert storage.log_start_moves(recording(began)).verdict == "not observable"


def test_log_starts_that_stay_apart_refute_their_equality() -> None:
    """Log starts that differ for more than half a second refute the claim; a silent replica decides nothing."""
    lead = [*still(1, 0, 0.9, 5, 5), *still(1, 1, 3, 5, 5, log_start=3)]
    soon = [*still(2, 0, 1.3, 5, 5), *still(2, 1.4, 3, 5, 5, log_start=3)]
    late = [*still(2, 0, 2, 5, 5), *still(2, 2.1, 3, 5, 5, log_start=3)]
    again = [sample._replace(received_ns=sample.received_ns + 50_000_000) for sample in lead]

    assert storage.log_starts_are_equal(recording([*lead, *soon])).verdict == "shown"
    assert storage.log_starts_are_equal(recording([*lead, *late])).verdict == "refuted"
    assert storage.log_starts_are_equal(recording([*lead, *again, *late])).verdict == "refuted"
    assert storage.log_starts_are_equal(recording([*lead, *late[:10]])).verdict == "not observable"  # it fell silent
    assert storage.log_starts_are_equal(recording(still(1, 0, 3, 5, 5))).verdict == "not observable"


def test_a_follower_above_the_hw_has_read_up_to_the_leo() -> None:
    """A follower's LEO above the HW shows the claim; a LEO equal to the HW, below the leader's, refutes it."""
    ahead = [*still(1, 0, 2, 5, 8), *still(2, 0, 2, 5, 8)]
    level = [*still(1, 0, 2, 8, 8), *still(2, 0, 2, 8, 8)]
    stopped = [*still(1, 0, 2, 5, 8), *still(2, 0, 2, 5, 5)]

    assert storage.followers_read_up_to_the_leo(recording(ahead)).verdict == "shown"
    assert storage.followers_read_up_to_the_leo(recording(stopped)).verdict == "refuted"
    assert storage.followers_read_up_to_the_leo(recording([*stopped, *still(3, 0, 2, 5, 8)])).verdict == "shown"
    assert storage.followers_read_up_to_the_leo(recording(level, [state(0)])).verdict == "not observable"
