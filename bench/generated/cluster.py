"""Write the small files of a generated run."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from bench.generated.plan import LAG_MS, MS, STARTED_NS, STARTED_WALL_MS, TOPIC, PartitionPlan, Plan, S
from bench.generated.segments import small_batch, wall_ms
from bench.generated.tables import CONSUMER, DRAIN, FAULT, PHASES, PROBER, captures
from clusters.scenario.steps.catalog import traits_by_step
from history.folder import RunFolder
from history.manifest import Incarnation, Manifest, NodeInfo, ProducerInfo, TopicInfo
from kafka_files.metadata_log import FOLDER

KAFKA_VERSION = "4.3.0"
CONTROLLER_ID = 100
_STARTED = datetime.fromtimestamp(STARTED_WALL_MS / 1000, UTC)
_TOPIC_ID = bytes(range(16))
_METADATA_BATCH = 500
_TOPIC_RECORD, _PARTITION_RECORD, _PARTITION_CHANGE = b"\1\2\0", b"\1\3\1", b"\1\5\1"  # frame version, API key, version
Json = dict[str, Any]


def _wall(t_ns: int) -> datetime:
    return _STARTED + timedelta(microseconds=(t_ns - STARTED_NS) // 1000)


def _servers(plan: Plan) -> list[str]:
    return ["controller", *(f"broker-{broker}" for broker in plan.brokers)]


# --- manifest and events -------------------------------------------------------------------------


def manifest(plan: Plan, run_id: str) -> Manifest:
    """Return a manifest with one topic; a second phase pauses a follower."""
    fault = [{FAULT: {"node": "broker-" + str(plan.replicas)}}] if plan.replicas > 1 else []
    return Manifest(
        run_id=run_id,
        scenario_name="generated",
        scenario={
            "name": "generated",
            "why": "A history that was written, not recorded.",
            "phases": [{PHASES[0]: [{"hold": {"seconds": plan.seconds / 4}}]}, {PHASES[1]: fault}],
        },
        scenario_digest="",
        faults=[FAULT] * len(fault),
        traits=traits_by_step(),
        kafka_version=KAFKA_VERSION,
        kafka_jars_digest="",
        mode="kraft",
        runtime="process",
        seed=0,
        started_at=_STARTED.isoformat(),
        started_ns=STARTED_NS,
        boot_id="generated",
        probe_hz=plan.probe_hz,
        nodes=_nodes(plan),
        incarnations=[
            Incarnation(node=node, incarnation=1, kafka_version=KAFKA_VERSION, started_ns=STARTED_NS + S)
            for node in _servers(plan)
        ],
        topics={
            TOPIC: TopicInfo(
                assignment={number: plan.assignment(number) for number in range(plan.partitions)},
                config={"min.insync.replicas": str(min(2, max(1, plan.replicas - 1)))},
            )
        },
        producers=_producers(plan),
        host={},
    )


def _nodes(plan: Plan) -> list[NodeInfo]:
    lag = {"replica.lag.time.max.ms": str(LAG_MS)}
    controller = NodeInfo(name="controller", role="controller", address="10.0.1.0", node_id=CONTROLLER_ID, config=lag)
    return [
        controller,
        *(
            NodeInfo(name=f"broker-{n}", role="broker", address=f"10.0.0.{n}", node_id=n, config=lag)
            for n in plan.brokers
        ),
    ]


def _producers(plan: Plan) -> list[ProducerInfo]:
    return [
        ProducerInfo(
            producer_id=name,
            topic=TOPIC,
            acks="all",
            idempotence=True,
            retries=2**31 - 1,
            engine="confluent-kafka",
            rate_per_s=round(plan.records / plan.seconds / plan.producers, 3),
            record_bytes=plan.record_bytes,
        )
        for name in plan.producer_ids
    ]


def events(plan: Plan) -> Iterator[Json]:
    """Yield the lines of events.jsonl, in order."""
    timed = [_event(at_ns, "capture", target=name) for name, at_ns in captures(plan).items()]
    clients = [*plan.producer_ids, CONSUMER, PROBER]
    timed += [
        _event(STARTED_NS, "run_started"),
        *(_event(STARTED_NS + S, "node_started", target=node, incarnation=1, role=_role(node), **_VERSION)
          for node in _servers(plan)),
        *(_event(plan.probed_from_ns, "node_started", target=name, incarnation=1, role="client") for name in clients),
        _event(plan.load_ns, "phase_started", phase=PHASES[0], index=0),
        _event(plan.fault_phase_ns, "phase_ended", phase=PHASES[0], index=0),
        _event(plan.fault_phase_ns, "phase_started", phase=PHASES[1], index=1),
        _event(plan.load_end_ns + 200 * MS, "phase_ended", phase=PHASES[1], index=1),
        _event(plan.quiesced_ns, "quiesced", step="quiesce"),
        _event(plan.drained_until_ns + 200 * MS, "collected"),
    ]  # fmt: skip
    if plan.replicas > 1:
        where = {"phase": PHASES[1], "step": FAULT, "target": f"broker-{plan.replicas}"}
        timed += [
            _event(plan.stopped_ns - 5 * MS, "inject", **where),
            _event(plan.stopped_ns + 5 * MS, "injected", **where, effect_verified=True),
            _event(plan.resumed_ns - 5 * MS, "heal", **where),
            _event(plan.full_ns + 50 * MS, "healed", **where, recovery_verified=True),
        ]
    order = {"phase_ended": 0, "phase_started": 1}
    yield from sorted(timed, key=lambda line: (line["t_ns"], order.get(line["kind"], 2)))


_VERSION = {"kafka_version": KAFKA_VERSION}


def _role(node: str) -> str:
    return node.partition("-")[0]


def _event(t_ns: int, kind: str, phase: str = "", step: str = "", target: str = "", **detail: Any) -> Json:
    line = {"t_ns": t_ns, "wall": _wall(t_ns).isoformat(), "kind": kind}
    return line | {"phase": phase, "step": step, "target": target, "detail": detail}


def clients(plan: Plan, *, sends: list[int], live: int, drain: int, samples: int, views: int) -> Json:
    """Return the clients' final summaries from row counts."""
    drained = {
        f"{TOPIC}-{part.number}": {
            "start_offset": 0,
            "position": part.end_offset,
            "end_offset": part.end_offset,
            "complete": True,
        }
        for part in map(plan.partition, range(plan.partitions))
    }
    read = {"seeks": 0, "unreadable": {}}
    return {
        **{
            name: {"role": "producer", "rows": rows, "last_seq": plan.records}
            for name, rows in zip(plan.producer_ids, sends, strict=True)
        },
        CONSUMER: {"role": "consumer", "rows": live, **read},
        DRAIN: {"role": "drain", "rows": drain, **read, "partitions": drained},
        PROBER: {"role": "prober", "rows": samples, "isr_rows": views},
    }


def write_small_files(plan: Plan, folder: RunFolder, rows: Mapping[str, Any]) -> None:
    """Write all but tables and segments; ``rows`` are the arguments of ``clients``."""
    manifest(plan, folder.run_id).write(folder.manifest)
    _write_lines(folder.events, (json.dumps(line) for line in events(plan)))
    moments = range(STARTED_NS, plan.drained_until_ns + S, S)
    clock = ({"t_ns": at_ns, "wall": _wall(at_ns).isoformat()} for at_ns in moments)
    _write_lines(folder.path / "clock.jsonl", map(json.dumps, clock))
    folder.clients.mkdir()
    for name, words in clients(plan, **rows).items():
        ended = {"client_id": name, "clean": True, "ended_ns": plan.drained_until_ns, **words}
        (folder.clients / f"{name}.json").write_text(json.dumps(ended, indent=1) + "\n")
    parts = [plan.partition(number) for number in range(plan.partitions)]
    for broker in plan.brokers:
        node = folder.brokers / f"broker-{broker}"
        node.mkdir(parents=True, exist_ok=True)
        _write_lines(node / "server.log", server_log(plan, broker))
        _write_checkpoints(plan, node, [part for part in parts if broker in plan.assignment(part.number)])
    log = folder.brokers / "controller" / "data" / FOLDER
    log.mkdir(parents=True)
    (log / f"{0:020}.log").write_bytes(metadata_log(plan))


def _write_lines(path: Any, lines: Any) -> None:
    with path.open("w") as file:
        file.writelines(f"{line}\n" for line in lines)


# --- brokers -------------------------------------------------------------------------------------


def server_log(plan: Plan, broker: int) -> Iterator[str]:
    """Yield a broker's log lines: replicas' starts, and ISR changes as a leader."""
    everybody = ",".join(map(str, plan.brokers))
    yield _line(STARTED_NS + S, "kafka.server.KafkaRaftServer", "Kafka Server started")
    for number in range(plan.partitions):
        leader, name = plan.assignment(number)[0], f"{TOPIC}-{number}"
        yield _line(
            plan.created_ns + MS,
            "kafka.cluster.Partition",
            f"[Partition {name} broker={broker}] Log loaded for partition {name} with initial high watermark 0",
        )
        starts = f"[Broker id={broker}] {{}} {name}{{}} starts at leader epoch 0 from offset 0 with partition epoch 0"
        if leader == broker:
            text = starts.format("Leader", " with topic id Some(AAECAwQFBgcICQoLDA0ODw)") + (
                f", high watermark 0, ISR [{everybody}], adding replicas [] and removing replicas [] . "
                "Previous leader None and previous leader epoch was -1."
            )
        else:
            text = starts.format("Follower", "") + f" and high watermark 0. Current leader is {leader}."
        yield _line(plan.created_ns + 2 * MS, "state.change.logger", text)
    if plan.replicas > 1:
        yield from _isr_changes(plan, broker, everybody)


def _isr_changes(plan: Plan, broker: int, everybody: str) -> Iterator[str]:
    led = [number for number in range(plan.partitions) if plan.assignment(number)[0] == broker]
    others = everybody.rpartition(",")[0]
    at = np.array([plan.stopped_ns, plan.shrunk_ns])
    for number in led:
        held, end = plan.log_end(plan.partition(number), at)
        where = f"[Partition {TOPIC}-{number} broker={broker}]"
        yield _line(
            plan.shrunk_ns - 2 * MS,
            "kafka.cluster.Partition",
            f"{where} Shrinking ISR from {everybody} to {others}. Leader: (highWatermark: {held}, endOffset: {end}). "
            f"Out of sync replicas: (brokerId: {plan.replicas}, endOffset: {held}).",
        )
        yield _line(
            plan.shrunk_ns, "kafka.cluster.Partition", f"{where} ISR updated to {others}  and version updated to 1"
        )
    for number in led:
        where = f"[Partition {TOPIC}-{number} broker={broker}]"
        yield _line(
            plan.full_ns, "kafka.cluster.Partition", f"{where} ISR updated to {everybody}  and version updated to 2"
        )


def _line(t_ns: int, logger: str, text: str) -> str:
    moment = _wall(t_ns)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}+0000 [kafka-thread] INFO {logger} - {text}"


def _write_checkpoints(plan: Plan, node: Any, parts: list[PartitionPlan]) -> None:
    data = node / "data"
    for part in parts:
        replica = data / f"{TOPIC}-{part.number}"
        replica.mkdir(parents=True, exist_ok=True)
        (replica / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    ends = "".join(f"{TOPIC} {part.number} {part.end_offset}\n" for part in parts)
    begins = "".join(f"{TOPIC} {part.number} 0\n" for part in parts)
    (data / "replication-offset-checkpoint").write_text(f"0\n{len(parts)}\n{ends}")
    (data / "recovery-point-offset-checkpoint").write_text(f"0\n{len(parts)}\n{begins}")
    (data / "log-start-offset-checkpoint").write_text("0\n0\n")


# --- the controller ------------------------------------------------------------------------------


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _ids(brokers: list[int]) -> bytes:
    return _uvarint(len(brokers) + 1) + struct.pack(f">{len(brokers)}i", *brokers)


def metadata_log(plan: Plan) -> bytes:
    """Return the KRaft metadata log: the topic's creation and each ISR change."""
    name = _uvarint(len(TOPIC) + 1) + TOPIC.encode()
    values = [(plan.created_ns, _TOPIC_RECORD + name + _TOPIC_ID + b"\0")]
    for number in range(plan.partitions):
        replicas = plan.assignment(number)
        lists = _ids(replicas) + _ids(replicas) + _ids([]) + _ids([])
        leader = struct.pack(">iii", replicas[0], 0, 0)
        directories = _uvarint(len(replicas) + 1) + _TOPIC_ID * len(replicas)
        record = _PARTITION_RECORD + struct.pack(">i", number) + _TOPIC_ID + lists + leader + directories + b"\0"
        values.append((plan.created_ns, record))
    for at_ns, short in ((plan.shrunk_ns, 1), (plan.full_ns, 0)) if plan.replicas > 1 else ():
        for number in range(plan.partitions):
            isr = _ids(plan.assignment(number)[: plan.replicas - short])
            tagged = b"\1" + b"\0" + _uvarint(len(isr)) + isr
            values.append((at_ns, _PARTITION_CHANGE + struct.pack(">i", number) + _TOPIC_ID + tagged))
    return b"".join(_metadata_batches(values))


def _metadata_batches(values: list[tuple[int, bytes]]) -> Iterator[bytes]:
    at = 0
    while at < len(values):
        same = [value for t_ns, value in values[at : at + _METADATA_BATCH] if t_ns == values[at][0]]
        yield small_batch(at, same, wall_ms(values[at][0]))
        at += len(same)
