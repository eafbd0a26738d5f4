"""Compare how fast our reader, kafka-dump-log and kafka-python read segments: ``python -m bench.segments``.

Writes docs/data/segments.json and docs/dev/segments.md. kafka-dump-log's time includes the JVM start, measured on one
batch; the others' begin after their imports. All verify batch CRCs; only ours also decodes and verifies payloads.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import cramjam
import google_crc32c

from clusters.kafka.jars import kafka_jars
from history.java import java_of
from history.payload import encode
from kafka_files.batches import HEADER
from kafka_files.codecs import NAMES

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "data" / "segments.json"
PAGE = ROOT / "docs" / "dev" / "segments.md"

ROUNDS = 5
KAFKA = "3.9.1"  # the last line with kafka-dump-log in the core jar
BATCH_BYTES = 16_384  # Kafka's batch.size
SEGMENT_BYTES = 24_000_000  # a minute for the slower readers
OUR_BYTES = 128_000_000  # shows our speed beyond the first slice
LARGE_BYTES = 1 << 30  # Kafka's log.segment.bytes
SIZES = (100, 1024)
OURS, HEADERS_ONLY, DUMP, DUMP_BATCHES, KAFKA_PYTHON = (
    "kafka_files",
    "kafka_files, headers",
    f"kafka-dump-log {KAFKA} --deep-iteration",
    f"kafka-dump-log {KAFKA}, batches",
    "kafka-python",
)
# LZ4 version 1, independent blocks (Java reads no others) of up to 64 KiB, and the checksum of these two bytes.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK = 1 << 16
COMPARED = {DUMP: OURS, KAFKA_PYTHON: OURS, DUMP_BATCHES: HEADERS_ONLY}
_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": lambda data: gzip.compress(data, 6),
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "lz4": lambda data: _lz4_frame(data),  # noqa: PLW0108  # defined below
    "zstd": lambda data: bytes(cramjam.zstd.compress(data, 3)),
}
# Prints the number of records, the seconds, and the memory growth.
_SCRIPT = """
import re, sys, time
from pathlib import Path
{imports}
def memory():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
file, before, most = Path(sys.argv[1]), memory(), 0
began, cpu = time.perf_counter(), time.process_time()
{body}
print(count, time.perf_counter() - began, time.process_time() - cpu, max(most, memory()) - before)
"""
_SCRIPTS = {
    OURS: _SCRIPT.format(
        imports="from kafka_files.batches import header_slices, mapped\nfrom kafka_files.records import decode",
        body="""
count = 0
with mapped(file) as data:
    for headers in header_slices(data):
        for rows, records in decode(data, headers):
            assert not rows["problem"].any()
            assert records["checksum_ok"].true_count == len(records)
            count += len(records)
            most = max(most, memory())
""",
    ),
    HEADERS_ONLY: _SCRIPT.format(
        imports="from kafka_files.batches import header_slices, mapped",
        body="""
with mapped(file) as data:
    count = sum(int(headers["record_count"].sum()) for headers in header_slices(data))
""",
    ),
    KAFKA_PYTHON: _SCRIPT.format(
        imports="from kafka.record import MemoryRecords",
        body="""
batches, count = MemoryRecords(file.read_bytes()), 0
while batches.has_next():
    batch = batches.next_batch()
    assert batch.validate_crc()
    count += sum(1 for _ in batch)
""",
    ),
}


class Segment(NamedTuple):
    """A generated segment."""

    file: Path
    records: int
    value_bytes: int
    codec: str


class Reading(NamedTuple):
    """One process that read one segment."""

    records: int
    seconds: float
    cpu_s: float
    grown_mib: int  # anonymous memory, without the mapped file; 0 for kafka-dump-log


@dataclass(frozen=True)
class Row:
    """A reader's results on a segment, over all rounds."""

    reader: str
    value_bytes: int
    codec: str
    file_bytes: int
    records: int
    seconds: list[float]
    cpu_s: list[float]
    grown_mib: int


def varint(number: int) -> bytes:
    """Encode a zigzag variable-length integer."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def batch(base_offset: int, values: list[bytes], codec: str) -> bytes:
    """Encode a batch as an idempotent producer does, ten records per millisecond."""
    body = bytearray()
    for delta, value in enumerate(values):
        record = b"\0" + varint(delta // 10) + varint(delta) + varint(-1) + varint(len(value)) + value + b"\0"
        body += varint(len(record)) + record
    packed, count, first_ms = _COMPRESS[codec](bytes(body)), len(values), 1_700_000_000_000 + base_offset // 10
    last_ms, length = first_ms + count // 10, HEADER.size - 12 + len(packed)
    head = base_offset, length, 0, 2, 0, NAMES.index(codec), count - 1, first_ms, last_ms, 7, 0, base_offset, count
    crc = google_crc32c.value(HEADER.pack(*head)[21:] + packed)
    return HEADER.pack(*head[:4], crc, *head[5:]) + packed


def _lz4_frame(data: bytes) -> bytes:
    frame = bytearray(_LZ4_HEADER)
    for at in range(0, len(data), _LZ4_BLOCK):
        block = bytes(cramjam.lz4.compress_block(data[at : at + _LZ4_BLOCK], store_size=False))
        frame += len(block).to_bytes(4, "little") + block
    return bytes(frame + bytes(4))


def generate(file: Path, value_bytes: int, codec: str, size: int = SEGMENT_BYTES) -> Segment:
    """Write a segment of about ``size`` bytes of values."""
    per_batch = max(BATCH_BYTES // (value_bytes + 10), 1)
    records = size // value_bytes // per_batch * per_batch
    with file.open("wb") as out:
        for first in range(0, records, per_batch):
            values = [encode("load-1", seq, value_bytes) for seq in range(first, first + per_batch)]
            out.write(batch(first, values, codec))
    return Segment(file, records, value_bytes, codec)


def read(reader: str, segment: Segment) -> Reading:
    """Read a segment in a new process.

    Raises:
        subprocess.CalledProcessError: the reader failed or did not find all records.
    """
    if reader in (DUMP, DUMP_BATCHES):
        return _dump(segment, deep=reader == DUMP)
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPTS[reader], str(segment.file)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        check=True,
        capture_output=True,
        text=True,
    )
    count, seconds, cpu_s, grown = done.stdout.split()
    if int(count) != segment.records:
        raise subprocess.CalledProcessError(1, reader, done.stdout)
    return Reading(int(count), float(seconds), float(cpu_s), int(grown))


def _dump(segment: Segment, *, deep: bool) -> Reading:
    options = ["--deep-iteration"] if deep else []
    command = [
        *(str(java_of().command), "-Xmx1g", "-cp", f"{kafka_jars(KAFKA)}/*", "kafka.tools.DumpLogSegments"),
        *("--files", str(segment.file), *options),
    ]
    began, cpu = time.perf_counter(), _children_cpu_s()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return Reading(segment.records, time.perf_counter() - began, _children_cpu_s() - cpu, 0)


def _children_cpu_s() -> float:
    used = os.times()
    return used.children_user + used.children_system


def plan(folder: Path) -> Iterator[tuple[Segment, list[str]]]:
    """Yield the segments with their readers."""
    for value_bytes in SIZES:
        for codec in NAMES:
            (folder / f"{value_bytes}-{codec}").mkdir()
            file = folder / f"{value_bytes}-{codec}" / f"{0:020}.log"
            yield generate(file, value_bytes, codec, OUR_BYTES), [OURS, HEADERS_ONLY] if codec == "none" else [OURS]
        (folder / f"{value_bytes}").mkdir()
        readers = [OURS, HEADERS_ONLY, DUMP, DUMP_BATCHES, KAFKA_PYTHON]
        yield generate(folder / f"{value_bytes}" / f"{0:020}.log", value_bytes, "none"), readers


def measure(rounds: int = ROUNDS) -> tuple[list[Row], Row, Row]:
    """Return all rows, kafka-dump-log on one batch, and our reader on 1 GiB."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-segments-") as scratch:
        folder = Path(scratch)
        (folder / "start").mkdir()
        start = generate(folder / "start" / f"{0:020}.log", 1024, "none", 20_000)
        segments = list(plan(folder))
        readings: dict[tuple[Segment, str], list[Reading]] = {}
        starts = []
        for _ in range(rounds):
            for segment, readers in segments:
                for reader in readers:
                    readings.setdefault((segment, reader), []).append(read(reader, segment))
            starts.append(read(DUMP, start))
        rows = [_row(reader, segment, found) for (segment, reader), found in readings.items()]
        (folder / "large").mkdir()
        large = generate(folder / "large" / f"{0:020}.log", 1024, "none", LARGE_BYTES)
        return rows, _row(DUMP, start, starts), _row(OURS, large, [read(OURS, large) for _ in range(3)])


def _row(reader: str, segment: Segment, found: list[Reading]) -> Row:
    return Row(
        reader,
        segment.value_bytes,
        segment.codec,
        segment.file.stat().st_size,
        segment.records,
        [round(each.seconds, 3) for each in found],
        [round(each.cpu_s, 3) for each in found],
        max(each.grown_mib for each in found),
    )


def page(rows: list[Row], start: Row, large: Row, load: float) -> str:
    """Return the results as Markdown."""
    by_reader = {(row.value_bytes, row.file_bytes, row.reader): row for row in rows}
    lines = [
        _line(row, by_reader.get((row.value_bytes, row.file_bytes, COMPARED.get(row.reader, ""))), start)
        for row in rows
    ]
    sizes = sorted({round(row.records * row.value_bytes / 1e6) for row in rows})
    return f"""# How fast segments are read

Measured on {os.cpu_count()} cores, shared with other work (load average {load:.1f} at the start). Each reading is a
process that reads a segment in the page cache; readers took turns for {len(rows[0].seconds)} rounds.
`python -m bench.segments` measures again; [segments.json](../data/segments.json) has the numbers.

| reader | value | codec | records | records/s | MB/s | records/CPU s | median seconds (range) | kafka_files is |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(lines)}

Segments hold {" or ".join(map(str, sizes))} MB of values in batches of 16 KiB. All readers verify each batch's CRC-32C.
kafka_files also decodes and verifies payloads; "headers" reads batches only. kafka-dump-log prints to /dev/null; its
seconds include the JVM's start ({median(start.seconds):.1f} s on a segment of one batch), its speed does not (blank:
the start takes all of it). kafka-python needs other libraries for Snappy, LZ4 and Zstandard, and read plain segments
only.

kafka_files read a segment of 1 GiB (values of 1 KiB) in {median(large.seconds):.1f} s,
{large.file_bytes / 1e6 / median(large.seconds):,.0f} MB/s. Its memory grew by at most {large.grown_mib} MiB, without
the mapped file's pages.
"""


def _line(row: Row, ours: Row | None, start: Row) -> str:
    """kafka-dump-log's speed excludes the start of its JVM."""
    speed, per_cpu_s = _speeds(row, start)
    is_start = row.reader in (DUMP, DUMP_BATCHES) and median(row.seconds) < median(start.seconds) + 0.05
    cells = [
        row.reader,
        f"{row.value_bytes} B",
        row.codec,
        f"{row.records:,}",
        *(
            ["", "", ""]
            if is_start
            else [f"{speed:,.0f}", f"{speed * row.value_bytes / 1e6:,.0f}", f"{per_cpu_s:,.0f}"]
        ),
        f"{median(row.seconds):.2f} ({min(row.seconds):.2f} to {max(row.seconds):.2f})",
        f"{_speeds(ours, start)[0] / speed:.1f} times as fast" if ours and not is_start else "",
    ]
    return f"| {' | '.join(cells)} |"


def _speeds(row: Row, start: Row) -> tuple[float, float]:
    starts = (start.seconds, start.cpu_s) if row.reader in (DUMP, DUMP_BATCHES) else ([0.0], [0.0])
    wall, cpu = (median(all_of) - median(its) for all_of, its in zip((row.seconds, row.cpu_s), starts, strict=True))
    return row.records / max(wall, 0.01), row.records / max(cpu, 0.01)


def page_of(results: Path) -> str:
    """Return the page of stored results."""
    told = json.loads(results.read_text())
    return page([Row(**row) for row in told["rows"]], Row(**told["start"]), Row(**told["large"]), told["load"])


def main() -> list[Row]:
    """Measure everything, write the page, and return all rows."""
    load = os.getloadavg()[0]
    rows, start, large = measure()
    told = {"load": load, "start": asdict(start), "rows": [asdict(row) for row in rows], "large": asdict(large)}
    RESULTS.write_text(json.dumps(told, indent=1) + "\n")
    PAGE.write_text(page_of(RESULTS))
    print(PAGE.read_text())
    return rows


if __name__ == "__main__":
    main()
