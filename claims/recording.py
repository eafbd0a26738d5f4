"""A run's evidence as rows in time order, with the judge's findings."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from claims.answer import Evidence
from evidence.columns import Samples
from evidence.faults import fault_spans
from evidence.reader import Tables
from evidence.run import Run, open_folder
from history.events import Event
from history.folder import RunFolder
from history.partition import TopicPartition
from judge.run import judge_run, one_by_one
from kafka_files.clock import wall_ns
from kafka_files.states import State

SECOND_NS = 1_000_000_000
_REMOTE = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d{4}) \[.*?\] DEBUG \S+ - \[Partition (\S+)-(\d+) broker=\d+\] "
    r"Recorded replica (\d+) log end offset \(LEO\) position (\d+)"
)


class Sample(NamedTuple):
    """A broker's answer with its replica's HW and LEO."""

    broker: int
    epoch: int
    sent_ns: int
    received_ns: int
    hw: int
    leo: int
    incarnation: int = 1
    log_start: int = 0
    single: bool = True  # otherwise LEO was requested before HW


class Remote(NamedTuple):
    """A follower's LEO in the leader's log."""

    where: TopicPartition
    leader: int
    follower: int
    t_ns: int
    leo: int
    line: int


@dataclass(frozen=True)
class Recording:
    """The evidence of a run, in time order.

    ``effective_min_isr`` is by topic, ``data`` the data folder by broker.
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
    final: Sequence[Mapping[str, Any]] = ()
    lines: Sequence[Mapping[str, Any]] = ()
    usage: Sequence[Mapping[str, Any]] = ()
    remotes: Sequence[Remote] = ()
    events: Sequence[Event] = ()
    found: Mapping[str, Sequence[Evidence]] = field(default_factory=dict)
    data: Mapping[int, Path] = field(default_factory=dict)
    roles: Sequence[str] = ()

    # --- look-ups ------------------------------------------------------------------------------

    def of(self, where: TopicPartition, broker: int) -> list[Sample]:
        return self._of.get((where, broker), [])

    @cached_property
    def _of(self) -> dict[tuple[TopicPartition, int], list[Sample]]:
        found = defaultdict[tuple[TopicPartition, int], list[Sample]](list)
        for where, samples in self.samples.items():
            for sample in samples:
                found[where, sample.broker].append(sample)
        return dict(found)

    def state_at(self, where: TopicPartition, t_ns: int) -> State | None:
        at = bisect_right(self._decided_ns.get(where, ()), t_ns)
        return self.states[where][at - 1] if at else None

    @cached_property
    def _decided_ns(self) -> dict[TopicPartition, list[int]]:
        return {where: [state.t_ns or 0 for state in history] for where, history in self.states.items()}

    def lead(self, where: TopicPartition) -> list[Sample]:
        """Return the leaders' samples in their own epochs."""
        return self._told[where][0] if where in self._told else []

    def following(self, where: TopicPartition) -> list[Sample]:
        return self._told[where][1] if where in self._told else []

    @cached_property
    def _told(self) -> dict[TopicPartition, tuple[list[Sample], list[Sample]]]:
        found = {}
        for where, samples in self.samples.items():
            leaders = {state.leader_epoch: state.leader for state in self.states.get(where, ())}
            own: tuple[list[Sample], list[Sample]] = [], []
            for sample in samples:
                own[leaders.get(sample.epoch) != sample.broker].append(sample)
            found[where] = own
        return found

    def faults(self, key: str) -> Iterator[tuple[int, int, int]]:
        """Yield (broker, from_ns, until_ns), from effect to the start of healing."""
        for fault in fault_spans(self.events):
            if fault.step == key and "injected" in fault.events:
                until_ns = fault.at_ns("heal", self.events[-1].t_ns)
                for name in fault.nodes:
                    yield int(name.removeprefix("broker-")), fault.at_ns("injected"), until_ns

    def against(self, *names: str) -> list[Evidence]:
        return [row for name in names for row in self.found.get(name, ())]

    def described(self) -> list[Event]:
        return [event for event in self.events if event.kind == "described"]

    # --- evidence ------------------------------------------------------------------------------

    def at_s(self, t_ns: int | None) -> float | None:
        return None if t_ns is None else round((t_ns - self.started_ns) / SECOND_NS, 3)

    def saw(self, where: TopicPartition, sample: Sample, note: str = "") -> Evidence:
        text = f"{where} on broker {sample.broker}: HW {sample.hw}, LEO {sample.leo}, epoch {sample.epoch}"
        return Evidence("replicas/", self.at_s(sample.received_ns), f"{text}{note}")

    def decided(self, state: State) -> Evidence:
        text = (
            f"{state.topic}-{state.partition}: leader {state.leader}, epoch {state.leader_epoch}, "
            f"ISR {list(state.isr)}, replicas {list(state.replicas)}"
        )
        folder = "zookeeper" if state.source == "znode" else "controller"
        return Evidence(f"brokers/{folder}/data/", self.at_s(state.t_ns), text)

    def said(self, line: Mapping[str, Any]) -> Evidence:
        source = f"brokers/broker-{line['broker_id']}/server.log:{line['line']}"
        # The run's folder is private.
        return Evidence(source, self.at_s(line["t_ns"]), re.sub(r"dir=\S*/work/", "dir=", str(line["text"])))

    def noted(self, remote: Remote) -> Evidence:
        text = f"{remote.where}: broker {remote.follower} is at {remote.leo}, notes its leader"
        return Evidence(f"brokers/broker-{remote.leader}/server.log:{remote.line}", self.at_s(remote.t_ns), text)

    def sent(self, send: Mapping[str, Any]) -> Evidence:
        told = f"offset {send['offset']}" if send["error"] is None else str(send["error"])
        who = f"{send['producer_id']} record {send['seq']}, acks={send['acks']}"
        text = f"{send['topic']}-{send['partition']}: {who}: {told}"
        return Evidence("sends/", self.at_s(send["done_ns"]), text)

    def happened(self, event: Event, text: str) -> Evidence:
        return Evidence("events.jsonl", self.at_s(event.t_ns), text)


def open_recording(run: Path) -> Recording:
    """Read a collected run folder.

    Raises:
        EvidenceError: it is no run, unreadable, or differs from its seal.
    """
    folder = RunFolder(run)
    folder.require_intact()
    opened = open_folder(folder)
    manifest, tables = opened.manifest, Tables(opened.folder)
    polls = defaultdict[str, list[dict[str, Any]]](list)
    for row in sorted(_rows(tables, "polls"), key=itemgetter("received_ns")):
        polls[row["pass"]].append(row)
    states = {
        where: dated
        for where, history in opened.states.items()
        if (dated := [state for state in history if state.t_ns is not None])
    }
    return Recording(
        run_id=manifest.run_id,
        kafka=manifest.kafka_version,
        mode=manifest.mode or "",
        started_ns=manifest.started_ns,
        effective_min_isr={
            name: int(manifest.topic_setting(name, "min.insync.replicas", "1")) for name in manifest.topics
        },
        settings=manifest.brokers[0].config,
        samples={where: samples_of(tables.read("replicas", where)) for where in tables.partitions("replicas")},
        states=states,
        sends=sorted(_rows(tables, "sends"), key=itemgetter("due_ns")),
        polls=polls["live"],
        final=polls["final"],
        usage=sorted(opened.usage, key=itemgetter("t_ns")),
        lines=sorted((line for line in opened.lines if line["t_ns"] is not None), key=itemgetter("t_ns")),
        remotes=sorted(_remotes(opened), key=lambda remote: remote.t_ns),
        events=opened.events,
        found=findings(opened),
        data={node.node_id or 0: opened.folder.brokers / node.name / "data" for node in manifest.brokers},
        roles=[node.role for node in manifest.nodes],
    )


def _rows(tables: Tables, name: str) -> list[dict[str, Any]]:
    return [row for where in tables.partitions(name) for row in tables.read(name, where).to_pylist()]


def samples_of(probes: pa.Table) -> list[Sample]:
    """Return a partition's valid answers in the order received."""
    columns = Samples.of(probes).answered
    own = (columns.broker, columns.epoch, columns.sent_ns, columns.received_ns, columns.hw, columns.leo)
    more = (columns.incarnation, columns.log_start, columns.single_reply)
    return [Sample(*row) for row in zip(*(column.tolist() for column in (*own, *more)), strict=True)]


def findings(run: Run) -> dict[str, list[Evidence]]:
    """Return the judge's findings by invariant or anomaly."""
    judged, found = judge_run(run, one_by_one), defaultdict[str, list[Evidence]](list)
    for row in judged.tables["invariants"].to_pylist():
        if row["violations"]:
            found[row["invariant"]].append(Evidence("verdict/invariants/", None, row["reason"]))
    for row in judged.tables["anomalies"].to_pylist():
        found[row["anomaly"]].append(Evidence("verdict/anomalies/", None, row["explanation"]))
    return dict(found)


def _remotes(run: Run) -> Iterator[Remote]:
    for node in run.manifest.brokers:
        log = run.folder.brokers / node.name / "server.log"
        if not log.is_file():
            continue
        with log.open(errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if (found := _REMOTE.match(line)) and found[2] in run.manifest.topics:
                    moment = datetime.strptime(found[1], "%Y-%m-%dT%H:%M:%S.%f%z")
                    t_ns = run.clock.monotonic_ns(wall_ns(moment))
                    if t_ns is not None:
                        where = TopicPartition(found[2], int(found[3]))
                        yield Remote(where, node.node_id or 0, int(found[4]), t_ns, int(found[5]), number)
