"""Judges the records of one partition: its evidence in, findings out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from history.folder import RunFolder
from history.partition import TopicPartition
from history.tables import REPLICAS
from kafka_files.segments import SEGMENTS, read_segment
from spark.checks import atomicity, imported, log_content, reading_order, records
from spark.checks.account import Account, account, counts
from spark.checks.findings import Cases, Findings, Permitted
from spark.checks.log_content import OpenEnds, ShortIsr, Transaction
from spark.evidence.columns import Log, Markers, Names, Polls, Samples, Seeks, Sends, ToldNames, bools, ints
from spark.evidence.partition import Drain, PartitionEvidence, Unreadable
from spark.evidence.reader import Tables


@dataclass(frozen=True)
class Question:
    """What is asked of one partition, with what the whole run says about it. Small: it travels to the workers.

    ``segments`` lists each broker's files of the partition. ``members`` maps the brokers of the final ISR whose logs
    are whole to the offset from which on each owes its records. ``final`` is the replica whose log is the partition's,
    and ``log_start`` where it starts. ``committed`` are transactions of unknown outcome of which a record was seen
    somewhere; of ``torn`` ones the parts are told.
    """

    folder: Path
    where: TopicPartition
    segments: Mapping[int, Sequence[Path]] = field(default_factory=dict)
    nodes: Mapping[int, str] = field(default_factory=dict)
    drain: Drain | None = None
    whole: bool = True
    clean: bool = True
    deleted_before: int | None = None
    members: Mapping[int, int] = field(default_factory=dict)
    final: int | None = None
    log_start: int = 0
    short: Sequence[ShortIsr] = ()
    promised: bool = False  # some producer of a clean topic was promised that nothing is lost
    transactional: bool = False
    foreign: bool = False
    subscribed: frozenset[str] = frozenset()  # consumers of an imported history that a group assigned
    permitted: Permitted = field(default_factory=dict)
    unclean_producers: frozenset[str] = frozenset()
    committed: frozenset[Transaction] = frozenset()
    torn: frozenset[Transaction] = frozenset()


@dataclass
class Answer:
    """What one partition told: its row of the delivery table, its findings, and its share of what spans partitions."""

    where: TopicPartition
    delivery: dict[str, Any]
    findings: Findings
    open_ends: OpenEnds
    gone_of: set[Transaction]
    parts: dict[Transaction, atomicity.Part]


def opened(question: Question) -> tuple[set[Transaction], set[Transaction]]:
    """The partition's transactions of unknown outcome, and those of which a record was seen in it."""
    of = gather(question, logs=False)
    return atomicity.open_transactions(of.sends, atomicity.stable(of.polls, of.sends), of.names)


def judge(question: Question) -> Answer:
    """Judge the records of one partition."""
    of = gather(question)
    told = _account(of, question)
    findings = Findings()
    for found in record_cases(of, told, question):
        cases = imported.told_with_names(found, of, question.subscribed) if question.foreign else found
        findings.add_cases(of.where, cases, of.names, question.permitted)
    open_ends = OpenEnds()
    if not question.foreign:
        open_ends = _check_logs(of, question, findings)
    gone_of = atomicity.with_gone_records(of.sends, told, of.names) if question.transactional else set()
    row = {**of.where._asdict(), **counts(of.sends, told)}
    parts = atomicity.parts(of.where, of.sends, told, of.names, set(question.torn))
    if question.foreign:
        parts = imported.parts_with_names(parts, of)
    return Answer(of.where, row, findings, open_ends, gone_of, parts)


def gather(question: Question, *, logs: bool = True) -> PartitionEvidence:
    """Read what a run folder holds of one partition."""
    tables, where, names = Tables(RunFolder(question.folder)), question.where, Names()
    sends = Sends.of(tables.read("sends", where), names)
    polls = Polls.of(tables.read("polls", where), names)
    told_names = None
    if question.foreign:
        told_names = ToldNames.of(tables.read("imported", where), names)
        sends = imported.with_operations(sends, told_names)
    held = _Logs(names, question.nodes)
    for broker, files in question.segments.items() if logs else ():
        held.read(broker, files)
    return PartitionEvidence(
        where=where,
        names=names,
        sends=sends,
        polls=polls,
        seeks=Seeks.of(tables.read("seeks", where), names),
        samples=Samples.of(REPLICAS.empty_table()),
        logs=held.logs,
        markers=held.markers,
        unreadable=tuple(held.unreadable),
        nodes=question.nodes,
        drain=question.drain,
        whole=question.whole,
        deleted_before=question.deleted_before,
        unclean_producers=question.unclean_producers,
        told_names=told_names,
    )


@dataclass
class _Logs:
    """The replicas' logs as columns, and the places that cannot be read."""

    names: Names
    nodes: Mapping[int, str]
    logs: dict[int, Log] = field(default_factory=dict)
    markers: dict[int, Markers] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)

    def read(self, broker: int, files: Sequence[Path]) -> None:
        slices = (rows for file in files for rows in read_segment(self.nodes[broker], file))
        table = pa.Table.from_batches(slices, SEGMENTS)
        for row in table.filter(pc.is_valid(table["problem"])).select(["batch_offset", "problem"]).to_pylist():
            self.unreadable.append(Unreadable(broker, self.nodes[broker], row["batch_offset"], row["problem"]))
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
            checksum_ok=bools(found["checksum_ok"]),
            kafka_producer_id=ints(found["kafka_producer_id"]),
            transactional=bools(found["transactional"]),
        )


def _account(of: PartitionEvidence, question: Question) -> Account:
    polls, committed = of.polls, None
    if question.transactional:
        polls = atomicity.stable(_read(of, question), of.sends)
        committed = atomicity.siblings(of.sends, of.names, set(question.committed))
    told = account(
        of.sends,
        polls,
        of.logs,
        drain=of.drain,
        whole=of.whole,
        deleted_before=of.deleted_before,
        siblings=committed,
    )
    return imported.with_acknowledged_place(told, of.sends) if question.foreign else told


def _read(of: PartitionEvidence, question: Question) -> Polls:
    return imported.as_drain(of.polls) if question.foreign else of.polls


def record_cases(of: PartitionEvidence, told: Account, question: Question) -> Iterator[Cases]:
    """The cases of every kind in one partition's records."""
    polls = _read(of, question)
    seen = replace(of, polls=atomicity.stable(polls, of.sends) if question.transactional else polls)
    yield from records.unread_acknowledged(seen, told)
    yield records.duplicate(seen, told)
    yield records.phantom_record(seen, told)
    yield records.corrupt_record(seen)
    yield records.aborted_read(seen, told)
    yield records.inconsistent_offset(seen, told)
    taken, acked = reading_order.steps(of), reading_order.acknowledged(of)
    standing = imported.standing(of) if question.foreign else None
    yield reading_order.poll_skip(of, taken, standing)
    yield reading_order.nonmonotonic_poll(of, taken)
    yield reading_order.nonmonotonic_send(of, acked)
    if not question.foreign:
        yield reading_order.leader_epoch_regression(of, taken)
        yield reading_order.nonrepeatable_read(of)
        yield reading_order.realtime_order_violation(of)
        yield reading_order.bad_ack_offset(of, acked)


def _check_logs(of: PartitionEvidence, question: Question, findings: Findings) -> OpenEnds:
    if question.short:
        findings.add_checks(of.where, "I28", log_content.i28_enough_replicas(of, question.short))
    if not question.clean:
        return OpenEnds()
    if question.promised:
        findings.add_checks(of.where, "I15", log_content.i15_durability(of, question.members))
    if question.final is not None and question.final in of.logs:
        findings.add_checks(of.where, "I16", log_content.i16_no_phantom_read(of, question.final, question.log_start))
    if not question.transactional:
        return OpenEnds()
    checks, open_ends = log_content.i27_markers(of)
    findings.add_checks(of.where, "I27", checks)
    return open_ends
