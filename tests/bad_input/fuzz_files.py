"""Fuzz every reader of external files, guided by coverage: ``python -m tests.bad_input.fuzz_files MINUTES [TARGET …]``.

Findings are exceptions other than the reader's own error, more than ``INPUT_LIMIT_S`` of CPU time per input, and more
than ``MEMORY_MB``. docs/data/fuzz_files.json adds up calls; the corpus stays in ``.cache/fuzz``. Needs
``requirements-fuzz.lock``.
"""

from __future__ import annotations

import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from history.errors import BadInput
from kafka_files import broker_log, checkpoints, indexes, metadata_log, segments, znodes
from kafka_files.aborted import without_aborted
from kafka_files.batches import header_slices, whole_batches
from kafka_files.clock import Clock, read_clock
from kafka_files.codecs import CodecError, decompress_into
from kafka_files.states import up_to_damage
from tests.rows import DATA, ROOT, Row, read, today, write

RESULTS = DATA / "fuzz_files.json"
CACHE = ROOT / ".cache" / "fuzz"
EXAMPLES = ROOT / "docs" / "examples"
RECORDED = ROOT / "tests" / "kafka_files" / "recorded"
INPUT_LIMIT_S = 5
START_S = 5
MEMORY_MB = 2048
MAX_BYTES = 1 << 14  # per input
MOST_RUNS = 100_000  # per process: atheris keeps about 9 kB per input
_CLOCK = Clock([(0, 0), (1_000_000_000, 5)])


class Target(NamedTuple):
    """A reader, the kind of file, and the seeds of its inputs."""

    kind: str
    read: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]


# --- readers -----------------------------------------------------------------------------------------


def _in_file(read: Callable[[Path], object], data: bytes, name: str = "file") -> object:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = Path(folder) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return read(file)


def _segment(data: bytes) -> object:
    return _in_file(lambda file: list(segments.read_segment("broker-1", file)), data, f"orders-0/{'0' * 20}.log")


def _sound_segment(data: bytes) -> object:
    """Correct all checksums, to reach the code behind them."""
    return _segment(_with_checksums(data))


def _with_checksums(data: bytes) -> bytes:
    from kafka_files.batches import CRC_AT, CRC_FROM, crc_of

    sound = bytearray(data)
    for header in whole_batches(data):
        start, end = int(header["position"]), int(header["position"] + header["size"])
        struct.pack_into(">I", sound, start + CRC_AT, crc_of(data, start + CRC_FROM, end))
    return bytes(sound)


def _aborted(data: bytes) -> object:
    sound = _with_checksums(data)
    producers = [(producer, offset) for producer in (-1, 0, 1000, 2000) for offset in (0, 3)]
    return [without_aborted(headers, sound, producers) for headers in header_slices(sound)]


def _index(data: bytes) -> object:
    third = len(data) // 3
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        for part, suffix in enumerate((".index", ".timeindex", ".log")):
            (folder / f"{'0' * 20}{suffix}").write_bytes(data[part * third : (part + 1) * third])
        found = indexes.segments_of(folder)
        ways = (indexes.by_offset, indexes.by_time)
        return [way(segment, at) for segment in found for way in ways for at in (-1, 0, 5, 2**40)]


def _checkpoint(data: bytes) -> object:
    return _in_file(lambda file: (checkpoints.read_epochs(file), checkpoints.read_offsets(file)), data)


def _metadata_record(data: bytes) -> object:
    """Length bytes cut the input into records."""
    values = [bytes.fromhex(_TOPIC), bytes.fromhex(_CREATED)]
    while data:
        size, data = data[0], data[1:]
        values.append(data[:size])
        data = data[size:]
    return _metadata_log(b"".join(_batch(number, value) for number, value in enumerate(values)))


def _metadata_log(data: bytes) -> object:
    return _in_file(lambda file: metadata_log.history([file], _CLOCK), data, f"{0:020}.log")


def _znodes(data: bytes) -> object:
    return up_to_damage(znodes.states(znodes.writes(data), _CLOCK))


def _broker_log(data: bytes) -> object:
    return [broker_log.parse(line) for line in data.decode(errors="replace").splitlines()]


def _clock(data: bytes) -> object:
    return _in_file(read_clock, data).monotonic_ns(5)  # type: ignore[attr-defined]


def _codec(data: bytes) -> object:
    import numpy as np

    try:
        return decompress_into(data[0] % 5 if data else 0, data[1:], np.empty(1 << 16, np.uint8))
    except CodecError:
        return None


def _history(origin: str, data: bytes) -> object:
    from imports.formats import READERS
    from imports.records import History, tables

    def read(file: Path) -> object:
        try:
            found = READERS[origin]([file])  # type: ignore[index]
            return tables(found, "all", "read_committed") if isinstance(found, History) else found
        except BadInput:
            return None

    return _in_file(read, data)


# --- seeds -------------------------------------------------------------------------------------------

_ID = "d8a7e1486a0f4ff4a7190e5b7c06b4e9"
_TOPIC = "010200076f7264657273" + _ID + "00"
_CREATED = (
    f"01030100000000{_ID}040000000100000002000000030400000001000000020000000301010000000100000000000000000453458dd1b9"
    "5ea9f1a77a709514edd8dc8ffeda93c28d63a64ad650728c43c030e105cf33218770c7badbe31e2955eb5300"
)
_CHANGES = [
    f"01050100000000{_ID}010009030000000100000003",
    f"01050100000000{_ID}0300050200000002010400000002050101",
    f"01050200000000{_ID}0300010106050200000002070101",
]
_LOG_LINES = """\
[2026-01-01T00:00:00.123+0000] x
2026-01-01T00:00:00.123+0000 [x] INFO k.c.P - [Partition orders-0 broker=1] Shrinking ISR from 1,2,3 to 1,2. \
Leader: (highWatermark: 5, endOffset: 9)
2026-01-01T00:00:00.123+0000 [x] INFO k.c.P - [Partition orders-0 broker=1] ISR updated to 1,2 (under-min-isr) and \
version updated to 7
2026-01-01T00:00:00.123+0000 [x] INFO s.c.l - [Broker id=1] Leader orders-0 with topic id x starts at leader epoch 3 \
from offset 9 with partition epoch 4, high watermark 5, ISR [1,2]
2026-01-01T00:00:00.123+0000 [x] WARN k.l.U - [UnifiedLog partition=orders-0, dir=/x] Truncating to offset 5
2026-01-01T00:00:00.123+0000 [x] WARN k.l.U - [UnifiedLog partition=orders-0, dir=/x] Non-monotonic update of high \
watermark from (offset=9, x) to (offset=5, x)
"""


def _batch(offset: int, value: bytes) -> bytes:
    from clusters.kafka.producing import record_batch

    data = bytearray(record_batch([value], 1000))
    struct.pack_into(">q", data, 0, offset)
    return bytes(data)


@cache
def _logs() -> Sequence[bytes]:
    found = [file.read_bytes()[: MAX_BYTES - 1] for file in sorted(RECORDED.glob("*.log"))]
    return [*found, b"".join(_batch(number, b"v") for number in range(3))]


def _index_seeds() -> Sequence[bytes]:
    log = b"".join(_batch(number, b"v") for number in range(3))
    size = len(log)
    index = struct.pack(">iiii", 1, size // 3, 2, 2 * size // 3)
    times = struct.pack(">qiqi", 1000, 0, 1001, 2)
    return [index.ljust(size, b"\0") + times.ljust(size, b"\0") + log]


def _metadata_log_seeds() -> Sequence[bytes]:
    return [_batch(0, bytes.fromhex(_TOPIC)) + _batch(1, bytes.fromhex(_CREATED))]


def _metadata_seeds() -> Sequence[bytes]:
    values = [bytes.fromhex(value) for value in (_TOPIC, _CREATED, *_CHANGES)]
    return [bytes([len(value)]) + value for value in values if len(value) < 256]


def _znode_seeds() -> Sequence[bytes]:
    topic, state = b"/brokers/topics/orders", b"/brokers/topics/orders/partitions/0/state"
    of_topic = b'{"version":3,"partitions":{"0":[1,2,3]},"adding_replicas":{},"removing_replicas":{"0":[1]}}'
    of_state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,3]}'

    def sized(data: bytes) -> bytes:
        return struct.pack(">i", len(data)) + data

    def entry(kind: int, body: bytes) -> bytes:
        return bytes(8) + sized(struct.pack(">qiqqi", 1, 1, 1, 1000, kind) + body) + b"B"

    created, put = sized(topic) + sized(of_topic) + bytes(4), sized(state) + sized(of_state) + bytes(4)
    several = struct.pack(">ii", 1, 5) + sized(put)
    return [b"ZKLG" + bytes(12) + entry(1, created) + entry(1, put) + entry(5, put) + entry(14, several)]


def _codec_seeds() -> Sequence[bytes]:
    import cramjam

    plain = b"some records, some records, some records"
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    snappy = bytes(cramjam.snappy.compress_raw(plain))
    return [
        b"\1" + bytes(cramjam.gzip.compress(plain)),
        b"\2" + snappy,
        b"\2" + framed + struct.pack(">i", len(snappy)) + snappy,
        b"\3" + bytes(cramjam.lz4.compress(plain)),
        b"\4" + bytes(cramjam.zstd.compress(plain)),
    ]


def _example(name: str) -> Sequence[bytes]:
    return [(EXAMPLES / name).read_bytes(), *(EXAMPLES / name).read_bytes().splitlines()]


TARGETS: Mapping[str, Target] = {
    "segments": Target("segment", _segment, _logs),
    "segments, checksums right": Target("segment", _sound_segment, _logs),
    "aborted transactions": Target("segment", _aborted, _logs),
    "codecs": Target("segment", _codec, _codec_seeds),
    "indexes": Target("index", _index, _index_seeds),
    "checkpoints": Target("checkpoint", _checkpoint, lambda: [b"0\n2\n0 0\n3 17\n", b"0\n1\norders 0 17\n"]),
    "metadata log": Target("metadata log", _metadata_log, _metadata_log_seeds),
    "metadata records": Target("metadata log", _metadata_record, _metadata_seeds),
    "ZooKeeper's log": Target("ZooKeeper's log", _znodes, _znode_seeds),
    "broker log": Target("broker log", _broker_log, lambda: [_LOG_LINES.encode(), *_LOG_LINES.encode().splitlines()]),
    "clock": Target("clock", _clock, lambda: [b'{"wall": "2026-01-01T00:00:00+00:00", "t_ns": 5}\n']),
} | {
    f"history: {origin}": Target(f"history: {origin}", partial(_history, origin), partial(_example, file))
    for origin, file in (
        ("operations", "operations.jsonl"),
        ("verifiable", "verifiable.json"),
        ("ledger", "ledger.jsonl"),
        ("jepsen", "jepsen.edn"),
    )
}


# atheris measures only modules imported within its block
_CHILD = """
import sys
import atheris
with atheris.instrument_imports(include=["kafka_files", "imports", "history", "edn_format", "json"]):
    import imports.jepsen
    from tests.bad_input import fuzz_files
fuzz_files.fuzz(sys.argv[1], sys.argv[2:])
"""

_ALONE = """
import sys
from tests.bad_input import fuzz_files
fuzz_files.TARGETS[sys.argv[1]].read(open(sys.argv[2], "rb").read())
"""

# --- running -----------------------------------------------------------------------------------------


def fuzz(target: str, arguments: Sequence[str]) -> None:
    """Fuzz a target in this process until libFuzzer ends it."""
    import atheris

    atheris.Setup([sys.argv[0], *arguments], TARGETS[target].read)
    atheris.Fuzz()


def run(target: str, minutes: float) -> Row:
    """Fuzz a target in a new process and return its row."""
    name = re.sub(r"\W+", "-", target)
    corpus, crashes = CACHE / name / "corpus", CACHE / name / "crashes"
    for folder in (corpus, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(TARGETS[target].seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    before = set(crashes.iterdir())
    limits = [f"-runs={MOST_RUNS}", f"-timeout={INPUT_LIMIT_S}", f"-rss_limit_mb={MEMORY_MB}", f"-max_len={MAX_BYTES}"]
    inputs, began_s, used_s = 0, time.monotonic(), _cpu_s()
    while (left_s := minutes * 60 - (time.monotonic() - began_s)) > 1 and len(set(crashes.iterdir()) - before) < 20:
        options = [f"-max_total_time={int(left_s)}", *limits, f"-artifact_prefix={crashes}/", "-print_final_stats=1"]
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, target, *options, str(corpus)],
            capture_output=True, text=True, errors="replace", cwd=ROOT, check=False,
        )  # fmt: skip
        told = re.findall(r"number_of_executed_units: (\d+)", done.stderr) or re.findall(
            r"^#(\d+)\t", done.stderr, re.M
        )
        if not told:
            raise RuntimeError(done.stderr[-2000:])
        inputs += int(told[-1])
        (CACHE / name / "last.log").write_text(done.stdout + done.stderr)
    for slow in set(crashes.glob("timeout-*")) - before:  # wall-clock time also passes while others have the CPU
        if not uses_cpu_for(INPUT_LIMIT_S + START_S, [sys.executable, "-c", _ALONE, target, str(slow)]):
            slow.unlink()
    found = set(crashes.iterdir()) - before
    return {
        "target": target,
        "minutes": round((_cpu_s() - used_s) / 60, 2),
        "inputs": inputs,
        "crashes": len(found),
        "corpus": len(list(corpus.iterdir())),
        "date": today(),
    }


def uses_cpu_for(limit_s: int, command: Sequence[str]) -> bool:
    """Return whether a command exceeds a limit of CPU time."""
    ended = subprocess.run(["prlimit", f"--cpu={limit_s}", *command], cwd=ROOT, capture_output=True, check=False)
    return ended.returncode in {-signal.SIGXCPU, -signal.SIGKILL}


def _cpu_s() -> float:
    """A fuzzer that waits for a core tries nothing."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def added(told: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> list[Row]:
    """Add one call's counts; ``clean_minutes`` counts from the last crash."""
    kept = {each["target"]: dict(each) for each in told}
    before = kept.get(str(row["target"]), {})
    clean = 0.0 if row["crashes"] else before.get("clean_minutes", 0.0) + row["minutes"]
    sums = {name: before.get(name, 0) + row[name] for name in ("minutes", "inputs", "crashes")}
    kept[str(row["target"])] = {**row, **sums, "minutes": round(sums["minutes"], 2), "clean_minutes": round(clean, 2)}
    return list(kept.values())


def main(arguments: Sequence[str]) -> int:
    """Fuzz all or the named targets; return the number of crashes."""
    minutes, names = float(arguments[0]), arguments[1:] or list(TARGETS)
    crashed = 0
    for name in names:
        row = run(name, minutes)
        write(RESULTS, added(read(RESULTS), row))
        print(f"{name}: {row['inputs']} inputs in {row['minutes']} min, {row['crashes']} crashes")
        crashed += row["crashes"]
    return crashed


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
