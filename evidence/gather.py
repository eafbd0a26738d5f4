"""Collect all evidence about one partition from the run folder: recorded tables, and every replica's segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.batches import read_batches
from evidence.columns import (
    FINAL,
    NULL,
    ImportedNames,
    Ints,
    Log,
    Markers,
    Names,
    Polls,
    Seeks,
    Sends,
    Views,
    groups,
    ints,
    with_operations,
)
from evidence.counts import UNREADABLE, Counts, log_end, of_clients, of_copier, of_logs, of_replicas
from evidence.facts import FOREVER_NS, Input, PartitionFacts, Replica, RunFacts
from evidence.groups import Commits, GroupEvidence, Reads, ownerships
from evidence.partition import PartitionEvidence, Unreadable
from evidence.reader import Tables
from evidence.readers import ReaderEvidence
from evidence.samples import Looks, Samples, thinned
from evidence.shares import Acks, Deliveries, ShareEvidence
from evidence.views import changes, final_isr, short_isrs
from evidence.views import thinned as thinned_views
from evidence.windows import ROWS as WINDOW_ROWS
from evidence.windows import Window, windows
from expectations.tallies import BY_PARTITION, Tallies
from history.folder import RunFolder
from history.partition import TopicPartition
from kafka_files.segments import SEGMENTS, read_segment


class Gathered(NamedTuple):
    """A partition's evidence and counts."""

    evidence: PartitionEvidence
    counts: Counts


class Clients(NamedTuple):
    """The clients' ledgers, and an imported history's names."""

    names: Names
    sends: Sends
    polls: Polls
    imported_names: ImportedNames | None


def clients(run: RunFacts, read: Reading) -> Clients:
    """Read the sends and polls of a partition, and an imported history's names."""
    names = Names()
    sends = Sends.of(read("sends"), names)
    polls = Polls.of(read("polls"), names)
    if not run.foreign:
        return Clients(names, sends, polls, None)
    imported = ImportedNames.of(read("imported"), names)
    return Clients(names, with_operations(sends, imported), polls, imported)


class Reading:
    """Reads one partition's rows, and counts those that break a contract in ``tallies``."""

    def __init__(self, run: RunFacts, where: TopicPartition, tallies: Tallies | None = None) -> None:
        self.tables, self._where = Tables(RunFolder(run.folder)), where
        self._counts, self.tallies = tallies is not None, tallies or Tallies()

    def __call__(self, name: str) -> pa.Table:
        return self._counted(name, self.tables.read(name, self._where))

    def windows(self, name: str, by: str) -> Iterator[Window]:
        """Yield a table's rows in windows of the time ``by``."""
        for window in windows(self.tables, name, self._where, by):
            self._counted(name, window.rows)
            yield window

    def _counted(self, name: str, rows: pa.Table) -> pa.Table:
        if self._counts:
            self.tallies.add(name, rows)
        return rows


def _group(read: Reading, run: RunFacts, where: TopicPartition, names: Names) -> GroupEvidence | None:
    if run.group is None or where.topic != run.group.topic:
        return None
    reads = Reads.of(read("group_reads"), names)
    commits = Commits.of(read("commits"), names)
    owned = ownerships(read("rebalances"), reads, commits, names)
    return GroupEvidence(reads, commits, owned, run.group)


def _share(read: Reading, run: RunFacts, where: TopicPartition, names: Names) -> ShareEvidence | None:
    if run.share is None or where.topic != run.share.topic:
        return None
    reads = Deliveries.of(read("share_reads"), names)
    return ShareEvidence(reads, Acks.of(read("share_acks"), names), run.share, run.active_faults)


def _readers(read: Reading, run: RunFacts, facts: PartitionFacts) -> ReaderEvidence | None:
    if run.readers is None or not facts.assigned:  # other topics have no reader
        return None
    return ReaderEvidence.of(read("positions"), run.readers)


class Watch(Protocol):
    """Checks a partition's samples window by window, and says which of them it looks at later."""

    def looks(self, of: PartitionEvidence) -> Looks:
        """Return what is looked at after the last window; ``of`` has no samples yet."""

    def see(self, of: PartitionEvidence) -> None:
        """Check the samples of one window."""


def gather(run: RunFacts, facts: PartitionFacts, watch: Watch | None = None) -> Gathered:
    """Read a partition's recorded tables and its replicas' segments, and count what was read.

    With a ``watch``, only the samples that it looks at stay.
    """
    read, where = Reading(run, facts.where, Tallies()), facts.where
    names, sends, polls, imported_names = clients(run, read)
    seeks = Seeks.of(read("seeks"), names)
    views = _views(read, facts, names, thin=watch is not None)
    logs = _Logs(names, run.nodes)
    replicas, complete = logs.read_all(facts), logs.complete(facts.ends)
    evidence = PartitionEvidence(
        **({each.name: getattr(facts, each.name) for each in fields(PartitionFacts)} | {"replicas": replicas}),
        run=run,
        names=names,
        sends=sends,
        polls=polls,
        seeks=seeks,
        samples=Samples.nothing(),
        logs=logs.logs,
        markers=logs.markers,
        unreadable=tuple(logs.unreadable),
        complete=complete,
        whole=bool(facts.assigned) and complete.issuperset(facts.assigned),
        imported_names=imported_names,
        views=views,
        changes=changes(facts.states, views, names),
        epoch_starts=_starts(facts.replicas),
        batches={} if run.foreign else {each.broker_id: read_batches(each.segments) for each in replicas},
        input_offsets=_drained(run, facts.input),
        members={broker: facts.required_from.get(broker, 0) for broker in final_isr(views) if broker in complete},
        short=() if run.foreign else short_isrs(facts, views, names),
        group=_group(read, run, where, names),
        share=_share(read, run, where, names),
        readers=_readers(read, run, facts),
    )
    evidence = _watched(read, evidence, watch)
    for name in sorted(set(BY_PARTITION) - read.tallies.rows.keys()):  # no check of this run reads it
        read(name)
    return Gathered(evidence, _counts(evidence, logs, read.tallies))


def _views(read: Reading, facts: PartitionFacts, names: Names, *, thin: bool) -> Views:
    """Return the metadata views that checks need."""
    found = Views.nothing()
    begins = (stretch.from_ns for stretch in facts.stretches)
    shrunk = (line["t_ns"] for line in facts.lines if line["kind"] == "isr_shrinking" and line["t_ns"] is not None)
    moments = np.array(sorted({*begins, *shrunk}), dtype=np.int64)
    for window in read.windows("isr", "sent_ns"):
        found = found.with_views(Views.of(window.rows, names), names)
        found = thinned_views(found, moments, window.ends_ns - 1) if thin else found
    return found


def _watched(read: Reading, of: PartitionEvidence, watch: Watch | None) -> PartitionEvidence:
    """Return the evidence with samples."""
    probes = read.windows("replicas", "sent_ns")
    first = next(probes)
    parts = ((Samples.of(window.rows), window.ends_ns) for window in chain([first], probes))
    return in_windows(replace(of, observed=_observed(read.tables, of.where, first)), parts, watch)


def in_windows(
    of: PartitionEvidence, parts: Iterable[tuple[Samples, int]], watch: Watch | None = None
) -> PartitionEvidence:
    """Return the evidence with the samples of all windows; with a ``watch``, with those that it looks at.

    ``parts``: each window's samples, and the time before which no later one is sent.
    """
    if watch is None:
        return replace(of, samples=reduce(Samples.with_rows, (samples for samples, _ in parts)))
    looks, of = watch.looks(of), replace(of, samples=Samples.nothing(), window=(NULL, NULL))
    for samples, ends_ns in parts:
        until_ns = ends_ns if ends_ns == FOREVER_NS else ends_ns - 1  # an answer may come when its request is sent
        of = replace(of, samples=of.samples.with_rows(samples), window=(of.window[1], until_ns))
        watch.see(of)
        of = replace(of, samples=thinned(of.samples, looks, until_ns))
    return of


def _observed(tables: Tables, where: TopicPartition, first: Window) -> dict[int, tuple[int, int]]:
    """Return the first and last probe of each broker's replica."""
    columns, found = ["broker_id", "received_ns"], dict[int, tuple[int, int]]()
    several = chain.from_iterable(tables.batches("replicas", where, WINDOW_ROWS, columns))
    for probes in [first.rows] if first.ends_ns == FOREVER_NS else several:
        received = ints(probes["received_ns"])
        for (broker,), rows in groups(ints(probes["broker_id"])):
            low, high = found.get(broker, (FOREVER_NS, NULL))
            found[broker] = min(low, int(received[rows].min())), max(high, int(received[rows].max()))
    return found


def samples_of(run: RunFacts, where: TopicPartition, looks: Looks) -> Samples:
    """Read again the samples that somebody looks at."""
    found = Samples.nothing()
    for window in windows(Tables(RunFolder(run.folder)), "replicas", where, "sent_ns"):
        found = thinned(found.with_rows(Samples.of(window.rows)), looks, window.ends_ns - 1)
    return found


def _counts(of: PartitionEvidence, logs: _Logs, tallies: Tallies) -> Counts:
    rows = tallies.rows
    probed = of_replicas(of.where, of.samples, of.run.spans, rows=rows["replicas"], isr_rows=rows["isr"])
    of_partition = of_clients(of.sends, of.polls, of.seeks, of.names)
    logged = of_logs(of.where, logs.ends, logs.unreadable, logs.gaps)
    return of_partition.merge([logged, of_copier(of), probed, Counts(tallies=tallies)])


def _drained(run: RunFacts, of: Input | None) -> Ints:
    if of is None:
        return np.empty(0, dtype=np.int64)
    polls = Polls.of(Reading(run, of.where)("polls"), Names())
    return np.unique(polls.offset[polls.pass_ == FINAL])


def _starts(replicas: Sequence[Replica]) -> dict[int, int]:
    """Return each leader epoch's smallest start offset in any replica's epoch file."""
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
    gaps: dict[int, tuple[int, int]] = field(default_factory=dict)

    def read_all(self, facts: PartitionFacts) -> tuple[Replica, ...]:
        """Read all replicas' segments; return the replicas that have segments."""
        replicas = [self.read(replica, kept=facts.kept) for replica in facts.replicas]
        return tuple(replica for replica in replicas if replica.segments)

    def complete(self, captured_ends: Mapping[int, int]) -> frozenset[int]:
        """Return the brokers whose log is readable up to the log end that the last capture shows."""
        damaged = {place.broker_id for place in self.unreadable if place.problem.startswith(UNREADABLE)}
        reached = {broker for broker, end in self.ends.items() if end >= captured_ends.get(broker, end + 1)}
        return frozenset(reached - damaged)

    def read(self, replica: Replica, *, kept: bool) -> Replica:
        """Read a replica's segments up to the first gap between them.

        If the topic keeps all records (``kept``), each segment starts where the previous one ends.
        """
        broker, node = replica.broker_id, self.nodes[replica.broker_id]
        parts, end = [SEGMENTS.empty_table()], replica.log_start_offset or 0
        for file in replica.segments:
            if kept and int(file.stem) > end:
                self.gaps[broker] = end, int(file.stem)
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
        self.markers[broker] = Markers.of(table.filter(pc.is_in(table["marker"], pa.array(["commit", "abort"]))))
        self.logs[broker] = Log.of(table.filter(pc.is_valid(table["offset"])), self.names)
