"""A run folder as plain Python, as far as claims are answered from it; no Spark, no Kafka."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from claims.answer import Evidence
from history.events import Event, read_events
from history.folder import RunFolder
from history.manifest import Manifest, read_manifest
from history.partition import TopicPartition
from history.remote import read_parquet
from history.samples import Sample
from kafka_files.broker_log import read_broker_logs
from kafka_files.clock import Clock, read_clock, wall_ns
from kafka_files.metadata_log import read_metadata_log
from kafka_files.states import State, by_partition
from kafka_files.znodes import read_znodes

SECOND_NS = 1_000_000_000
# kafka.cluster.Partition at DEBUG: the remote LEO that a leader keeps of a follower.
_REMOTE = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d{4}) \[.*?\] DEBUG \S+ - \[Partition (\S+)-(\d+) broker=\d+\] "
    r"Recorded replica (\d+) log end offset \(LEO\) position (\d+)"
)


class Remote(NamedTuple):
    """A leader noted a follower's LEO; ``line`` of its server.log."""

    where: TopicPartition
    leader: int
    follower: int
    t_ns: int
    leo: int
    line: int


@dataclass(frozen=True)
class Recording:
    """What a run recorded; every sequence is in the order of time.

    ``sends``, ``polls``, ``usage`` and ``lines`` are rows of these tables and of ``kafka_files.broker_log``.
    ``effective_min_isr`` maps a topic to min.insync.replicas, ``data`` a broker to its collected data folder.
    """

    run_id: str = "run"
    kafka: str = ""
    mode: str = "kraft"
    started_ns: int = 0
    effective_min_isr: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    samples: Mapping[TopicPartition, Sequence[Sample]] = field(default_factory=dict)
    states: Mapping[TopicPartition, Sequence[State]] = field(default_factory=dict)
    sends: Sequence[Mapping[str, Any]] = ()
    polls: Sequence[Mapping[str, Any]] = ()  # of live consumers
    final: Sequence[Mapping[str, Any]] = ()  # of the final drain
    lines: Sequence[Mapping[str, Any]] = ()
    usage: Sequence[Mapping[str, Any]] = ()
    remotes: Sequence[Remote] = ()
    events: Sequence[Event] = ()
    data: Mapping[int, Path] = field(default_factory=dict)
    roles: Sequence[str] = ()

    # --- looking things up ---------------------------------------------------------------------

    def of(self, where: TopicPartition, broker: int) -> list[Sample]:
        """The samples of one replica."""
        return [sample for sample in self.samples.get(where, ()) if sample.broker == broker]

    def state_at(self, where: TopicPartition, t_ns: int) -> State | None:
        """The controller's state of a partition at a moment."""
        history = self.states.get(where, ())
        at = bisect_right([state.t_ns or 0 for state in history], t_ns)
        return history[at - 1] if at else None

    def lead(self, where: TopicPartition) -> list[Sample]:
        """The samples that a partition's leaders gave in their own epochs."""
        leaders = {state.leader_epoch: state.leader for state in self.states.get(where, ())}
        return [sample for sample in self.samples.get(where, ()) if leaders.get(sample.epoch) == sample.broker]

    def faults(self, key: str) -> Iterator[tuple[int, int, int]]:
        """Faults of a kind as (broker, from_ns, until_ns), from when they were active until their heal was asked."""
        for number, event in enumerate(self.events):
            if event.kind == "injected" and event.step == key:
                heals = (e.t_ns for e in self.events[number:] if (e.kind, e.target) == ("heal", event.target))
                until_ns = next(heals, self.events[-1].t_ns)
                for name in event.target.split(", "):
                    yield int(name.removeprefix("broker-")), event.t_ns, until_ns

    def described(self) -> list[Event]:
        return [event for event in self.events if event.kind == "described"]

    # --- evidence ------------------------------------------------------------------------------

    def at_s(self, t_ns: int | None) -> float | None:
        return None if t_ns is None else round((t_ns - self.started_ns) / SECOND_NS, 3)

    def saw(self, where: TopicPartition, sample: Sample, note: str = "") -> Evidence:
        """A sample as evidence."""
        text = f"{where} on broker {sample.broker}: HW {sample.hw}, LEO {sample.leo}, epoch {sample.epoch}"
        return Evidence("replicas/", self.at_s(sample.received_ns), f"{text}{note}")

    def decided(self, state: State) -> Evidence:
        """A state as evidence."""
        text = (
            f"{state.topic}-{state.partition}: leader {state.leader}, epoch {state.leader_epoch}, "
            f"ISR {list(state.isr)}, replicas {list(state.replicas)}"
        )
        folder = "zookeeper" if state.source == "znode" else "controller"
        return Evidence(f"brokers/{folder}/data/", self.at_s(state.t_ns), text)

    def said(self, line: Mapping[str, Any]) -> Evidence:
        """A broker's log line as evidence."""
        source = f"brokers/broker-{line['broker_id']}/server.log:{line['line']}"
        # Where the run's folder was is nobody's business; what stands in it is.
        return Evidence(source, self.at_s(line["t_ns"]), re.sub(r"dir=\S*/work/", "dir=", str(line["text"])))

    def noted(self, remote: Remote) -> Evidence:
        """A leader's note of a follower's LEO as evidence."""
        text = f"{remote.where}: broker {remote.follower} is at {remote.leo}, notes its leader"
        return Evidence(f"brokers/broker-{remote.leader}/server.log:{remote.line}", self.at_s(remote.t_ns), text)

    def sent(self, send: Mapping[str, Any]) -> Evidence:
        """A send as evidence."""
        told = f"offset {send['offset']}" if send["error"] is None else str(send["error"])
        who = f"{send['producer_id']} record {send['seq']}, acks={send['acks']}"
        text = f"{send['topic']}-{send['partition']}: {who}: {told}"
        return Evidence("sends/", self.at_s(send["done_ns"]), text)

    def happened(self, event: Event, text: str) -> Evidence:
        """Something of the events as evidence."""
        return Evidence("events.jsonl", self.at_s(event.t_ns), text)


def open_recording(run: Path) -> Recording:
    """Read a collected run folder.

    Raises:
        EvidenceError: it is no run folder.
    """
    folder = RunFolder(run)
    manifest = read_manifest(folder.manifest)
    clock = read_clock(folder.path / "clock.jsonl")
    read = read_znodes if manifest.mode == "zookeeper" else read_metadata_log
    own = [state for state in read(folder.brokers, clock) if state.topic in manifest.topics and state.t_ns is not None]
    lines = [line for line in read_broker_logs(folder.brokers, manifest, clock) if line["t_ns"] is not None]
    return Recording(
        run_id=manifest.run_id,
        kafka=manifest.kafka_version,
        mode=manifest.mode or "",
        started_ns=manifest.started_ns,
        effective_min_isr={
            name: int(manifest.topic_setting(name, "min.insync.replicas", "1")) for name in manifest.topics
        },
        settings=manifest.brokers[0].config,
        samples=_samples(folder),
        states=by_partition(own),
        sends=sorted(_rows(folder, "sends"), key=lambda row: row["due_ns"]),
        polls=_polls(folder, "live"),
        final=_polls(folder, "final"),
        usage=sorted(_rows(folder, "usage"), key=lambda row: row["t_ns"]),
        lines=sorted(lines, key=lambda line: line["t_ns"]),
        remotes=sorted(_remotes(folder, manifest, clock), key=lambda remote: remote.t_ns),
        events=list(read_events(folder.events)),
        data={node.node_id or 0: folder.brokers / node.name / "data" for node in manifest.brokers},
        roles=[node.role for node in manifest.nodes],
    )


def _rows(folder: RunFolder, table: str) -> list[dict[str, Any]]:
    files = sorted(folder.table(table).glob("*.parquet"))
    return [row for file in files for row in read_parquet(file).to_pylist()]


def _polls(folder: RunFolder, kind: str) -> list[dict[str, Any]]:
    own = (row for row in _rows(folder, "polls") if row["pass"] == kind)
    return sorted(own, key=lambda row: row["received_ns"])


def _samples(folder: RunFolder) -> dict[TopicPartition, list[Sample]]:
    found: dict[TopicPartition, list[Sample]] = defaultdict(list)
    for row in _rows(folder, "replicas"):
        if row["error"] is None and row["high_watermark"] is not None and row["log_end_offset"] is not None:
            found[TopicPartition.of(row)].append(
                Sample(
                    row["broker_id"],
                    row["leader_epoch"],
                    row["sent_ns"],
                    row["received_ns"],
                    row["high_watermark"],
                    row["log_end_offset"],
                    row["incarnation"],
                    row["log_start_offset"],
                    row["single_reply"],
                )
            )
    return {where: sorted(samples, key=lambda sample: sample.received_ns) for where, samples in found.items()}


def _remotes(folder: RunFolder, manifest: Manifest, clock: Clock) -> Iterator[Remote]:
    for node in manifest.brokers:
        log = folder.brokers / node.name / "server.log"
        if not log.is_file():
            continue
        with log.open(errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if (found := _REMOTE.match(line)) and found[2] in manifest.topics:
                    moment = datetime.strptime(found[1], "%Y-%m-%dT%H:%M:%S.%f%z")
                    t_ns = clock.monotonic_ns(wall_ns(moment))
                    if t_ns is not None:
                        where = TopicPartition(found[2], int(found[3]))
                        yield Remote(where, node.node_id or 0, int(found[4]), t_ns, int(found[5]), number)
