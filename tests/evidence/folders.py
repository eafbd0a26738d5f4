"""Synthetic run folders: a small cluster's history as literal rows, written as a recorded run writes it."""

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from clusters.scenario.steps.catalog import STEPS, traits_by_step
from history.events import Event
from history.folder import RunFolder
from history.manifest import Manifest, NodeInfo, ProducerInfo, TopicInfo
from history.payload import encode
from history.tables import RECORDED
from kafka_files.batches import HEADER

S = 1_000_000_000
MS = 1_000_000
TP = {"topic": "orders", "partition": 0}


def varint(number):
    """Encode an integer as record fields do: zigzag, with variable length."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def batch(base_offset, values, epoch=0, attributes=0):
    """Encode a record batch (v2)."""
    body = b""
    for delta, value in enumerate(values):
        record = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
        body += varint(len(record)) + record
    covered = struct.pack(">hiqqqhii", attributes, len(values) - 1, 0, 0, -1, -1, -1, len(values)) + body
    head = struct.pack(">iBI", epoch, 2, google_crc32c.value(covered))
    data = struct.pack(">qi", base_offset, len(head) + len(covered)) + head + covered
    assert len(data) == HEADER.size + len(body)
    return data


def sequenced(base_offset, seqs, base_sequence, *, producer=(7, 0), attributes=0):
    """Encode an idempotent producer's batch."""
    data = bytearray(batch(base_offset, values(*seqs), attributes=attributes))
    struct.pack_into(">qhi", data, 43, *producer, base_sequence)
    struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def sent(seq, *, offset=None, outcome="ok", acks="all", at_ns=None, producer_id="load-1", **other):
    """Return a row of the ledger, due at ``at_ns`` and acknowledged 2 ms later."""
    due_ns = 10 * S + seq * 10 * MS if at_ns is None else at_ns
    row = {"producer_id": producer_id, "seq": seq, **TP, "due_ns": due_ns, "sent_ns": due_ns + MS}
    row |= {"done_ns": due_ns + 2 * MS, "outcome": outcome, "offset": offset, "acks": acks, "record_bytes": 100}
    return row | other


def polled(offset, seq, *, final=True, producer_id="load-1", **other):
    """Return a record read by the final drain (or by the live consumer)."""
    row = {"consumer_id": "drain-1" if final else "consumer-1", "pass": "final" if final else "live"}
    row |= {"position": offset, **TP, "offset": offset, "leader_epoch": 0, "producer_id": producer_id, "seq": seq}
    return row | {"checksum_ok": True, "received_ns": 30 * S + offset, "isolation": "read_uncommitted"} | other


def sought(position, from_offset, to_offset, **other):
    """Return a seek of the live consumer before its ``position``-th record."""
    row = {"consumer_id": "consumer-1", "pass": "live", "position": position, **TP, "from_offset": from_offset}
    row |= {"to_offset": to_offset, "leader_epoch": 1, "why": "the position is out of range", "sought_ns": 30 * S}
    return row | other


def sample(broker_id, t_ns, hw, leo, *, epoch=0, incarnation=1, **other):
    """Return a probe's successful answer."""
    row = {"broker_id": broker_id, "incarnation": incarnation, **TP, "leader_epoch": epoch, "sent_ns": t_ns}
    row |= {"received_ns": t_ns + MS, "log_start_offset": 0, "high_watermark": hw, "last_stable_offset": hw}
    return row | {"log_end_offset": leo, "single_reply": True, "error": None} | other


def isr_view(t_ns, leader, epoch, isr, *, observer="1", **other):
    """Return an observer's view of the partition's state."""
    row = {"observer": observer, "source": "metadata", **TP, "leader": leader, "leader_epoch": epoch}
    row |= {"partition_epoch": None, "replicas": [1, 2, 3], "isr": isr, "elr": None, "offline": []}
    return row | {"sent_ns": t_ns, "received_ns": t_ns + MS} | other


def event(t_ns, kind, **other):
    """Return a line of events.jsonl."""
    return {
        "t_ns": t_ns,
        "wall": "2026-01-01T00:00:00+00:00",
        "kind": kind,
        "phase": "",
        "step": "",
        "target": "",
        "detail": {},
    } | other


def happened(t_ns, kind, **other):
    """Return the same event as the reader yields it."""
    return Event(**event(t_ns, kind, **other))


def manifest(
    *, acks="all", idempotence=True, faults=(), control=None, config=None, version="4.3.0", retries=5, **of_producer
):
    """Return a manifest with three brokers, one topic with one partition, and one producer; faults are known steps."""
    assert set(faults) <= STEPS.keys()
    brokers = [
        NodeInfo(
            name=f"broker-{n}",
            role="broker",
            address=f"10.0.0.{n}",
            node_id=n,
            config={"replica.lag.time.max.ms": "3000"},
        )
        for n in (1, 2, 3)
    ]
    producer = ProducerInfo(
        producer_id="load-1", topic="orders", acks=acks, idempotence=idempotence, retries=retries,
        engine="kafka-python", rate_per_s=100, record_bytes=100, **of_producer,
    )  # fmt: skip
    return Manifest(
        run_id="synthetic", scenario_name="synthetic", scenario={}, scenario_digest="0", control=control,
        faults=list(faults), traits=traits_by_step(), kafka_version=version, kafka_jars_digest="0", mode="kraft",
        runtime="process", seed=1,
        started_at="2026-01-01T00:00:00+00:00", started_ns=9 * S, boot_id="b", probe_hz=100, nodes=brokers,
        topics={"orders": TopicInfo(assignment={0: [1, 2, 3]}, config={"min.insync.replicas": "2"} | (config or {}))},
        producers=[producer], host={},
    )  # fmt: skip


@dataclass
class History:
    """A run to be written; ``logs`` maps a broker id to (base offset, epoch, values) batches."""

    manifest: Manifest
    sends: list
    polls: list
    replicas: list
    isr: list
    logs: dict
    epochs: dict
    end_offset: int
    events: list = field(default_factory=list)
    clients: dict = field(default_factory=dict)
    seeks: list = field(default_factory=list)

    def write(self, path: Path, *, seal=True) -> RunFolder:
        """Write the run as ``path``/ and seal it."""
        folder = RunFolder(path)
        path.mkdir(parents=True)
        self.manifest.write(folder.manifest)
        folder.events.write_text("".join(json.dumps(line) + "\n" for line in self.events))
        captured = {row["broker_id"]: row for row in self.replicas if row["error"] is None}
        offsets = [{"capture": "before", **row, "high_watermark": 0, "log_end_offset": 0} for row in captured.values()]
        offsets += [{"capture": "after", **row} for row in captured.values()]
        silent = dict.fromkeys(("leader_epoch", "log_start_offset", "high_watermark", "log_end_offset"))
        offsets += [{"capture": "steady: kill active", **captured[1], **silent, "error": "connection refused"}]
        tables = {
            "sends": self.sends,
            "polls": self.polls,
            "seeks": self.seeks,
            "replicas": self.replicas,
            "isr": self.isr,
            "offsets": offsets,
        }
        for name, rows in tables.items():
            folder.table(name).mkdir()
            pq.write_table(pa.Table.from_pylist(rows, RECORDED[name]), folder.table(name) / "all.parquet")
        folder.clients.mkdir()
        for client_id, words in (self._clients() | self.clients).items():
            (folder.clients / f"{client_id}.json").write_text(json.dumps({"client_id": client_id, **words}))
        for broker_id, batches in self.logs.items():
            self._write_broker(folder.brokers / f"broker-{broker_id}", batches, self.epochs[broker_id])
        if seal:
            folder.seal()
        return folder

    def _clients(self):
        drained = {"start_offset": 0, "position": self.end_offset, "end_offset": self.end_offset, "complete": True}
        return {
            "load-1": {"role": "producer", "clean": True, "rows": len(self.sends), "last_seq": len(self.sends) - 1},
            "consumer-1": {"role": "consumer", "clean": True, "rows": self._read("consumer-1")},
            "probe-1": {"role": "prober", "clean": True, "rows": len(self.replicas), "isr_rows": len(self.isr)},
            "drain-1": {
                "role": "drain",
                "clean": True,
                "rows": self._read("drain-1"),
                "partitions": {"orders-0": drained},
            },
        }

    def _read(self, consumer_id):
        return sum(row["consumer_id"] == consumer_id for row in self.polls)

    def _write_broker(self, folder, batches, epochs):
        replica = folder / "data" / "orders-0"
        replica.mkdir(parents=True)
        (folder / "server.log").write_text("[2026-01-01 00:00:00,000] INFO started\n")
        log = b"".join(batch(base, values, epoch) for base, epoch, values in batches)
        (replica / f"{0:020}.log").write_bytes(log)
        entries = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
        (replica / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{entries}")


def values(*seqs, producer_id="load-1"):
    """Return payloads of the load."""
    return [encode(producer_id, seq, 100) for seq in seqs]


RUN_EVENTS = [
    event(9 * S, "run_started"),
    event(10 * S, "phase_started", phase="steady"),
    event(11 * S, "phase_ended", phase="steady"),
    event(12 * S, "quiesced"),
    event(40 * S, "collected"),
]


def clean(records=50, **settings) -> History:
    """acks=all without an anomaly: every record is acknowledged, replicated and read; then five idle seconds follow."""
    times = [10 * S + n * 10 * MS for n in range(records)]
    acks = settings.get("acks", "all")
    samples = [sample(b, t + 3 * MS + b, n + 1 if b == 1 else n, n + 1) for n, t in enumerate(times) for b in (1, 2, 3)]
    samples += [sample(b, 15 * S + n * 100 * MS, records, records) for n in range(50) for b in (1, 2, 3)]
    return History(
        manifest=manifest(**settings),
        sends=[sent(n, offset=n, acks=acks) for n in range(records)],
        polls=[polled(n, n) for n in range(records)],
        replicas=samples,
        isr=[isr_view(t * S, 1, 0, [1, 2, 3], observer=o) for t in (9, 20) for o in ("1", "2", "3")],
        logs={b: [(0, 0, values(*range(records)))] for b in (1, 2, 3)},
        epochs={b: [(0, 0)] for b in (1, 2, 3)},
        end_offset=records,
        events=list(RUN_EVENTS),
    )


def truncated(**settings) -> History:
    """acks=1: the leader alone acknowledged records 30..39 and was killed; broker 2 began epoch 1 at offset 30.

    Records 40..49 were then written at offsets 30..39.
    """
    history = clean(acks="1", idempotence=False, faults=["kill"], **settings)
    history.sends = [sent(n, offset=n if n < 40 else n - 10, acks="1") for n in range(50)]
    kept = [*range(30), *range(40, 50)]
    history.polls = [polled(offset, seq) for offset, seq in enumerate(kept)]
    history.logs = {b: [(0, 0, values(*range(30))), (30, 1, values(*range(40, 50)))] for b in (1, 2, 3)}
    history.epochs = {b: [(0, 0), (1, 30)] for b in (1, 2, 3)}
    history.end_offset = 40
    before = [sample(1, 10 * S + n * 10 * MS + 3 * MS, min(n + 1, 30), n + 1) for n in range(40)]
    before += [sample(b, 10 * S + n * 10 * MS + 3 * MS, n, n + 1) for n in range(30) for b in (2, 3)]
    after = [
        sample(b, 15 * S + n * 100 * MS, 40, 40, epoch=1, incarnation=2 if b == 1 else 1)
        for n in range(50)
        for b in (1, 2, 3)
    ]
    returned = [sample(1, 14 * S, 30, 30, epoch=1, incarnation=2)]
    history.replicas = before + returned + after
    history.isr = [
        *(isr_view(9 * S, 1, 0, [1, 2, 3], observer=o) for o in ("1", "2", "3")),
        *(isr_view(10 * S + 399 * MS, 2, 1, [2, 3], observer=o) for o in ("2", "3")),
        *(isr_view(14 * S + 500 * MS, 2, 1, [1, 2, 3], observer=o) for o in ("1", "2", "3")),
    ]
    where = {"phase": "steady", "step": "kill", "target": "broker-1"}
    history.events[2:2] = [
        event(10 * S + 394 * MS, "inject", **where),
        event(10 * S + 395 * MS, "injected", detail={"effect_verified": True, "exit": 137}, **where),
        event(13 * S, "healed", detail={"recovery_verified": True}, **where),
    ]
    return history
