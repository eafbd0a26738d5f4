"""Collect all evidence about one partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.batches import read_batches
from evidence.columns import (
    FINAL,
    Log,
    Markers,
    Names,
    Polls,
    Samples,
    Seeks,
    Sends,
    ToldNames,
    Views,
    bools,
    damaged,
    ints,
    with_operations,
)
from evidence.counts import UNREADABLE, Counts, log_end, of_clients, of_copier, of_logs, of_replicas
from evidence.facts import Facts, Span
from evidence.groups import Commits, GroupEvidence, GroupFacts, Reads, ownerships
from evidence.partition import Copied, Drain, PartitionEvidence, Replica, Row, Unreadable
from evidence.reader import Tables
from evidence.readers import ReaderEvidence, ReaderFacts
from evidence.shares import Acks, Deliveries, ShareEvidence, ShareFacts
from evidence.views import changes, final_isr, first_leaders, observed, short_isrs
from history.folder import RunFolder
from history.partition import TopicPartition
from history.payload import copier_id
from kafka_files.segments import SEGMENTS, read_segment

# Possible causes of a case (``judge.checks.causes``).
NEW_LEADER = "new_leader"
UNCLEAN_LEADER = "unclean_leader"
LOST_COPY = "lost_copy"  # a fault removed the only live in-sync copy
SENT_AGAIN = "sent_again"
NEVER_READ = "never_read"  # no reader shows a broker had the record
COPIER_BEGAN_ANEW = "copier_began_anew"  # the copier resumed at the committed offset
MEMBER_ENDED = "member_ended"  # the member ended between commit and processing
RELEASED = "released"  # members released the record at each delivery
SHORT_ISR = "short_isr"  # final ISR below min.insync.replicas


class Permission(NamedTuple):
    """Why a producer may show an anomaly, and the cause required."""

    why: str
    cause: str


Permitted = Mapping[str, Mapping[str, Sequence[Permission]]]  # producer → anomaly → permissions
Transaction = tuple[str, int]  # producer, number


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run, sent to each worker.

    ``load_spans`` are the phases from their last load on, ``ended`` the completed ones. Producers: ``open_loops``
    ignore responses; ``resending`` are idempotent and met a fault that can move a leader; ``gave_up`` are idempotent,
    non-transactional, and gave up a response. ``disturbances`` may have cost a producer a response. In an imported
    history, ``subscribed`` consumers have group assignment, and ``from_start`` ones began at the first record.
    ``group`` and ``share`` need complete records.
    """

    folder: Path
    foreign: bool = False
    transactional: bool = False
    nodes: Mapping[int, str] = field(default_factory=dict)
    permitted: Permitted = field(default_factory=dict)
    unclean_producers: frozenset[str] = frozenset()
    subscribed: frozenset[str] = frozenset()
    from_start: Mapping[TopicPartition, Sequence[str]] = field(default_factory=dict)
    open_loops: frozenset[str] = frozenset()
    resending: frozenset[str] = frozenset()
    gave_up: frozenset[str] = frozenset()
    spans: tuple[Span, ...] = ()
    load_spans: tuple[Span, ...] = ()
    ended: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    faults: tuple[tuple[int, int], ...] = ()
    disturbances: tuple[tuple[int, int], ...] = ()
    request_timeouts_ns: Mapping[str, int] = field(default_factory=dict)
    transaction_limit_ns: int = 0
    origin_ns: int = 0
    probe_hz: float = 0.0
    group: GroupFacts | None = None
    share: ShareFacts | None = None
    readers: ReaderFacts | None = None


class Input(NamedTuple):
    """A copier's input partition and committed offset; ``whole``: the drain is complete."""

    where: TopicPartition
    committed: int
    whole: bool
    deleted_before: int = 0
    clean: bool = True
    kept: bool = True


@dataclass(frozen=True)
class Question:
    """A partition to gather, sent to a worker.

    ``size`` is in bytes. ``assigned`` are the brokers with a replica, ``ends`` the last captured log ends. ``owed``
    maps a broker to the offset from which it must have all records. ``committed`` transactions have an unknown outcome,
    but a record of each was read; ``torn`` ones are incomplete across partitions.
    """

    where: TopicPartition
    size: int = 0
    replicas: tuple[Replica, ...] = ()
    assigned: tuple[int, ...] = ()
    ends: Mapping[int, int] = field(default_factory=dict)
    owed: Mapping[int, int] = field(default_factory=dict)
    drain: Drain | None = None
    deleted_before: int | None = None
    final: int | None = None
    clean: bool = True
    kept: bool = True
    expires: bool = False
    tombstones_stay_ns: int = 0
    idempotent: bool = False
    facts: Facts = field(default_factory=Facts)
    lines: Sequence[Row] = ()
    captures: Sequence[Row] = ()
    committed: frozenset[Transaction] = frozenset()
    torn: frozenset[Transaction] = frozenset()
    input: Input | None = None  # if a copier writes the partition


class Gathered(NamedTuple):
    """A partition's evidence and counts."""

    evidence: PartitionEvidence
    counts: Counts


class Clients(NamedTuple):
    """The clients' records, and an imported history's names."""

    names: Names
    sends: Sends
    polls: Polls
    told_names: ToldNames | None


def clients(run: RunFacts, where: TopicPartition) -> Clients:
    """Read the clients' records of a partition."""
    tables, names = Tables(RunFolder(run.folder)), Names()
    sends = Sends.of(tables.read("sends", where), names)
    polls = Polls.of(tables.read("polls", where), names)
    if not run.foreign:
        return Clients(names, sends, polls, None)
    told_names = ToldNames.of(tables.read("imported", where), names)
    return Clients(names, with_operations(sends, told_names), polls, told_names)


def _group(run: RunFacts, where: TopicPartition, names: Names) -> GroupEvidence | None:
    if run.group is None or where.topic != run.group.topic:
        return None
    tables = Tables(RunFolder(run.folder))
    reads = Reads.of(tables.read("group_reads", where), names)
    commits = Commits.of(tables.read("commits", where), names)
    owned = ownerships(tables.read("rebalances", where), reads, commits, names)
    told = run.group
    return GroupEvidence(reads, commits, owned, told.session_ns, run.faults, told.ended, told.commits_ahead)


def _share(run: RunFacts, where: TopicPartition, names: Names) -> ShareEvidence | None:
    if run.share is None or where.topic != run.share.topic:
        return None
    tables = Tables(RunFolder(run.folder))
    reads = Deliveries.of(tables.read("share_reads", where), names)
    return ShareEvidence(reads, Acks.of(tables.read("share_acks", where), names), run.share, run.faults)


def _readers(run: RunFacts, question: Question) -> ReaderEvidence | None:
    if run.readers is None or not question.assigned:  # other topics have no reader
        return None
    return ReaderEvidence.of(Tables(RunFolder(run.folder)).read("positions", question.where), run.readers)


# What the evidence has from the facts about the run, and from the question.
_OF_RUN = ("nodes", "transactional", "unclean_producers", "faults", "disturbances", "request_timeouts_ns")
_OF_PARTITION = (
    *("drain", "deleted_before", "facts", "final", "clean", "kept", "expires"),
    *("tombstones_stay_ns", "idempotent", "lines", "captures"),
)


def gather(run: RunFacts, question: Question) -> Gathered:
    """Read all evidence about one partition."""
    tables, where = Tables(RunFolder(run.folder)), question.where
    names, sends, polls, told_names = clients(run, where)
    seeks = Seeks.of(tables.read("seeks", where), names)
    probes, shown = tables.read("replicas", where), tables.read("isr", where)
    samples, views = Samples.of(probes), Views.of(shown, names)
    held = _Logs(names, run.nodes)
    replicas, complete = held.read_all(question), held.complete(question.ends)
    evidence = PartitionEvidence(
        where=where,
        names=names,
        sends=sends,
        polls=polls,
        seeks=seeks,
        samples=samples,
        logs=held.logs,
        markers=held.markers,
        unreadable=tuple(held.unreadable),
        complete=complete,
        whole=bool(question.assigned) and complete.issuperset(question.assigned),
        leaders=first_leaders(views),
        told_names=told_names,
        views=views,
        changes=changes(question.facts.states, views, names),
        epoch_starts=_starts(question.replicas),
        observed=observed(probes),
        replicas=replicas,
        batches={} if run.foreign else {each.broker_id: read_batches(each.segments) for each in replicas},
        copied=_copied(tables, question.input) if question.input else None,
        members={broker: question.owed.get(broker, 0) for broker in final_isr(views) if broker in complete},
        short=() if run.foreign else short_isrs(question.facts, views, names),
        group=_group(run, where, names),
        share=_share(run, where, names),
        readers=_readers(run, question),
        **{name: getattr(run, name) for name in _OF_RUN},
        **{name: getattr(question, name) for name in _OF_PARTITION},
    )
    probed = of_replicas(where, samples, run.ended, rows=probes.num_rows, isr_rows=shown.num_rows)
    return Gathered(evidence, _counts(evidence, held).merge([probed]))


def _counts(of: PartitionEvidence, held: _Logs) -> Counts:
    logs = of_logs(of.where, held.ends, held.unreadable, held.holes)
    return of_clients(of.sends, of.polls, of.seeks, of.names).merge([logs, of_copier(of.where, of.copied)])


def _copied(tables: Tables, of: Input) -> Copied:
    polls = Polls.of(tables.read("polls", of.where), Names())
    offsets = np.unique(polls.offset[polls.pass_ == FINAL])
    return Copied(
        producer=copier_id(of.where.partition),
        offsets=offsets,
        committed=of.committed,
        whole=of.whole,
        deleted_before=of.deleted_before,
        clean=of.clean,
        kept=of.kept,
    )


def _starts(replicas: Sequence[Replica]) -> dict[int, int]:
    """Return each epoch's smallest start in any epoch file."""
    found: dict[int, int] = {}
    for epoch, start in (entry for replica in replicas for entry in replica.epochs or ()):
        found[epoch] = min(start, found.get(epoch, start))
    return found


@dataclass
class _Logs:
    names: Names
    nodes: Mapping[int, str]
    logs: dict[int, Log] = field(default_factory=dict)
    markers: dict[int, Markers] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)
    holes: dict[int, tuple[int, int]] = field(default_factory=dict)

    def read_all(self, question: Question) -> tuple[Replica, ...]:
        """Read all replicas' segments; return the replicas that have some."""
        replicas = [self.read(replica, kept=question.kept) for replica in question.replicas]
        return tuple(replica for replica in replicas if replica.segments)

    def complete(self, captured_ends: Mapping[int, int]) -> frozenset[int]:
        """Return the brokers whose log could be read to its captured end."""
        damaged = {place.broker_id for place in self.unreadable if place.problem.startswith(UNREADABLE)}
        reached = {broker for broker, end in self.ends.items() if end >= captured_ends.get(broker, end + 1)}
        return frozenset(reached - damaged)

    def read(self, replica: Replica, *, kept: bool) -> Replica:
        """Read a replica's segments up to a gap.

        A segment starts at the previous end, unless compaction removed it.
        """
        broker, node = replica.broker_id, self.nodes[replica.broker_id]
        parts, end = [SEGMENTS.empty_table()], replica.log_start_offset or 0
        for file in replica.segments:
            if kept and int(file.stem) > end:
                self.holes[broker] = end, int(file.stem)
                break
            parts.append(pa.Table.from_batches(read_segment(node, file), SEGMENTS))
            end = log_end(file, parts[-1])
        files = replica.segments[: len(parts) - 1]
        if files:
            self._keep(broker, node, pa.concat_tables(parts))
            self.ends[broker] = end
        return replica._replace(segments=files)

    def _keep(self, broker: int, node: str, table: pa.Table) -> None:
        for row in table.filter(pc.is_valid(table["problem"])).select(["batch_offset", "problem"]).to_pylist():
            self.unreadable.append(Unreadable(broker, node, row["batch_offset"], row["problem"]))
        ends = table.filter(pc.is_in(table["marker"], pa.array(["commit", "abort"])))
        self.markers[broker] = Markers(
            kafka_producer_id=ints(ends["kafka_producer_id"]),
            offset=ints(ends["last_offset"]),
            committed=bools(pc.equal(ends["marker"], "commit")),
        )
        found = table.filter(pc.is_valid(table["offset"]))
        self.logs[broker] = Log(
            offset=ints(found["offset"]),
            value=self.names.values(found["producer_id"], found["seq"]),
            leader_epoch=ints(found["leader_epoch"]),
            damaged=damaged(found["checksum_ok"]),
            kafka_producer_id=ints(found["kafka_producer_id"]),
            transactional=bools(found["transactional"]),
        )
