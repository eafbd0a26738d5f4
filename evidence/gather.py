"""Collect all evidence about one partition from the run folder: recorded tables, and every replica's segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.batches import ReplicaBatches, read_batches
from evidence.columns import (
    FINAL,
    NULL,
    OK,
    OUTCOMES,
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
from evidence.facts import FOREVER_NS, Input, PartitionFacts, Replica, RunFacts, ShortIsr, log_start
from evidence.groups import Commits, GroupEvidence, Reads, ownerships
from evidence.log_rows import LOG, in_order, last_offsets_of, log_rows
from evidence.partition import PartitionEvidence, Unreadable
from evidence.pieces import Judging, Rows, contradicted
from evidence.reader import Tables, concatenated
from evidence.readers import ReaderEvidence
from evidence.remainder import TABLES, Remainder
from evidence.samples import Looks, Samples, thinned
from evidence.shares import Acks, Deliveries, ShareEvidence
from evidence.views import changes, final_isr, short_isrs
from evidence.views import thinned as thinned_views
from evidence.windows import ROWS as WINDOW_ROWS
from evidence.windows import Window, windows
from expectations.tallies import BY_PARTITION, Tallies
from history.folder import RunFolder
from history.partition import TopicPartition
from history.payload import MAX_SEQ


class Gathered(NamedTuple):
    """A partition's evidence and counts."""

    evidence: PartitionEvidence
    counts: Counts


class Clients(NamedTuple):
    """The clients' ledgers, and an imported history's names."""

    sends: Sends
    polls: Polls
    imported_names: ImportedNames | None


def clients(run: RunFacts, read: Reading, names: Names) -> Clients:
    """Read the sends and polls of a partition, and an imported history's names."""
    tables = read("sends"), read("polls")
    for name in sorted(set().union(*(_names(table) for table in tables))):
        names.code(name)  # in an order that does not depend on the rows'
    sends, polls = Sends.of(tables[0], names), Polls.of(tables[1], names)
    if not run.foreign:
        return Clients(sends, polls, None)
    imported = ImportedNames.of(read("imported"), names)
    return Clients(with_operations(sends, imported), polls, imported)


def _names(table: pa.Table) -> set[str]:
    columns = [name for name in ("producer_id", "consumer_id") if name in table.column_names]
    return {name for column in columns for name in pc.unique(table[column]).to_pylist() if name is not None}


class Reading:
    """Reads one partition's rows, and counts those that break a contract in ``tallies``.

    With a ``remainder``, sends and polls are its rows, which are counted.
    """

    def __init__(
        self,
        run: RunFacts,
        where: TopicPartition,
        tallies: Tallies | None = None,
        remainder: Remainder | None = None,
    ) -> None:
        self.tables, self._where = Tables(RunFolder(run.folder)), where
        self._counts, self.tallies = tallies is not None, tallies or Tallies()
        self.remainder = remainder

    def __call__(self, name: str) -> pa.Table:
        if self.remainder is not None and name in TABLES:
            return self.remainder.table(name)
        return self._counted(name, self.tables.read(name, self._where))

    def windows(self, name: str, by: str) -> Iterator[Window]:
        """Yield a table's rows in windows of the time ``by``."""
        for window in windows(self.tables, name, self._where, by):
            self._counted(name, window.rows)
            yield window

    def others(self) -> None:
        """Count the rows of tables that no check of this run reads."""
        for name in sorted(set(BY_PARTITION) - self.tallies.rows.keys()):
            self(name)

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


class _Records(NamedTuple):
    """What clients and brokers recorded of a partition, without samples."""

    clients: Clients
    seeks: Seeks
    views: Views
    logs: _Logs
    batches: dict[int, ReplicaBatches]
    members: dict[int, int]
    short: Sequence[ShortIsr]


def gather(run: RunFacts, facts: PartitionFacts, watch: Watch | None = None) -> Gathered:
    """Read a partition's recorded tables and its replicas' segments, and count what was read.

    With a ``watch``, only the samples that it looks at stay. Of ``plain`` ranges, the ends stay.
    """
    where, names, remainder = facts.where, Names(), Remainder(run, facts) if facts.pieces else None
    read = Reading(run, where, Tallies().merge(each.tallies for each in facts.pieces), remainder)
    records = _records(run, facts, read, names, thin=watch is not None)
    if remainder is not None:
        if not all(in_order(each, records.batches[each.broker_id]) for each in records.logs.replicas):
            return gather(run, replace(facts, pieces=()), watch)  # ranges of such a log cannot be told apart
        remainder.without(contradicted(remainder.plain, _judging(facts, records, names)))
        records = _completed(run, facts, read, names, records)
    logs, views = records.logs, records.views
    evidence = PartitionEvidence(
        **_of_facts(facts, logs.replicas),
        run=run,
        names=names,
        **records.clients._asdict(),
        seeks=records.seeks,
        samples=Samples.nothing(),
        plain=remainder.plain if remainder else (),
        logs=logs.logs,
        markers=logs.markers,
        unreadable=tuple(logs.unreadable),
        complete=logs.complete,
        whole=bool(facts.assigned) and logs.complete.issuperset(facts.assigned),
        views=views,
        changes=changes(facts.states, views, names),
        epoch_starts=_starts(facts.replicas),
        batches=records.batches,
        input_offsets=_drained(run, facts.input),
        members=records.members,
        short=records.short,
        group=_group(read, run, where, names),
        share=_share(read, run, where, names),
        readers=_readers(read, run, facts),
    )
    evidence = _watched(read, evidence, watch)
    return Gathered(evidence, _counts(evidence, logs, read))


def _records(run: RunFacts, facts: PartitionFacts, read: Reading, names: Names, *, thin: bool) -> _Records:
    of_clients, seeks = clients(run, read, names), Seeks.of(read("seeks"), names)
    views = _views(read, facts, names, thin=thin)
    logs = _Logs.of(run, facts, names, read.remainder)
    return _Records(
        clients=of_clients,
        seeks=seeks,
        views=views,
        logs=logs,
        batches={} if run.foreign else _batches(logs, known=read.remainder is not None),
        members={broker: facts.required_from.get(broker, 0) for broker in final_isr(views) if broker in logs.complete},
        short=() if run.foreign else short_isrs(facts, views, names),
    )


def _completed(run: RunFacts, facts: PartitionFacts, read: Reading, names: Names, records: _Records) -> _Records:
    """Return the records with those of contradicted ranges, and count the repeated keys among them."""
    assert read.remainder is not None
    for name in TABLES:
        read.tallies.add_keys(name, read.remainder.table(name))
    return records._replace(clients=clients(run, read, names), logs=_Logs.of(run, facts, names, read.remainder))


def _of_facts(facts: PartitionFacts, replicas: Sequence[Replica]) -> dict[str, Any]:
    """Return the fields that evidence has of its facts."""
    return {each.name: getattr(facts, each.name) for each in fields(PartitionFacts)} | {
        "replicas": replicas,
        "pieces": (),
    }


def _batches(logs: _Logs, *, known: bool) -> dict[int, ReplicaBatches]:
    """Return each log's batches; which are damaged may be ``known``."""
    damaged = {place.broker_id for place in logs.unreadable}
    return {
        each.broker_id: read_batches(each.segments, verify=not known or each.broker_id in damaged)
        for each in logs.replicas
    }


def _judging(facts: PartitionFacts, records: _Records, names: Names) -> Judging:
    """Return what decides which plain ranges stay: a log must have all records from an offset on (I15, I16)."""
    logs, start, deleted = records.logs, log_start(records.logs.replicas, facts.final), facts.deleted_before or 0
    floors = {broker: max(begin, deleted) for broker, begin in records.members.items()}
    if facts.final in logs.complete:
        floors[facts.final] = min(start, floors.get(facts.final, start))
    return Judging(
        Rows(records.clients.sends, records.clients.polls, logs.logs),
        records.seeks,
        names,
        floors,
        logs.ends,
        edges=[deleted, start, *records.members.values()],
        short_ns=[(each.known_ns, each.until_ns) for each in records.short],
    )


def _views(read: Reading, facts: PartitionFacts, names: Names, *, thin: bool) -> Views:
    """Return the metadata views that checks need."""
    found = Views.nothing()
    begins = (stretch.from_ns for stretch in facts.stretches)
    shrunk = (line["t_ns"] for line in facts.lines if line["kind"] == "isr_shrinking" and line["t_ns"] is not None)
    moments = np.array(sorted({*begins, *shrunk}), dtype=np.int64)
    for window in read.windows("isr", "sent_ns"):
        found = found.with_views(Views.of(window.rows, names), names)
        found = thinned_views(found, moments, window.ends - 1) if thin else found
    return found


def _watched(read: Reading, of: PartitionEvidence, watch: Watch | None) -> PartitionEvidence:
    """Return the evidence with samples."""
    probes = read.windows("replicas", "sent_ns")
    first = next(probes)
    parts = ((Samples.of(window.rows), window.ends) for window in chain([first], probes))
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
    for probes in [first.rows] if first.ends == FOREVER_NS else several:
        received = ints(probes["received_ns"])
        for (broker,), rows in groups(ints(probes["broker_id"])):
            low, high = found.get(broker, (FOREVER_NS, NULL))
            found[broker] = min(low, int(received[rows].min())), max(high, int(received[rows].max()))
    return found


def samples_of(run: RunFacts, where: TopicPartition, looks: Looks) -> Samples:
    """Read again the samples that somebody looks at."""
    found = Samples.nothing()
    for window in windows(Tables(RunFolder(run.folder)), "replicas", where, "sent_ns"):
        found = thinned(found.with_rows(Samples.of(window.rows)), looks, window.ends - 1)
    return found


def reads_by_time(of: PartitionEvidence) -> Iterator[Polls]:
    """Yield all recorded reads of a partition, in windows of time."""
    for window in windows(Tables(RunFolder(of.run.folder)), "polls", of.where, "received_ns"):
        yield Polls.of(window.rows, of.names)


def acks_by_time(of: PartitionEvidence) -> Iterator[Ints]:
    """Yield the times of all acknowledgements to open loops, in order."""
    loops, columns = pa.array(sorted(of.run.open_loops)), ["producer_id", "seq", "outcome", "done_ns"]
    for window in windows(Tables(RunFolder(of.run.folder)), "sends", of.where, "done_ns", columns=columns):
        rows = window.rows
        acked = rows.filter(
            (pc.field("outcome") == OUTCOMES[OK])
            & pc.field("seq").cast(pa.int64()).is_valid()
            & (pc.field("seq") >= 0)
            & (pc.field("seq") <= MAX_SEQ)
        )
        own = pc.is_in(acked["producer_id"].cast(pa.string()), loops)
        yield np.sort(ints(acked["done_ns"].filter(own).drop_null()))


def _counts(of: PartitionEvidence, logs: _Logs, read: Reading) -> Counts:
    read.others()
    tallies, rows = read.tallies, read.tallies.rows
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
    remainder: Remainder | None = None
    replicas: tuple[Replica, ...] = ()
    complete: frozenset[int] = frozenset()
    logs: dict[int, Log] = field(default_factory=dict)
    markers: dict[int, Markers] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)
    gaps: dict[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: RunFacts, facts: PartitionFacts, names: Names, remainder: Remainder | None) -> Self:
        """Read all replicas' segments.

        ``replicas`` are those that have segments; ``complete`` the brokers whose log is readable up to the log end that
        the last capture shows.
        """
        found = cls(names, run.nodes, remainder)
        replicas = [found._read(replica, kept=facts.kept) for replica in facts.replicas]
        found.replicas = tuple(replica for replica in replicas if replica.segments)
        damaged = {place.broker_id for place in found.unreadable if place.problem.startswith(UNREADABLE)}
        reached = {broker for broker, end in found.ends.items() if end >= facts.ends.get(broker, end + 1)}
        found.complete = frozenset(reached - damaged)
        return found

    def _read(self, replica: Replica, *, kept: bool) -> Replica:
        """Read a replica's segments up to the first gap between them.

        If the topic keeps all records (``kept``), each segment starts where the previous one ends.
        """
        broker, node = replica.broker_id, self.nodes[replica.broker_id]
        parts, files, end = [LOG.empty_table()], list[Path](), replica.log_start_offset or 0
        lasts = self.remainder.last_offsets(broker) if self.remainder else {}
        for file in replica.segments:
            if kept and int(file.stem) > end:
                self.gaps[broker] = end, int(file.stem)
                break
            if self.remainder is None:
                parts.append(log_rows(file))
                lasts = last_offsets_of(parts[-1])
            end = log_end(file, lasts.get(int(file.stem)))
            files.append(file)
        if files:
            table = concatenated(parts) if self.remainder is None else self.remainder.table(broker)
            self._keep(
                broker, node, table.filter(pc.is_in(table["segment"], pa.array([int(each.stem) for each in files])))
            )
            self.ends[broker] = end
        return replica._replace(segments=files)

    def _keep(self, broker: int, node: str, table: pa.Table) -> None:
        for row in table.filter(pc.is_valid(table["problem"])).select(["batch_offset", "problem"]).to_pylist():
            self.unreadable.append(Unreadable(broker, node, row["batch_offset"], row["problem"]))
        self.markers[broker] = Markers.of(table.filter(pc.is_in(table["marker"], pa.array(["commit", "abort"]))))
        self.logs[broker] = Log.of(table.filter(pc.is_valid(table["offset"])), self.names)
