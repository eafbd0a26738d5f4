"""Segments leave the page cache of the host, other files stay."""

from pathlib import Path

from clusters.runtimes.page_cache import drop, resident_bytes

MB = 1_000_000


def test_segments_leave_the_page_cache_and_other_files_stay() -> None:
    """A segment that was just written is in memory, and is not afterwards; its index still is."""
    folder = Path(__file__).resolve().parents[3] / ".cache" / "page-cache-test"  # the temporary folder may be in memory
    partition = folder / "orders-0"
    partition.mkdir(parents=True, exist_ok=True)
    segment, index = partition / "00000000000000000000.log", partition / "00000000000000000000.index"
    try:
        for path in (segment, index):
            path.write_bytes(b"x" * MB)

        found = drop([folder])

        assert found["log_bytes"] == MB
        assert found["before_bytes"] >= MB
        assert found["after_bytes"] == resident_bytes(segment) == 0
        assert resident_bytes(index) >= MB
    finally:
        for path in (segment, index):
            path.unlink(missing_ok=True)
        partition.rmdir()
        folder.rmdir()


def test_an_empty_segment_holds_nothing(tmp_path: Path) -> None:
    """Nothing to map, nothing to drop."""
    (tmp_path / "00000000000000000000.log").touch()

    assert drop([tmp_path]) == {"before_bytes": 0, "after_bytes": 0, "log_bytes": 0}
