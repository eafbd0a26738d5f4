"""Write the tables of a generated run as Parquet, a row group or more per partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.generated.plan import CHUNK_RECORDS, DRAIN_GAP_NS, MS, TOPIC, Ints, PartitionPlan, Plan, is_in
from history.folder import RunFolder
from history.tables import ISR, OFFSETS, PHASE_START, POLLS, RECORDED, REPLICAS, SENDS, USAGE

CONSUMER, DRAIN, PROBER = "consumer", "drain", "prober"
PHASES = ("steady", "a follower is stopped")
FAULT = "pause"
Columns = Mapping[str, Any]


@contextmanager
def _file(path: Path, schema: pa.Schema) -> Iterator[Any]:
    """Single strings are dictionary-encoded."""
    path.parent.mkdir(exist_ok=True)
    strings = [field.name for field in schema if field.type == pa.string()]
    stored = pa.schema(
        [
            field.with_type(pa.dictionary(pa.int16(), pa.string())) if field.name in strings else field
            for field in schema
        ]
    )
    with pq.ParquetWriter(path, stored, compression="zstd", use_dictionary=strings, store_schema=False) as writer:

        def write(columns: Columns, rows: int) -> None:
            arrays = [_array(columns.get(field.name), field, rows) for field in stored]
            writer.write_table(pa.Table.from_arrays(arrays, schema=stored), row_group_size=max(rows, 1))

        yield write


def _array(value: Any, field: pa.Field, rows: int) -> pa.Array:
    if value is None:
        return pa.nulls(rows, field.type)
    if isinstance(value, pa.Array):
        return value
    if isinstance(value, str):
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int16)), pa.array([value]))
    if not isinstance(value, np.ndarray):
        value = np.full(rows, value)
    return pa.array(value.astype(field.type.to_pandas_dtype(), copy=False))


def _named(values: Sequence[str], which: Ints) -> pa.Array:
    """Return strings by index; -1 is null."""
    return pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int16), mask=which < 0), pa.array(values))


def _masked(values: Ints, absent: Any) -> pa.Array:
    return pa.array(values, mask=absent)


# --- what clients saw ----------------------------------------------------------------------------


def write_sends(plan: Plan, folder: RunFolder) -> list[int]:
    """Write each producer's ledger and return the row counts."""
    return [_write_ledger(plan, folder, producer) for producer in range(plan.producers)]


def _write_ledger(plan: Plan, folder: RunFolder, producer: int) -> int:
    name, rows = plan.producer_ids[producer], 0
    with _file(folder.table("sends") / f"sends-{name}.parquet", SENDS) as write:
        for part in map(plan.partition, range(plan.partitions)):
            sent = plan.sent_by(part, producer)
            for low in range(0, sent, CHUNK_RECORDS):
                own = np.arange(low, min(low + CHUNK_RECORDS, sent))
                write(_sends(plan, part, producer, own), len(own))
            rows += sent
    return rows


def _sends(plan: Plan, part: PartitionPlan, producer: int, own: Ints) -> Columns:
    turn, place = np.divmod(own, plan.batch_records)
    numbers = (turn * plan.producers + producer) * plan.batch_records + place
    failed, due = is_in(numbers, part.aborted), plan.due(part, numbers)
    return {
        "producer_id": plan.producer_ids[producer],
        "seq": own * plan.partitions + part.number,
        "topic": TOPIC,
        "partition": part.number,
        "due_ns": due,
        "sent_ns": due + MS // 10,
        "done_ns": plan.committed(part, numbers) + 1 * MS,
        "outcome": _named(["ok", "fail"], failed.astype(np.int64)),
        "error": _named(["InvalidRecordError"], failed.astype(np.int64) - 1),
        "offset": _masked(numbers, failed),
        "acks": "all",
        "record_bytes": plan.record_bytes,
    }


def write_live(plan: Plan, folder: RunFolder) -> int:
    """Write the live consumer's polls, the partitions in turn."""
    parts = [plan.partition(number) for number in range(plan.partitions)]
    counts = np.array([part.end_offset - _lost(plan, part) + 2 * len(part.reordered) for part in parts])
    turns = _InTurns(counts)
    with _file(folder.table("polls") / f"polls-{CONSUMER}.parquet", POLLS) as write:
        for part in parts:
            turn = 0
            for slots in _read(plan, part):
                rows = _going_back(slots, part.reordered)
                position = turns.position(part.number, np.arange(turn, turn + len(rows)))
                at_ns = plan.committed(part, rows) + 2 * MS
                write(_polls(plan, part, rows, reader=CONSUMER, position=position, at_ns=at_ns), len(rows))
                turn += len(rows)
    return int(counts.sum())


def write_drain(plan: Plan, folder: RunFolder) -> int:
    """Write the final drain's polls, partition after partition."""
    at = 0
    with _file(folder.table("polls") / f"polls-{DRAIN}.parquet", POLLS) as write:
        for part in map(plan.partition, range(plan.partitions)):
            for slots in _read(plan, part):
                position = np.arange(at, at + len(slots))
                at_ns = plan.drained_from_ns + position * DRAIN_GAP_NS
                write(_polls(plan, part, slots, reader=DRAIN, position=position, at_ns=at_ns), len(slots))
                at += len(slots)
    return at


def _lost(plan: Plan, part: PartitionPlan) -> int:
    return len(part.lost_batches) * plan.batch_records + part.cut_records


def _read(plan: Plan, part: PartitionPlan) -> Iterator[Ints]:
    for low in range(0, part.end_offset, CHUNK_RECORDS):
        slots = np.arange(low, min(low + CHUNK_RECORDS, part.end_offset))
        kept = slots[~plan.lost(part, slots)]
        if len(kept):
            yield kept


def _going_back(slots: Ints, reordered: Ints) -> Ints:
    """Read each of ``reordered`` and its next record twice."""
    if not len(reordered):
        return slots
    back = is_in(slots, reordered)
    twice = back.copy()
    twice[1:] |= back[:-1]
    rows = np.repeat(slots, 1 + twice)
    first = np.flatnonzero(back) + 2 * np.arange(int(back.sum()))  # two extra rows for each earlier one
    rows[first + 1], rows[first + 2] = rows[first + 2], rows[first + 1].copy()
    return rows


class _InTurns:
    """The positions of records, if a reader takes the partitions in turn."""

    def __init__(self, counts: Ints) -> None:
        self._counts, self._sorted = counts, np.sort(counts)
        self._sums = np.concatenate([[0], np.cumsum(self._sorted)])

    def position(self, partition: int, turn: Ints) -> Ints:
        ended = np.searchsorted(self._sorted, turn, side="right")
        before = self._sums[ended] + turn * (len(self._counts) - ended)
        earlier = np.sort(self._counts[:partition])
        positions: Ints = before + partition - np.searchsorted(earlier, turn, side="right")
        return positions


def _polls(plan: Plan, part: PartitionPlan, slots: Ints, *, reader: str, position: Ints, at_ns: Ints) -> Columns:
    producer, seq = plan.names(part, slots)
    return {
        "consumer_id": reader,
        "pass": "final" if reader == DRAIN else "live",
        "position": position,
        "topic": TOPIC,
        "partition": part.number,
        "offset": slots,
        "leader_epoch": 0,
        "producer_id": _named(plan.producer_ids, producer),
        "seq": seq,
        "checksum_ok": ~is_in(slots, part.corrupt),
        "received_ns": at_ns,
        "isolation": "read_uncommitted",
    }


def write_empty(folder: RunFolder) -> None:
    """Write empty tables for seeks and consumer groups."""
    for name in ("seeks", "positions", "group_reads", "rebalances", "commits", "share_reads", "share_acks"):
        with _file(folder.table(name) / f"{name}.parquet", RECORDED[name]) as write:
            write({}, 0)


# --- what the probe saw --------------------------------------------------------------------------


def write_replicas(plan: Plan, folder: RunFolder) -> int:
    """Write every replica's samples; return the row count."""
    times = np.arange(plan.probed_from_ns, plan.probed_until_ns, 1_000 // plan.probe_hz * MS)
    rows = 0
    with _file(folder.table("replicas") / f"replicas-{PROBER}.parquet", REPLICAS) as write:
        for part in map(plan.partition, range(plan.partitions)):
            leader = plan.assignment(part.number)[0]
            for low in range(0, len(times), max(1, CHUNK_RECORDS // plan.replicas)):
                some = times[low : low + max(1, CHUNK_RECORDS // plan.replicas)]
                broker = np.tile(np.array(plan.brokers), len(some))
                sent = np.repeat(some, plan.replicas)
                write(_samples(plan, part, broker, leader, sent), len(sent))
                rows += len(sent)
    return rows


def _samples(plan: Plan, part: PartitionPlan, broker: Ints, leader: int, sent: Ints) -> dict[str, Any]:
    """The paused broker does not answer."""
    leads, fault = broker == leader, (broker == plan.replicas) & (plan.replicas > 1)
    at = sent + MS // 2
    silent = fault & (sent >= plan.stopped_ns) & (sent < plan.resumed_ns)
    behind = fault & (at >= plan.stopped_ns) & (at < plan.resumed_ns + 50 * MS)
    log_end = plan.log_end(part, np.where(leads, at, np.where(behind, plan.stopped_ns, at) - MS // 2))
    high = plan.high_watermark(part, np.where(leads, at, np.where(behind, plan.stopped_ns, at) - 1 * MS))
    return {
        "broker_id": broker,
        "incarnation": 1,
        "topic": TOPIC,
        "partition": part.number,
        "leader_epoch": _masked(np.zeros(len(sent), np.int32), silent),
        "sent_ns": sent,
        "received_ns": sent + 1 * MS,
        "log_start_offset": _masked(np.zeros(len(sent), np.int64), silent),
        "high_watermark": _masked(high, silent),
        "last_stable_offset": _masked(high, silent),
        "log_end_offset": _masked(log_end, silent),
        "single_reply": pa.array(np.ones(len(sent), np.bool_), mask=silent),
        "error": _named(["timeout"], silent.astype(np.int64) - 1),
    }


def write_isr(plan: Plan, folder: RunFolder) -> int:
    """Write every broker's views at half the probe rate; return the row count."""
    times = np.arange(plan.probed_from_ns, plan.probed_until_ns, 2_000 // plan.probe_hz * MS)
    observer, sent = np.tile(np.arange(plan.replicas), len(times)), np.repeat(times, plan.replicas)
    if plan.replicas > 1:
        stopped = (observer == plan.replicas - 1) & (sent >= plan.stopped_ns) & (sent < plan.resumed_ns)
        observer, sent = observer[~stopped], sent[~stopped]
    as_of = sent - 20 * MS
    short = (as_of >= plan.shrunk_ns) & (as_of < plan.full_ns) & (plan.replicas > 1)
    names, none = [str(broker) for broker in plan.brokers], np.zeros(len(sent), np.int64)
    with _file(folder.table("isr") / f"isr-{PROBER}.parquet", ISR) as write:
        for number in range(plan.partitions):
            replicas = plan.assignment(number)
            columns = {
                "observer": _named(names, observer),
                "source": "metadata",
                "topic": TOPIC,
                "partition": number,
                "leader": replicas[0],
                "leader_epoch": 0,
                "replicas": _lists(replicas, none + plan.replicas),
                "isr": _lists(replicas, plan.replicas - short.astype(np.int64)),
                "offline": _lists(replicas, none),
                "sent_ns": sent,
                "received_ns": sent + 1 * MS,
            }
            for low in range(0, len(sent), CHUNK_RECORDS):
                some = {name: _slice(value, low) for name, value in columns.items()}
                write(some, min(CHUNK_RECORDS, len(sent) - low))
    return len(sent) * plan.partitions


def _slice(value: Any, low: int) -> Any:
    return value[low : low + CHUNK_RECORDS] if isinstance(value, pa.Array | np.ndarray) else value


def _lists(members: Sequence[int], lengths: Ints) -> pa.Array:
    """The paused broker is the last of every assignment."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    place = np.arange(int(ends[-1])) - np.repeat(ends[:-1], lengths)
    values = np.array(members, np.int32)[place]
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(values))


# --- what was captured at boundaries -------------------------------------------------------------


def captures(plan: Plan) -> dict[str, int]:
    """Return the offset captures and their times."""
    in_force = {f"{PHASES[1]}: {FAULT} in force": plan.shrunk_ns + 300 * MS} if plan.replicas > 1 else {}
    return {
        "before": plan.load_ns - 500 * MS,
        PHASES[0]: plan.fault_phase_ns - 10 * MS,
        **in_force,
        PHASES[1]: plan.load_end_ns + 100 * MS,
        "after": plan.drained_until_ns + 100 * MS,
    }


def write_offsets(plan: Plan, folder: RunFolder) -> None:
    """Write one file per capture; checkpoints are a second old."""
    for number, (name, at_ns) in enumerate(captures(plan).items()):
        slug = name.replace(":", "").replace(" ", "-")
        with _file(folder.table("offsets") / f"{number:02}-{slug}.parquet", OFFSETS) as write:
            for part in map(plan.partition, range(plan.partitions)):
                broker, leader = np.array(plan.brokers), plan.assignment(part.number)[0]
                sent = np.full(len(broker), at_ns)
                known = _samples(plan, part, broker, leader, sent)
                older = plan.high_watermark(part, sent - 1000 * MS)
                written = {
                    "capture": name,
                    "checkpoint_high_watermark": np.minimum(older, plan.high_watermark(part, sent - 2 * MS)),
                    "checkpoint_recovery_point": 0,
                    "checkpoint_leader_epoch": 0,
                    "checkpoint_epoch_start_offset": 0,
                }
                if name == f"{PHASES[1]}: {FAULT} in force":
                    held = plan.high_watermark(part, np.array([plan.stopped_ns - 1000 * MS]))
                    written["checkpoint_high_watermark"] = np.where(broker == plan.replicas, held, older)
                write(known | written, len(broker))


def write_usage(plan: Plan, folder: RunFolder) -> None:
    """Write some counters of nodes and host at each boundary."""
    boundaries = {
        "before": plan.load_ns - 400 * MS,
        f"{PHASES[0]}{PHASE_START}": plan.load_ns,
        PHASES[0]: plan.fault_phase_ns - 5 * MS,
        f"{PHASES[1]}{PHASE_START}": plan.fault_phase_ns + 5 * MS,
        PHASES[1]: plan.load_end_ns + 150 * MS,
        "after": plan.drained_until_ns + 150 * MS,
    }
    nodes = [f"broker-{broker}" for broker in plan.brokers]
    grown = {"cpu_ns": 0.3, "disk_write_bytes": 0.001}
    for number, (label, at_ns) in enumerate(boundaries.items()):
        passed = at_ns - plan.created_ns
        rows = [(node, name, passed * share) for node in nodes for name, share in grown.items()]
        rows += [("host", "busy_ns", passed * 1.0), ("host", "idle_ns", passed * 1.0)]
        counters = [
            {"t_ns": at_ns, "label": label, "source": source, "name": name, "value": float(round(value))}
            for source, name, value in rows
        ]
        slug = label.replace(":", "").replace(" ", "-")
        folder.table("usage").mkdir(exist_ok=True)
        path = folder.table("usage") / f"{number:02}-{slug}.parquet"
        pq.write_table(pa.Table.from_pylist(counters, schema=USAGE), path)
