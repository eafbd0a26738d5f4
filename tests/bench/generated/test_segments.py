"""Encoded segments, read back by the judge's reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.generated.plan import Plan, Planted
from bench.generated.segments import BatchEncoder, fill_values, small_batch, varint, write_log
from history.payload import encode
from kafka_files import records
from kafka_files.batches import headers, problem_text, whole_batches
from kafka_files.segments import read_segment

Row = dict[str, Any]


def written(plan: Plan, folder: Path, partition: int = 0) -> dict[str, list[Row]]:
    """Return the rows of a partition's log by broker."""
    places = [folder / f"broker-{n}" / "data" / f"orders-{partition}" for n in plan.assignment(partition)]
    for place in places:
        place.mkdir(parents=True)
    write_log(plan, plan.partition(partition), folder)
    return {
        place.parts[-3]: [
            row for f in sorted(place.iterdir()) for rows in read_segment("n", f) for row in rows.to_pylist()
        ]
        for place in places
    }


@pytest.mark.parametrize("size", [64, 100, 1024])
def test_values_are_those_of_the_payload(size: int) -> None:
    """Values equal the payload byte by byte, where the number's digits change and where the producers differ."""
    producers, names = np.array([0, 0, 1, 0, 1, 0]), ["producer-1", "p"]
    numbers = np.array([0, 9, 10, 99, 1234567890123, 10**12])
    out = np.empty((6, size), np.uint8)
    fill_values(out, names, producers, numbers)

    wanted = [encode(names[p], n, size) for p, n in zip(producers.tolist(), numbers.tolist(), strict=True)]
    assert [bytes(row) for row in out] == wanted


def test_every_replica_holds_the_whole_log(tmp_path: Path) -> None:
    """Every replica holds the whole log in segments named by offset; checksums and sequence numbers are right."""
    plan = Plan(1000, partitions=2, replicas=2, producers=2, segment_bytes=20_000)
    logs = written(plan, tmp_path, partition=1)
    rows = logs["broker-1"]
    producer, seq = plan.names(plan.partition(1), np.arange(500))

    assert logs["broker-2"] == rows
    assert [row["offset"] for row in rows] == list(range(500))
    assert [(row["producer_id"], row["seq"]) for row in rows] == [
        (f"producer-{p + 1}", s) for p, s in zip(producer.tolist(), seq.tolist(), strict=True)
    ]
    assert {(row["checksum_ok"], row["problem"], row["leader_epoch"]) for row in rows} == {(True, None, 0)}
    first = {
        name: min(row["offset"] for row in rows if row["segment"] == name) for name in {r["segment"] for r in rows}
    }
    assert len(first) > 2
    assert all(int(name.partition(".")[0]) == offset for name, offset in first.items())
    assert max(f.stat().st_size for f in tmp_path.rglob("*.log")) <= 20_000


def test_planted_cases_are_in_the_log(tmp_path: Path) -> None:
    """The log has no lost records; corrupt records fail only their own checksum.

    Copies and phantom records are at the end, without a Kafka producer id.
    """
    plan = Plan(1000, replicas=1, planted=Planted(lost=70, corrupt=2, duplicates=65, phantoms=1))
    part = plan.partition(0)
    rows = written(plan, tmp_path)["broker-1"]

    assert len(rows) == 1000 - 70 + 65 + 1
    assert [row["offset"] for row in rows if not row["checksum_ok"]] == part.corrupt.tolist()
    assert {row["problem"] for row in rows} == {None}
    assert not {row["offset"] for row in rows} & set(np.flatnonzero(plan.lost(part, np.arange(1000))).tolist())
    extra = [row for row in rows if row["offset"] >= 1000]
    assert [row["seq"] for row in extra] == [*part.duplicated.tolist(), 10**12]
    assert {row["kafka_producer_id"] for row in extra} == {None}


def test_sequence_numbers_follow_one_another_past_lost_records(tmp_path: Path) -> None:
    """Each producer's sequence numbers continue past lost records, so that the judge finds no gap."""
    plan = Plan(2000, replicas=1, producers=2, planted=Planted(lost=200))
    place = tmp_path / "broker-1" / "data" / "orders-0"
    place.mkdir(parents=True)
    write_log(plan, plan.partition(0), tmp_path)
    expected: dict[int, int] = {}
    for file in sorted(place.iterdir()):
        data = file.read_bytes()
        for batch in whole_batches(data):
            producer, sequence = int(batch["producer_id"]), int(batch["base_sequence"])
            assert sequence == expected.get(producer, sequence)
            expected[producer] = sequence + int(batch["record_count"])

    assert sum(expected.values()) == 1800


def test_small_batches_hold_any_values() -> None:
    """Small batches hold values of any size; a damaged batch fails its checksum."""
    data = small_batch(7, [b"a", b"b" * 300], 5)
    found = whole_batches(data)

    assert [(offset, value) for _, offset, value in records.values(data, found)] == [(7, b"a"), (8, b"b" * 300)]
    assert [problem_text(each) for each in whole_batches(data)] == [None]
    assert [problem_text(each) for each in headers(data[:-2] + b"x\0")] == ["bad crc"]


@pytest.mark.parametrize(("number", "encoded"), [(0, "00"), (-1, "01"), (63, "7e"), (64, "8001"), (300, "d804")])
def test_variable_length_integers(number: int, encoded: str) -> None:
    """Variable-length integers are zigzag, with seven bits in a byte."""
    assert varint(number).hex() == encoded


def test_a_batch_has_the_size_that_its_encoder_tells() -> None:
    """A batch has the size that its encoder states, for its number of records."""
    encoder = BatchEncoder(Plan(1000), 3)
    head = {"base_offset": np.array([0])}

    assert encoder.encode(head, np.zeros(3, np.int64), np.arange(3)).shape == (1, encoder.size)
