"""Compute sizes, times and the places of planted cases of a generated run.

Record ``j`` of partition ``i`` is due as number ``j * partitions + i`` and, unless lost, is at offset ``j``. Batch
``b`` belongs to producer ``b % producers``. Lost records are in the first half of a partition, whole batches first;
other cases have even numbers in the second half; copies and phantom records are at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from history.errors import BadInput
from history.payload import MIN_RECORD_BYTES

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

TOPIC = "orders"
MS = 1_000_000
S = 1_000_000_000
STARTED_NS = 1_000 * S
STARTED_WALL_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
LAG_MS = 1000  # replica.lag.time.max.ms
PHANTOM_SEQ = 10**12  # above every producer's sequence numbers
MIN_SECONDS = 10
MAX_BATCH_RECORDS = 64  # an offset delta takes one byte, so that all records have one size
BATCH_BYTES = 16_384  # Kafka's batch.size
CHUNK_RECORDS = 1 << 19  # even: a consumer that goes back needs the next record in the same chunk


@dataclass(frozen=True)
class Planted:
    """The number of planted cases of each kind."""

    lost: int = 0  # acknowledged, never read, on no replica
    duplicates: int = 0  # records at a second offset
    phantoms: int = 0  # never sent
    corrupt: int = 0  # not matching their checksum
    aborted: int = 0  # failed for good, but read
    reordered: int = 0  # the live consumer reads two records again

    @property
    def anomalies(self) -> dict[str, int]:
        counts = {
            "lost_write": self.lost,
            "duplicate": self.duplicates,
            "phantom_record": self.phantoms,
            "corrupt_record": self.corrupt,
            "aborted_read": self.aborted,
            "nonmonotonic_poll": self.reordered,
        }
        return {name: count for name, count in counts.items() if count}


@dataclass(frozen=True)
class PartitionPlan:
    """One partition: its records, and the sorted numbers of its planted cases."""

    number: int
    records: int
    lost_batches: Ints  # all records of these are lost
    cut_batch: int  # this batch lost its last ``cut_records``; -1: none
    cut_records: int
    corrupt: Ints
    aborted: Ints
    duplicated: Ints
    reordered: Ints
    phantoms: int

    @property
    def end_offset(self) -> int:
        return self.records + len(self.duplicated) + self.phantoms


class Moments:
    """When a run of some seconds of load does what: a follower pauses a quarter into the load."""

    seconds: int

    @property
    def created_ns(self) -> int:
        return STARTED_NS + 4 * S

    @property
    def probed_from_ns(self) -> int:
        return STARTED_NS + 5 * S

    @property
    def load_ns(self) -> int:
        return STARTED_NS + 10 * S

    @property
    def load_end_ns(self) -> int:
        return self.load_ns + self.seconds * S

    @property
    def fault_phase_ns(self) -> int:
        return self.load_ns + self.seconds * S // 4

    @property
    def stopped_ns(self) -> int:
        return self.fault_phase_ns + 200 * MS

    @property
    def shrunk_ns(self) -> int:
        return self.stopped_ns + 1200 * MS

    @property
    def resumed_ns(self) -> int:
        return self.stopped_ns + min(30, max(2, self.seconds // 4)) * S

    @property
    def full_ns(self) -> int:
        return self.resumed_ns + 500 * MS

    @property
    def quiesced_ns(self) -> int:
        return self.load_end_ns + 5 * S

    @property
    def probed_until_ns(self) -> int:
        return self.quiesced_ns + 1 * S

    @property
    def drained_from_ns(self) -> int:
        return self.probed_until_ns + 1 * S


@dataclass(frozen=True)
class Plan(Moments):
    """A run to write.

    Raises:
        BadInput: the numbers are impossible or too large.
    """

    records: int
    partitions: int = 1
    replicas: int = 3
    producers: int = 1
    record_bytes: int = 100
    segments: bool = True
    seconds: int = 60
    probe_hz: int = 20
    segment_bytes: int | None = None  # None: a quarter of a partition's log
    planted: Planted = field(default_factory=Planted)

    def __post_init__(self) -> None:
        limits = {
            "records": (1, 10**9),
            "partitions": (1, 100_000),
            "replicas": (1, 99),
            "producers": (1, 1000),
            "record_bytes": (MIN_RECORD_BYTES, 1_000_000),
            "seconds": (MIN_SECONDS, 1_000_000),
            "probe_hz": (2, 1000),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise BadInput(f"{name} is {value:,}; choose {low:,} to {high:,}.")
        for case in fields(Planted):
            if getattr(self.planted, case.name) < 0:
                raise BadInput(f"{case.name} is {getattr(self.planted, case.name)}; it is a number of cases.")

    # --- sizes -------------------------------------------------------------------------------

    @cached_property
    def batch_records(self) -> int:
        smallest = self.records // self.partitions
        return max(1, min(MAX_BATCH_RECORDS, BATCH_BYTES // self.record_bytes, smallest // 8))

    @property
    def brokers(self) -> range:
        return range(1, self.replicas + 1)

    def assignment(self, partition: int) -> list[int]:
        """Return broker ids, leader first; the last broker is paused, so it leads nothing."""
        leading = max(1, self.replicas - 1)
        turn = partition % leading
        order = [(turn + n) % leading + 1 for n in range(leading)]
        return [*order, self.replicas] if self.replicas > 1 else order

    @property
    def producer_ids(self) -> list[str]:
        return [f"producer-{number + 1}" for number in range(self.producers)]

    @lru_cache  # noqa: B019  # plans are few
    def partition(self, number: int) -> PartitionPlan:
        """Place the planted cases of a partition.

        Raises:
            BadInput: there are more cases than places.
        """
        records = self._share(self.records, number)
        half = (records + 3) // 4 * 2
        lost, phantoms = self._share(self.planted.lost, number), self._share(self.planted.phantoms, number)
        kinds = ("corrupt", "aborted", "duplicates", "reordered")
        counts = [self._share(getattr(self.planted, kind), number) for kind in kinds]
        batches, cut = divmod(lost, self.batch_records)
        room, places = half // self.batch_records, max(0, (records - 1 - half) // 2)
        if batches + (cut > 0) > room or sum(counts) > places:
            raise BadInput(
                f"Partition {number} of {records:,} records has space for {room * self.batch_records:,} lost records "
                f"and {places:,} other cases, not for {lost:,} and {sum(counts):,}: plant fewer or write more records."
            )
        lost_batches = _spread(batches + (cut > 0), room)
        at = half + 2 * _spread(sum(counts), places)
        corrupt, aborted, duplicated, reordered = np.split(at, np.cumsum(counts)[:-1])
        return PartitionPlan(
            number=number,
            records=records,
            lost_batches=lost_batches[:batches],
            cut_batch=int(lost_batches[-1]) if cut else -1,
            cut_records=cut,
            corrupt=corrupt,
            aborted=aborted,
            duplicated=duplicated,
            reordered=reordered,
            phantoms=phantoms,
        )

    def _share(self, total: int, partition: int) -> int:
        return total // self.partitions + (partition < total % self.partitions)

    # --- records -----------------------------------------------------------------------------

    def lost(self, part: PartitionPlan, numbers: Ints) -> Flags:
        batch, place = np.divmod(numbers, self.batch_records)
        gone: Flags = is_in(batch, part.lost_batches)
        if part.cut_records:
            gone |= (batch == part.cut_batch) & (place >= self.batch_records - part.cut_records)
        return gone

    def names(self, part: PartitionPlan, slots: Ints) -> tuple[Ints, Ints]:
        """Return each offset's producer index and sequence number."""
        numbers = slots
        extra = slots >= part.records
        if extra.any():
            copies = np.append(part.duplicated, np.zeros(1, np.int64))
            which = np.minimum(slots - part.records, len(part.duplicated))
            numbers = np.where(extra, copies[np.maximum(which, 0)], slots)
        batch, place = np.divmod(numbers, self.batch_records)
        turn, producer = np.divmod(batch, self.producers)
        seq = (turn * self.batch_records + place) * self.partitions + part.number
        phantom = slots - part.records - len(part.duplicated)
        if len(slots) and phantom[-1] >= 0:
            producer = np.where(phantom >= 0, 0, producer)
            seq = np.where(phantom >= 0, PHANTOM_SEQ + phantom * self.partitions + part.number, seq)
        return producer, seq

    def sent_by(self, part: PartitionPlan, producer: int) -> int:
        batches, rest = divmod(part.records, self.batch_records)
        own = len(range(producer, batches, self.producers)) * self.batch_records
        return own + (rest if batches % self.producers == producer else 0)

    # --- times -------------------------------------------------------------------------------

    @cached_property
    def gap_ns(self) -> int:
        """Return the time between two records, over all partitions."""
        return max(1, self.seconds * S // self.records)

    @cached_property
    def drained_until_ns(self) -> int:
        read = sum(self.partition(number).end_offset for number in range(self.partitions))
        return self.drained_from_ns + (read * DRAIN_GAP_NS // MS + 1) * MS

    def due(self, part: PartitionPlan, numbers: Ints) -> Ints:
        return self.load_ns + (numbers * self.partitions + part.number) * self.gap_ns

    def appended(self, part: PartitionPlan, slots: Ints) -> Ints:
        """Return when the leader appended each offset; copies and phantom records follow the load."""
        return np.where(slots < part.records, self.due(part, slots) + 1 * MS, self.load_end_ns + 10 * MS)

    def committed(self, part: PartitionPlan, slots: Ints) -> Ints:
        """Return when the high watermark passed each offset: 1 ms later, or when the ISR shrank."""
        appended = self.appended(part, slots)
        if self.replicas == 1:
            return appended
        held = (appended > self.stopped_ns) & (appended < self.shrunk_ns)
        return np.where(held, self.shrunk_ns, appended) + 1 * MS

    def log_end(self, part: PartitionPlan, t_ns: Ints) -> Ints:
        due = (t_ns - 1 * MS - self.load_ns) // self.gap_ns - part.number
        sent = np.clip(due // self.partitions + 1, 0, part.records)
        return np.where(t_ns >= self.load_end_ns + 10 * MS, part.end_offset, sent)

    def high_watermark(self, part: PartitionPlan, t_ns: Ints) -> Ints:
        if self.replicas == 1:
            return self.log_end(part, t_ns)
        stands = (t_ns >= self.stopped_ns + 1 * MS) & (t_ns < self.shrunk_ns + 1 * MS)
        return self.log_end(part, np.where(stands, self.stopped_ns, t_ns - 1 * MS))


DRAIN_GAP_NS = 200


def _spread(count: int, places: int) -> Ints:
    return np.arange(count, dtype=np.int64) * places // max(count, 1)


def is_in(values: Ints, wanted: Ints) -> Flags:
    """Return which values are in the sorted ``wanted``."""
    if not len(wanted):
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(wanted, values), len(wanted) - 1)
    among: Flags = wanted[at] == values
    return among
