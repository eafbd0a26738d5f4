"""The parts of a modelled partition: replicas, clients, and the history of what is recorded.

Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

MS = 1_000_000
TICK_NS = 100 * MS
LAG_NS = 1_000 * MS  # replica.lag.time.max.ms
MAX_ISR_LAG_NS = LAG_NS * 3 // 2
SESSION_NS = 800 * MS  # broker.session.timeout.ms
REQUEST_NS = 400 * MS  # request.timeout.ms
DELIVERY_NS = 1_500 * MS  # delivery.timeout.ms
BROKERS = (1, 2, 3)
NOBODY = -1
REST_TICKS = 60
DRAIN = "drain-1"
VERBS = (
    "write", "write", "write", "poll", "poll_follower", "wait", "wait", "lose_answer", "slow", "fast",
    "kill", "stop", "restart", "pause", "resume", "cut", "join", "move",
)  # fmt: skip

Step = tuple[str, int, int]  # verb, its object (any number), amount


class Batch(NamedTuple):
    """A record batch; ``producer_epoch`` and ``base_sequence`` are -1 without idempotence."""

    base: int
    epoch: int
    producer: str
    seqs: tuple[int, ...]
    producer_epoch: int = -1
    base_sequence: int = -1

    @property
    def end(self) -> int:
        return self.base + len(self.seqs)


class State(NamedTuple):
    """A decision of the controller."""

    t_ns: int
    leader: int
    epoch: int
    partition_epoch: int
    isr: frozenset[int]


class Remote(NamedTuple):
    """A leader's knowledge of a follower; ``leo`` is -1 until it has fetched in this epoch."""

    leo: int = -1
    leader_leo: int = 0
    fetched_ns: int = 0
    caught_up_ns: int = 0


class Reply(NamedTuple):
    """A fetch response in flight; ``diverges`` is (epoch, end offset), without other content."""

    epoch: int
    hw: int = 0
    batches: tuple[Batch, ...] = ()
    diverges: tuple[int, int] | None = None


@dataclass
class Replica:
    """One broker's copy and its knowledge of the partition."""

    broker_id: int
    log: list[Batch] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    hw: int = 0
    checkpoint: int = 0
    incarnation: int = 1
    up: bool = True
    starting: bool = False
    paused: bool = False
    cut: bool = False
    slow: bool = False
    told: State | None = None
    isr: frozenset[int] = frozenset()
    joining: frozenset[int] = frozenset()  # proposed: they already limit HW (KIP-497)
    proposal: tuple[int, frozenset[int]] | None = None
    epoch_start: int = 0
    remote: dict[int, Remote] = field(default_factory=dict)
    reply: Reply | None = None
    unread: list[Sending] = field(default_factory=list)  # requests received while paused

    @property
    def leo(self) -> int:
        return self.log[-1].end if self.log else 0

    @property
    def runs(self) -> bool:
        return self.up and not self.paused

    @property
    def leads(self) -> bool:
        return self.told is not None and self.told.leader == self.broker_id

    def append(self, batch: Batch) -> None:
        self.log.append(batch)
        if not self.epochs or self.epochs[-1][0] < batch.epoch:
            self.begin_epoch(batch.epoch, batch.base)

    def begin_epoch(self, epoch: int, start: int) -> None:
        """Append an epoch; one without a batch is removed when the next begins at its offset."""
        self.epochs = [(e, s) for e, s in self.epochs if e < epoch and s < start] + [(epoch, start)]

    def end_of(self, epoch: int) -> tuple[int, int]:
        """Return the latest epoch up to this one and its end offset."""
        known = [e for e, _ in self.epochs if e <= epoch]
        after = [s for e, s in self.epochs if e > epoch]
        return (known[-1] if known else epoch), (after[0] if after else self.leo)

    def truncate(self, end: int) -> None:
        self.log = [batch for batch in self.log if batch.end <= end]
        self.epochs = [(e, s) for e, s in self.epochs if s < end]
        self.hw = min(self.hw, self.leo)


@dataclass
class Sending:
    """A batch in flight: the first try sets its sequence numbers; ``answer`` is (leader, epoch, base, end)."""

    producer: str
    seqs: tuple[int, ...]
    due_ns: int
    sent_ns: int | None = None
    asked_ns: int = 0
    attempts: int = 0
    in_flight: bool = False
    maybe_written: bool = False
    producer_epoch: int = -1
    base_sequence: int = -1
    answer: tuple[int, int, int, int] | None = None


@dataclass
class Producer:
    """A client that writes to the broker that it believes to be the leader."""

    name: str
    acks: str = "all"
    idempotent: bool = True
    retries: int = 5
    epoch: int = 0
    sequence: int = 0
    numbers: Iterator[int] = field(default_factory=count, compare=False)  # of its records, in all partitions
    believes: int = 1
    queue: list[Sending] = field(default_factory=list)


@dataclass
class Reader:
    """A live consumer of the partition; ``positions`` counts its records in all partitions."""

    name: str = "consumer-1"
    positions: Iterator[int] = field(default_factory=count)
    source: int = 1
    next_offset: int = 0
    starved: bool = False  # alive, but no longer polling


@dataclass
class History:
    """What can be recorded of the partition, as plain rows; ``drain_end`` is where the final drain stopped.

    ``silent`` are the probes without an answer.
    """

    producers: list[Producer]
    effective_min_isr: int
    strict_min_isr: bool
    samples: list[dict[str, Any]] = field(default_factory=list)
    silent: list[dict[str, Any]] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    captures: list[dict[str, Any]] = field(default_factory=list)
    faults: list[list[int]] = field(default_factory=list)  # broker, requested, active, healed
    starts: list[tuple[int, int, int]] = field(default_factory=list)  # broker, incarnation, time
    sends: list[dict[str, Any]] = field(default_factory=list)
    polls: list[dict[str, Any]] = field(default_factory=list)
    seeks: list[dict[str, Any]] = field(default_factory=list)
    logs: dict[int, list[Batch]] = field(default_factory=dict)
    epochs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    high_watermarks: dict[int, int] = field(default_factory=dict)
    leader: int = NOBODY
    drain_end: int = 0

    def final_log(self) -> Iterator[tuple[int, str, int]]:
        """Yield (offset, producer, seq) of the last leader's committed records."""
        for batch in self.logs.get(self.leader, ()):
            for n, seq in enumerate(batch.seqs):
                if batch.base + n < self.high_watermarks[self.leader]:
                    yield batch.base + n, batch.producer, seq

    def lost(self) -> set[tuple[str, int]]:
        """Return the acknowledged records that are lost."""
        acked = {(row["producer_id"], row["seq"]) for row in self.sends if row["outcome"] == "ok"}
        return acked - {(producer, seq) for _, producer, seq in self.final_log()}

    def doubled(self) -> set[tuple[str, int]]:
        """Return the records at more than one offset."""
        found = [(producer, seq) for _, producer, seq in self.final_log()]
        return {value for value in found if found.count(value) > 1}
