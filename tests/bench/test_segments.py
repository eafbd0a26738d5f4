"""The benchmark of segment readers: all readers read the generated segments, and the page shows the results."""

import pytest

from bench.segments import DUMP, HEADERS_ONLY, KAFKA_PYTHON, OURS, PAGE, RESULTS, Row, generate, page, page_of, read
from kafka_files.batches import header_slices
from kafka_files.codecs import NAMES
from kafka_files.records import decode


@pytest.mark.parametrize("codec", NAMES)
def test_what_is_generated_is_a_segment(tmp_path, codec):
    """A generated segment has the requested size, and every record in its batches is sound."""
    found = generate(tmp_path / "segment", 100, codec, 50_000)
    data = found.file.read_bytes()
    parts = [part for headers in header_slices(data) for part in decode(data, headers)]

    assert [rows["problem"].tolist() for rows, _ in parts] == [[0, 0, 0]]
    assert parts[0].records["seq"].to_pylist() == list(range(found.records))
    assert parts[0].records["checksum_ok"].true_count == found.records == 444


@pytest.mark.parametrize("reader", [OURS, HEADERS_ONLY, KAFKA_PYTHON])
def test_readers_count_all_records(tmp_path, reader):
    """Each reader counts all records in its own process, which reports its seconds."""
    found = read(reader, generate(tmp_path / "segment", 1024, "none", 20_000))

    assert found.records == 15
    assert 0 < found.seconds < 60


def test_the_page_compares_speeds():
    """The page compares speeds; kafka-dump-log counts without the second of its JVM's start."""
    ours, dump, start = (
        Row(name, 100, "none", 120_000, 1000, [seconds], [2 * seconds], 3)
        for name, seconds in ((OURS, 1.0), (DUMP, 5.0), (DUMP, 1.0))
    )
    text = page([ours, dump], start, ours, 0.5)

    assert "| kafka_files | 100 B | none | 1,000 | 1,000 | 0 | 500 | 1.00 (1.00 to 1.00) |  |" in text
    assert f"| {DUMP} | 100 B | none | 1,000 | 250 | 0 | 125 | 5.00 (5.00 to 5.00) | 4.0 times as fast |" in text


def test_the_page_is_that_of_the_results():
    """The page is generated from the results."""
    assert PAGE.read_text() == page_of(RESULTS)
