"""Write the model's record as a run folder, in the formats of brokers and clients."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from clusters.scenario.steps.catalog import traits_by_step
from history.folder import RunFolder
from history.manifest import Incarnation, Manifest, NodeInfo, ProducerInfo, TopicInfo
from history.readers import CATCH_UP
from history.tables import RECORDED
from tests.evidence.folders import batch, values
from tests.kafka_files.written import snapshot_header
from tests.model.cluster import PATIENCE_NS, Plan, Recorded
from tests.model.consumer_group import SESSION_NS
from tests.model.parts import BROKERS, DRAIN, LAG_NS, MS, REQUEST_NS, Batch, Producer, State

TOPIC = "orders"
S = 1_000_000_000
BEGUN_NS = 10 * S  # the model's clock begins at 0, the run's here
PROBER, LOAD = "probe-1", "producer"
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
TOPIC_ID = bytes(range(16))
Row = dict[str, Any]


def shifted(row: Row) -> Row:
    """Return a row with its times on the run's clock."""
    return {
        name: value + BEGUN_NS if name.endswith("_ns") and value is not None else value for name, value in row.items()
    }


def wall(t_ns: int) -> datetime:
    """Return the wall-clock time of a time of the run."""
    return STARTED + timedelta(microseconds=t_ns // 1000)


def broker_name(broker_id: int) -> str:
    """Return the name of a broker's node."""
    return f"broker-{broker_id}"


# --- tables ------------------------------------------------------------------------------------------


def tables(recorded: Recorded) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield every recorded table in parts: (table, file, rows)."""
    rows: dict[tuple[str, str], list[Row]] = {}
    for number, history in recorded.partitions.items():
        order = list(recorded.plan.orders[number])
        replica = {"replicas": order, "offline": []}
        for table, file, own, more in (
            ("sends", "sends", history.sends, {}),
            ("polls", "polls", history.polls, {}),
            ("seeks", "seeks", history.seeks, {}),
            ("replicas", PROBER, [*history.samples, *history.silent], {}),
            ("isr", PROBER, history.views, {"source": "metadata", **replica}),
            ("offsets", "captures", history.captures, {"log_start_offset": 0}),
        ):
            where = {"topic": TOPIC, "partition": number}
            rows.setdefault((table, file), []).extend({**shifted(row), **where, **more} for row in own)
    if recorded.group:
        group = recorded.group
        for table, own in (("group_reads", group.reads), ("rebalances", group.rebalances), ("commits", group.commits)):
            rows[table, "members"] = [{**shifted(row), "topic": TOPIC} for row in own]
    rows["positions", "readers"] = (
        [] if recorded.plan.ends_early else [{**shifted(row), "topic": TOPIC} for row in recorded.positions]
    )
    yield from ((table, file, own) for (table, file), own in rows.items() if own)


def write_tables(recorded: Recorded, folder: RunFolder) -> None:
    """Write the recorded tables."""
    for table, file, rows in tables(recorded):
        folder.table(table).mkdir(exist_ok=True)
        written = pa.Table.from_pylist(rows, RECORDED[table])
        pq.write_table(written, folder.table(table) / f"{file}.parquet", compression="none", use_dictionary=False)


# --- brokers -----------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def encoded(one: Batch) -> bytes:
    """Return a batch as in a segment."""
    data = bytearray(batch(one.base, values(*one.seqs, producer_id=one.producer), one.epoch))
    if one.base_sequence >= 0:
        kafka_id = google_crc32c.value(one.producer.encode())
        struct.pack_into(">qhi", data, 43, kafka_id, one.producer_epoch, one.base_sequence)
        struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def text_of(line: Row, number: int) -> str:
    """Return a broker's log line as Kafka 4.3 writes it."""
    name, broker = f"{TOPIC}-{number}", line["broker_id"]
    stamp = wall(line["t_ns"] + BEGUN_NS)
    if line["kind"] == "log_loaded":
        said = f"[Partition {name} broker={broker}] Log loaded for partition {name} with initial high watermark "
        said += str(line["high_watermark"])
    else:
        leads = line["kind"] == "leader_started"
        said = f"[Broker id={broker}] {'Leader' if leads else 'Follower'} {name} starts at leader epoch "
        said += f"{line['leader_epoch']} from offset {line['log_end_offset']} with partition epoch 0"
        said += ", high watermark " if leads else " and high watermark "
        said += f"{line['high_watermark']}{', ISR [] ' if leads else '.'}"
    return f"{stamp:%Y-%m-%dT%H:%M:%S}.{stamp.microsecond // 1000:03}+0000 [kafka-thread] INFO kafka - {said}\n"


def write_brokers(recorded: Recorded, folder: RunFolder) -> None:
    """Write each broker's log, segments and epoch files."""
    for broker_id in BROKERS:
        node = folder.brokers / broker_name(broker_id)
        lines = [(f"{wall(BEGUN_NS):%Y-%m-%dT%H:%M:%S}.000+0000 [main] INFO kafka - started\n")]
        for number, history in recorded.partitions.items():
            lines += [text_of(line, number) for line in history.lines if line["broker_id"] == broker_id]
            replica = node / "data" / f"{TOPIC}-{number}"
            replica.mkdir(parents=True)
            if f"segment {number} {broker_id}" not in recorded.lacking:
                (replica / f"{0:020}.log").write_bytes(b"".join(map(encoded, history.logs[broker_id])))
            entries = "".join(f"{epoch} {start}\n" for epoch, start in history.epochs[broker_id])
            epochs = f"0\n{len(history.epochs[broker_id])}\n{entries}"
            (replica / "leader-epoch-checkpoint").write_text(epochs)
        (node / "server.log").write_text("".join(sorted(lines)))


# --- the controller ----------------------------------------------------------------------------------


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _ids(brokers: Iterable[int]) -> bytes:
    listed = list(brokers)
    return _uvarint(len(listed) + 1) + struct.pack(f">{len(listed)}i", *listed)


def _whole(number: int, order: tuple[int, ...], state: State) -> bytes:
    lists = _ids(order) + _ids(sorted(state.isr)) + _ids([]) + _ids([])
    numbers = struct.pack(">iii", state.leader, state.epoch, state.partition_epoch)
    return b"\1\3\1" + struct.pack(">i", number) + TOPIC_ID + lists + numbers + b"\1" + b"\0"


def _change(number: int, before: State, state: State) -> bytes | None:
    if (state.epoch - before.epoch, state.partition_epoch - before.partition_epoch) not in {(0, 1), (1, 1)}:
        return None
    if (state.epoch != before.epoch) != (state.leader != before.leader):
        return None
    isr, fields = _ids(sorted(state.isr)), []
    fields.append(b"\0" + _uvarint(len(isr)) + isr)
    if state.leader != before.leader:
        fields.append(b"\1\4" + struct.pack(">i", state.leader))
    return b"\1\5\1" + struct.pack(">i", number) + TOPIC_ID + _uvarint(len(fields)) + b"".join(fields)


def metadata_records(recorded: Recorded) -> list[tuple[int, int, bytes, bytes | None]]:
    """Return (time, partition, the whole state, the change or None) of each state, in order."""
    found = []
    for number, history in recorded.partitions.items():
        order, states = recorded.plan.orders[number], history.states
        for n, state in enumerate(states):
            change = _change(number, states[n - 1], state) if n else None
            found.append((state.t_ns, number, _whole(number, order, state), change))
    return sorted(found, key=lambda record: record[0])


def _milliseconds(t_ns: int) -> int:
    return (int(STARTED.timestamp() * 1000)) + (t_ns + BEGUN_NS) // MS


def _metadata_batch(offset: int, t_ns: int, *records: bytes) -> bytes:
    stamp = _milliseconds(t_ns)
    data = bytearray(batch(offset, list(records)))
    struct.pack_into(">qq", data, 27, stamp, stamp)
    struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def write_controller(recorded: Recorded, folder: RunFolder) -> None:
    """Write KRaft's metadata log; with ``snapshot at N``, a snapshot replaces the first N records, of which the log
    still has the last two.
    """
    log = folder.brokers / "controller" / "data" / "__cluster_metadata-0"
    log.mkdir(parents=True)
    topic = b"\1\2\0" + _uvarint(len(TOPIC) + 1) + TOPIC.encode() + TOPIC_ID + b"\0"
    records = metadata_records(recorded)
    unknown = {number for number in recorded.partitions if f"states {number}" in recorded.lacking}
    records = [record for record in records if record[1] not in unknown]
    at = next((int(each.rpartition(" ")[2]) for each in recorded.lacking if each.startswith("snapshot at")), 0)
    at = min(at, len(records))
    if at:
        last = {number: whole for _, number, whole, _ in records[:at]}
        header = snapshot_header(_milliseconds(records[at - 1][0]))
        taken = _metadata_batch(1, records[at - 1][0] + S, topic, *last.values())
        (log / f"{at + 1:020}-0000000001.checkpoint").write_bytes(header + taken)
        known = set(last)
    else:
        known = set()
    data, kept = b"" if at else _metadata_batch(0, 0, topic), max(at - 2, 0)
    for place, (t_ns, number, whole, change) in enumerate(records[kept:], kept + 1):
        data += _metadata_batch(place, t_ns, whole if number not in known or change is None else change)
        known.add(number)
    (log / f"{kept + 1 if at else 0:020}.log").write_bytes(data)


# --- small files -------------------------------------------------------------------------------------


def manifest(recorded: Recorded) -> Manifest:
    """Return the manifest of three brokers, a controller and one topic."""
    plan = recorded.plan
    faults = [event for event in recorded.events if event.kind == "injected"]
    version = "4.3.0" if plan.strict_min_isr else "3.6.2"
    topic = TopicInfo(
        assignment={number: list(order) for number, order in enumerate(plan.orders)},
        config={"min.insync.replicas": str(plan.effective_min_isr)},
    )
    return Manifest(
        run_id="model",
        scenario_name="model",
        scenario={"loads": {LOAD: _load(plan)}, "phases": [{"steps": [_step(event) for event in faults]}]},
        scenario_digest="0",
        faults=[event.step for event in faults if event.step != "transfer_leadership"],
        traits=traits_by_step(),
        kafka_version=version,
        kafka_jars_digest="0",
        mode="kraft",
        runtime="process",
        seed=0,
        started_at=STARTED.isoformat(),
        started_ns=0,
        boot_id="model",
        probe_hz=10,
        patience_s=PATIENCE_NS / S,
        nodes=_nodes(),
        topics={TOPIC: topic},
        producers=list(map(_producer, recorded.partitions[0].producers)),
        host={},
        incarnations=[
            Incarnation(node=broker_name(n), incarnation=number, kafka_version=version, started_ns=at + BEGUN_NS)
            for n, number, at in recorded.partitions[0].starts
        ],
    )


def _load(plan: Plan) -> Row:
    load: Row = {"topic": TOPIC, "request_timeout": REQUEST_NS / S}
    if plan.members:
        group = {"members": plan.members, "session_timeout": SESSION_NS / S, "commit": "behind", "protocol": "classic"}
        load["group"] = group
    return load


def _nodes() -> list[NodeInfo]:
    lag = {"replica.lag.time.max.ms": str(LAG_NS // MS)}
    brokers = [
        NodeInfo(name=broker_name(n), role="broker", address=f"10.0.0.{n}", node_id=n, config=lag) for n in BROKERS
    ]
    return [NodeInfo(name="controller", role="controller", address="10.0.1.0", node_id=100), *brokers]


def _producer(of: Producer) -> ProducerInfo:
    return ProducerInfo(
        producer_id=of.name,
        load=LOAD,
        topic=TOPIC,
        acks="all" if of.acks == "all" else "1",
        idempotence=of.idempotent,
        retries=of.retries,
        engine="kafka-python",
        rate_per_s=10,
        record_bytes=100,
    )


def _step(event: Any) -> dict[str, Any]:
    role, _, number = event.target.partition("-")
    return {event.step: {"node": f"{role} {number}"}}


def events(recorded: Recorded) -> Iterator[Row]:
    """Yield the lines of events.jsonl."""
    proofs: dict[str, Row] = {"injected": {"effect_verified": True}, "healed": {"recovery_verified": True}}
    yield _event(0, "run_started")
    yield _event(BEGUN_NS, "phase_started", phase="steps")
    for event in sorted(recorded.events, key=lambda event: event.t_ns):
        detail = proofs.get(event.kind, {})
        yield _event(
            event.t_ns + BEGUN_NS, event.kind, phase="steps", step=event.step, target=event.target, detail=detail
        )
    if not recorded.plan.ends_early:
        yield _event(recorded.quiesced_ns + BEGUN_NS, "phase_ended", phase="steps")
        yield _event(recorded.quiesced_ns + BEGUN_NS, "quiesced")
        told = dict.fromkeys(recorded.alive, recorded.looked_ns + BEGUN_NS)
        detail = {"told": told, "still_since_ns": recorded.quiesced_ns + BEGUN_NS}
        if recorded.alive:
            yield _event(recorded.looked_ns + BEGUN_NS, "step", step=CATCH_UP, detail=detail)
        yield _event(recorded.ended_ns + BEGUN_NS, "collected")


def _event(t_ns: int, kind: str, **other: Any) -> Row:
    line = {"t_ns": t_ns, "wall": wall(t_ns).isoformat(), "kind": kind, "phase": "", "step": "", "target": ""}
    return line | {"detail": {}} | other


def clients(recorded: Recorded) -> Iterator[tuple[str, Row]]:
    """Yield each client's final summary."""
    histories = list(recorded.partitions.values())

    def rows(of: str, key: str, name: str) -> int:
        return sum(row[key] == name for history in histories for row in getattr(history, of))

    for producer in histories[0].producers:
        yield producer.name, {"role": "producer", "rows": rows("sends", "producer_id", producer.name)}
    for name in recorded.readers:
        told = {"role": "consumer", "rows": rows("polls", "consumer_id", name), "seeks": 0, "unreadable": {}}
        yield name, told | {"ended_ns": recorded.ended_ns + BEGUN_NS}
    samples = sum(len(history.samples) + len(history.silent) for history in histories)
    yield PROBER, {"role": "prober", "rows": samples, "isr_rows": sum(len(history.views) for history in histories)}
    if not recorded.plan.ends_early:
        told = {"role": "drain", "rows": rows("polls", "consumer_id", DRAIN), "partitions": drained(recorded)}
        yield DRAIN, told | {"ended_ns": recorded.quiesced_ns + BEGUN_NS}
    for life in [life for lives in recorded.group.lives.values() for life in lives] if recorded.group else []:
        counted = {"group_reads": recorded.group.reads, "rebalances": recorded.group.rebalances}
        counted |= {"commits": recorded.group.commits}
        own = {table: sum(row["member"] == life.name for row in all_) for table, all_ in counted.items()}
        ended = BEGUN_NS + (recorded.ended_ns if life.ended_ns is None else life.ended_ns)
        told = {"role": "member", "started_ns": life.started_ns + BEGUN_NS, "ended_ns": ended, "clean": life.clean}
        yield life.name, told | (own if life.clean else {})


def drained(recorded: Recorded) -> Row:
    """Return how far the final drain of each partition came."""
    return {
        f"{TOPIC}-{number}": {
            "start_offset": 0,
            "position": recorded.stopped.get(number, history.drain_end),
            "end_offset": history.drain_end,
            "complete": number not in recorded.stopped,
        }
        for number, history in recorded.partitions.items()
        if f"drain {number}" not in recorded.lacking
    }


def write(recorded: Recorded, path: Path) -> RunFolder:
    """Write a run folder, without a seal."""
    folder = RunFolder(path)
    path.mkdir(parents=True, exist_ok=True)
    manifest(recorded).write(folder.manifest)
    folder.events.write_text("".join(json.dumps(line) + "\n" for line in events(recorded)))
    pairs = ({"t_ns": t, "wall": wall(t).isoformat()} for t in range(0, recorded.ended_ns + BEGUN_NS + 2 * S, S))
    (folder.path / "clock.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    folder.clients.mkdir()
    for name, words in clients(recorded):
        if f"words {name}" not in recorded.lacking:
            told = {"client_id": name, "clean": True, **words}
            told |= {"rows": recorded.told[name]} if name in recorded.told else {}
            (folder.clients / f"{name}.json").write_text(json.dumps(told))
    write_tables(recorded, folder)
    write_brokers(recorded, folder)
    write_controller(recorded, folder)
    return folder
