"""The replicas' logs side by side, batch by batch, and each beside its own leader-epoch-checkpoint.

Batches are read in order of their offset from all replicas of a partition at once, so that one segment of each is in
memory; what is found, a few checks for each offset at which a batch begins, is the caller's to keep. A batch is told by
its first 21 bytes and the CRC-32C of the rest, which is verified while reading: equal values are equal bytes. What
follows a torn tail was not exported, and is not judged.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise, starmap
from typing import Any, NamedTuple

from kafka_files.batches import CONTROL, CRC_FROM, Headers, Problem, header_slices, mapped
from spark.checks.tally import Check
from spark.evidence.partition import Replica


class _Head(NamedTuple):
    """The columns of ``kafka_files.batches.HEADERS`` that the checks need."""

    position: int
    size: int
    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    problem: int


class Batch(NamedTuple):
    """One batch of one replica; ``chain`` stands for everything up to and with this batch."""

    base_offset: int
    broker_id: int
    last_offset: int
    leader_epoch: int
    content: tuple[bytes, Any]
    chain: int
    first_offset: int  # where this replica's log starts
    producer: tuple[int, int] | None  # id and epoch; None: not idempotent
    base_sequence: int
    record_count: int


@dataclass(frozen=True)
class Logs:
    """One partition's replicas. ``clean`` says that nothing committed may be missing, ``kept`` that nothing is
    compacted; ``final`` is the replica whose log is the partition's.
    """

    topic: str
    partition: int
    replicas: Sequence[Replica]
    clean: bool = True
    kept: bool = True
    final: int | None = None

    def check(self, violated: bool, **evidence: Any) -> Check:
        return Check(self.topic, self.partition, None, violated, evidence)


@dataclass
class _Walk:
    """What the walk along the logs has to remember."""

    torn: set[int] = field(default_factory=set)
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)


def read_replica(replica: Replica, torn: set[int]) -> Iterator[Batch]:
    """A replica's batches in order; a torn tail adds it to ``torn``."""
    chain, first_offset = 0, None
    for file in replica.segments:
        with mapped(file) as data:
            for head in (row for found in header_slices(data) for row in _rows(found)):
                if head.problem == Problem.TORN_TAIL:
                    torn.add(replica.broker_id)
                    return
                start, covered = head.position, head.position + CRC_FROM
                damaged = head.problem == Problem.BAD_CRC
                content = data[start:covered], data[covered : start + head.size] if damaged else head.crc
                first_offset = head.base_offset if first_offset is None else first_offset
                chain = hash((chain, content))
                idempotent = head.producer_id >= 0 and head.base_sequence >= 0 and not head.attributes & CONTROL
                yield Batch(
                    base_offset=head.base_offset,
                    broker_id=replica.broker_id,
                    last_offset=head.base_offset + head.last_offset_delta,
                    leader_epoch=head.leader_epoch,
                    content=content,
                    chain=chain,
                    first_offset=first_offset,
                    producer=(head.producer_id, head.producer_epoch) if idempotent else None,
                    base_sequence=head.base_sequence,
                    record_count=head.record_count,
                )


def _rows(found: Headers) -> Iterator[_Head]:
    return starmap(_Head, zip(*(found[name].tolist() for name in _Head._fields), strict=True))


def compare(logs: Logs) -> Iterator[tuple[str, Check]]:
    """I12, I13, I14 and I17 of one partition, in one walk: (invariant, check)."""
    walk = _Walk()
    covers = {replica.broker_id: _covering(replica.epochs) for replica in logs.replicas if replica.epochs}
    streams = [read_replica(replica, walk.torn) for replica in logs.replicas]
    for _, group in groupby(heapq.merge(*streams, key=lambda batch: batch.base_offset), lambda b: b.base_offset):
        found = list(group)
        if logs.kept:
            yield from (("I13", check) for check in i13_log_matching(found, logs))
            if logs.clean:
                yield from (("I12", check) for check in i12_committed_prefix(found, logs, walk.torn))
        yield from (("I14", check) for check in i14_epoch_of_batch(found, logs, covers))
        if logs.clean and logs.kept:
            yield from (("I17", check) for check in i17_sequences(found, logs, walk.sequences))
    yield from (("I14", check) for check in i14_epoch_files(logs))


def i12_committed_prefix(found: Sequence[Batch], logs: Logs, torn: set[int]) -> Iterator[Check]:
    """I12, all versions, clean topics with the delete policy; serves C6, C27, C40 and C46.

    Below both replicas' high watermarks (the last capture's) and above both log starts, any two logs hold the same
    bytes: what is committed is on every replica that knows it as committed. ``found`` are the batches at one offset.
    """
    last = max(batch.last_offset for batch in found)
    knowing = [
        replica.broker_id
        for replica in logs.replicas
        if replica.broker_id not in torn
        and replica.high_watermark is not None
        and replica.high_watermark > last
        and (replica.log_start_offset or 0) <= found[0].base_offset
    ]
    held = {batch.broker_id: batch for batch in found}
    if len(knowing) < 2:
        return
    contents = {held[broker_id].content for broker_id in knowing if broker_id in held}
    lacking = [broker_id for broker_id in knowing if broker_id not in held]
    if contents:
        yield logs.check(
            bool(lacking) or len(contents) > 1,
            base_offset=found[0].base_offset,
            last_offset=last,
            lacking=lacking,
            epochs={str(broker_id): held[broker_id].leader_epoch for broker_id in knowing if broker_id in held},
        )


def i13_log_matching(found: Sequence[Batch], logs: Logs) -> Iterator[Check]:
    """I13, all versions and configurations but compaction; serves C9, C29 and C45.

    Batches of one offset and one leader epoch are the same bytes on every replica, and so is everything before them:
    followers append what the leader of that epoch wrote, verbatim and in order. Holds above the high watermark, out
    of the ISR and after an unclean election, too; found broken by KAFKA-18723 (up to 3.9.0 and 4.0.0).
    """
    for epoch in sorted({batch.leader_epoch for batch in found}):
        same = [batch for batch in found if batch.leader_epoch == epoch]
        if len(same) < 2:
            continue
        contents = {batch.content for batch in same}
        starts = {batch.first_offset for batch in same}
        yield logs.check(
            len(contents) > 1 or (len(starts) == 1 and len({batch.chain for batch in same}) > 1),
            base_offset=found[0].base_offset,
            leader_epoch=epoch,
            brokers=[batch.broker_id for batch in same],
            differs="this batch" if len(contents) > 1 else "a batch before it",
        )


def i14_epoch_of_batch(
    found: Sequence[Batch], logs: Logs, covers: Mapping[int, tuple[list[int], list[int]]]
) -> Iterator[Check]:
    """I14, all versions; serves C26 and C42. Each batch's leader epoch is the one that the replica's
    leader-epoch-checkpoint gives for its offset: both are written by the same append.
    """
    log_starts = {replica.broker_id: replica.log_start_offset or 0 for replica in logs.replicas}
    for batch in found:
        # What was deleted by order lies in its segment for a while; the epoch file has forgotten it.
        if batch.broker_id in covers and batch.base_offset >= log_starts[batch.broker_id]:
            starts, epochs = covers[batch.broker_id]
            at = bisect_right(starts, batch.base_offset) - 1
            says = epochs[at] if at >= 0 else None
            yield logs.check(
                says != batch.leader_epoch,
                broker_id=batch.broker_id,
                base_offset=batch.base_offset,
                batch_epoch=batch.leader_epoch,
                file_epoch=says,
            )


def i14_epoch_files(logs: Logs) -> Iterator[Check]:
    """I14: a replica's epoch file goes strictly up in both columns; below the high watermarks equal epochs start at
    equal offsets on all replicas (an entry at a log's own start may have been moved there by a deletion).
    """
    starts: dict[int, dict[int, int]] = {}
    for replica in logs.replicas:
        for before, after in pairwise(replica.epochs or ()):
            yield logs.check(
                not (before[0] < after[0] and before[1] < after[1]),
                broker_id=replica.broker_id,
                entries=[list(before), list(after)],
            )
        for epoch, start in replica.epochs or ():
            if (replica.log_start_offset or 0) < start < (replica.high_watermark or 0):
                starts.setdefault(epoch, {})[replica.broker_id] = start
    for epoch, by_broker in sorted(starts.items()):
        if logs.clean and len(by_broker) > 1:
            named = {str(broker_id): start for broker_id, start in sorted(by_broker.items())}
            yield logs.check(len(set(by_broker.values())) > 1, leader_epoch=epoch, starts=named)


def i17_sequences(found: Sequence[Batch], logs: Logs, sequences: dict[tuple[int, int], int]) -> Iterator[Check]:
    """I17, all versions, clean topics, idempotent producers; serves C27. Sequence numbers of one producer id and epoch
    follow one another without a gap or a repetition in the final log: the leader refuses every other batch.

    A producer's first batch may begin anywhere, as the ones before it may have been deleted.
    """
    for batch in found:
        if batch.broker_id != logs.final or batch.producer is None:
            continue
        expected = sequences.get(batch.producer, batch.base_sequence)
        sequences[batch.producer] = (batch.base_sequence + batch.record_count) % 2**31
        yield logs.check(
            batch.base_sequence != expected,
            broker_id=batch.broker_id,
            base_offset=batch.base_offset,
            kafka_producer_id=batch.producer[0],
            producer_epoch=batch.producer[1],
            base_sequence=batch.base_sequence,
            expected=expected,
        )


def _covering(epochs: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    in_order = sorted(epochs, key=lambda entry: entry[1])
    return [start for _, start in in_order], [epoch for epoch, _ in in_order]
