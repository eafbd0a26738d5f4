"""Read log segments as Arrow rows.

One row per record, control batch (``marker``) and unreadable place (``problem``), without internal topics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_files.batches import CONTROL, TRANSACTIONAL, Data, Headers, Problem, header_slices, mapped, problem_text
from kafka_files.records import Decoded, decode, marker

SEGMENTS = pa.schema(
    [
        pa.field("node", pa.string(), nullable=False),  # the exporting node's
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("segment", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),  # the batch's
        pa.field("batch_offset", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("producer_id", pa.string()),  # null: no test record
        pa.field("seq", pa.int64()),
        pa.field("checksum_ok", pa.bool_()),
        pa.field("crc", pa.int64()),
        pa.field("problem", pa.string()),  # batches.Problem, in words
        pa.field("last_offset", pa.int64()),  # the batch's
        pa.field("kafka_producer_id", pa.int64()),  # null: neither idempotent nor transactional
        pa.field("transactional", pa.bool_()),
        pa.field("marker", pa.string()),  # commit | abort | other: a control batch
    ]
)
_SEGMENT = re.compile(r"\d{20}\.log")
_REPLICA = re.compile(r"(?P<topic>(?!__).+)-(?P<partition>\d+)")
_OF_RECORD = ("offset", "producer", "seq", "checksum_ok")


def segment_files(folder: Path) -> list[Path]:
    """Return all segments below a folder, without internal topics."""
    found = (file for file in folder.rglob("*.log") if _SEGMENT.fullmatch(file.name))
    return sorted(file for file in found if _REPLICA.fullmatch(file.parent.name))


def read_segment(node: str, file: Path) -> Iterator[pa.RecordBatch]:
    """Yield a segment as rows of ``SEGMENTS``; damage never raises."""
    replica = _REPLICA.fullmatch(file.parent.name)
    assert replica is not None, file
    where = {"node": node, "topic": replica["topic"], "partition": int(replica["partition"]), "segment": file.name}
    with mapped(file) as data:
        for headers in header_slices(data):
            for decoded in decode(data, headers):
                columns = columns_of(data, decoded)
                rows = len(columns["position"])
                shared = {
                    name: pa.repeat(pa.scalar(value, SEGMENTS.field(name).type), rows) for name, value in where.items()
                }
                columns |= shared | {"producer_id": columns["producer_id"].cast(pa.string())}
                yield pa.RecordBatch.from_arrays([columns[field.name] for field in SEGMENTS], schema=SEGMENTS)


def columns_of(data: Data, decoded: Decoded) -> dict[str, pa.Array]:
    """Return the columns of ``SEGMENTS`` that rows of a segment do not share; ``producer_id`` is a dictionary."""
    headers, records = decoded
    bare = (headers["problem"] != 0) | (headers["attributes"] & CONTROL != 0)  # one row without a record
    of_record = records["batch"].to_numpy()
    batch = np.concatenate([of_record, np.flatnonzero(bare)])
    in_order = np.argsort(batch, kind="stable")
    batch = batch[in_order]
    record = np.where(in_order < len(of_record), in_order, -1)
    columns = {name: _taken(records[name], record) for name in _OF_RECORD}
    columns["producer_id"] = columns.pop("producer")
    torn = headers["problem"] == Problem.TORN_TAIL  # header missing or invalid
    of_batch = {
        "position": pa.array(headers["position"]),
        "batch_offset": pa.array(headers["base_offset"], mask=torn),
        "leader_epoch": pa.array(headers["leader_epoch"], mask=torn),
        "crc": pa.array(headers["crc"], pa.int64(), mask=torn),
        "last_offset": pa.array(headers["base_offset"] + headers["last_offset_delta"], mask=torn),
        "kafka_producer_id": pa.array(headers["producer_id"], mask=torn | (headers["producer_id"] < 0)),
        "transactional": pa.array(~torn & (headers["attributes"] & TRANSACTIONAL != 0)),
        "problem": _texts(headers, bare, problem_text),
        "marker": _texts(headers, bare & (headers["problem"] == 0), partial(marker, data)),
    }
    return columns | {name: column.take(pa.array(batch)) for name, column in of_batch.items()}


def _texts(headers: Headers, named: npt.NDArray[np.bool_], text: Callable[[np.void], str | None]) -> pa.Array:
    return pa.array([text(header) if of else None for header, of in zip(headers, named, strict=True)], pa.string())


def _taken(column: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
    return column.take(pa.array(rows, pa.int64(), mask=rows < 0))
