"""Run an open-loop producer.

Each record is due at a fixed time, from which its latency counts. On SIGTERM the producer sends the records that are
due, and waits for their answers for up to the delivery timeout.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from clusters.clients.configs import OFFER, OFFERED, ProducerConfig
from clusters.clients.engines import CHOOSE, ENGINES, Answers, Batch, Engine
from clusters.clients.ledger import NEVER_SENT, NO_ANSWER, NOT_SEEN, About, Ints, Ledger, outcome, same_error
from clusters.clients.main import keep_freed_memory, log_to_stderr, stop_on_sigterm
from clusters.clients.pacing import SECOND_NS, Constant, Schedule, curve_of
from clusters.clients.payloads import Filling, Values
from clusters.clients.summary import Summary
from clusters.clients.transactions import Transactional
from clusters.clients.unanswered import Sent, Unanswered
from history.draws import Keys, Sizes, partitions_of
from history.folder import write_atomically

log = logging.getLogger("producer")

TICK_S = 0.0003  # between two checks of what is due
FULL_S = 0.002  # instead, if much is in flight: the library's threads need the time
MUCH = 0.25  # of the limit in flight
LOOK_S = 0.1  # most time between checks for answers and a rate change
PAUSE_S = 0.01
# GIL switch interval: short for librdkafka's thread to return the GIL; kafka-python's thread needs longer turns.
SWITCH_S = {"confluent-kafka": 0.0002, "kafka-python": 0.005}
GARBAGE = (50_000, 20, 20)  # kafka-python's objects live longer than the defaults expect
FLUSH_NS = 100_000_000
FLUSH_ROWS = 5_000  # small, because flushing partly holds the GIL
GIVE_UP_NS = 1_000_000_000  # for the library to report partitions
AT_ONCE = 256  # records in a batch for the engine
AT_A_TIME = 2_000  # records between two checks for answers


@dataclass
class OpenLoop:
    """Send the records that are due, and write each outcome to the ledger.

    Record ``seq`` goes to partition ``seq`` modulo the partition count, unless the library chooses the partition.
    """

    config: ProducerConfig
    schedule: Schedule
    engine: Engine
    ledger: Ledger
    next_seq: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    never_sent: int = 0
    _unanswered: Unanswered = field(default_factory=Unanswered)
    _trouble: str = ""

    def __post_init__(self) -> None:
        self._limit = self.config.limit_in_flight
        self._sizes = Sizes.of(self.config.record_bytes, self.config.draws)
        self._keys = Keys.of(self.config.keys, self.config.draws) if self.config.keys else None
        filling = _filling(self.config, self._sizes)
        self._values = Values(self.config.client_id, self._sizes, filling, self._keys)

    @property
    def in_flight(self) -> int:
        return self._unanswered.count

    @property
    def much_in_flight(self) -> bool:
        return self.in_flight > MUCH * self._limit

    def send_due(self, now_ns: int) -> None:
        """Pass the records that are due, at most AT_A_TIME, to the library.

        If the limit in flight is reached, or the library rejects a record, the other due records are never sent. While
        a transaction ends, up to the limit of records wait.
        """
        due = max(self.schedule.due_by(now_ns), self.next_seq)
        part = self.next_seq + AT_A_TIME
        while self.engine.ready and self.next_seq < min(due, part):
            end_of_limit = self.next_seq + self._limit - self.in_flight
            if not self._send(min(due, part, end_of_limit)) or self.next_seq == end_of_limit:
                self._skip(due)
        if not self.engine.ready:
            self._skip(due - self._limit)

    def change_rate(self, now_ns: int, rate_per_s: float) -> None:
        """Change the rate; records that are already due keep their due times."""
        self.schedule = self.schedule.then(now_ns, Constant(rate_per_s))

    def finish(self, now_ns: int) -> None:
        self.send_due(now_ns)
        self._skip(self.schedule.due_by(now_ns))
        self.engine.finish()

    def _skip(self, until: int) -> None:
        first, count = self.next_seq, max(until - self.next_seq, 0)
        self.next_seq = first + count
        nothing = np.full(count, NOT_SEEN)
        self._never_sent(first + np.arange(count), Sent(self.schedule.due_times_ns(first, count), nothing, nothing))

    def _never_sent(self, seqs: Ints, sent: Sent) -> None:
        self.never_sent += seqs.size
        self._unknown(seqs, sent, NEVER_SENT)

    def _send(self, until: int) -> bool:
        first = self.next_seq
        if until <= first:
            return False
        values = self._values.block(first, min(until - first, AT_ONCE))
        seqs = np.arange(first, first + values.records)
        partitions = np.full(seqs.size, CHOOSE) if self.config.client_partitions else seqs % self.config.partitions
        sent_ns, transaction, trouble = self.engine.send(Batch(first, partitions, values))
        if sent_ns.size:
            self.next_seq = first + sent_ns.size
            self._unanswered.add(first, self.schedule.due_times_ns(first, sent_ns.size), sent_ns, transaction)
        rejected = first + np.flatnonzero(sent_ns == NOT_SEEN)
        if rejected.size:
            self._never_sent(rejected, self._unanswered.take(rejected))
        self._note(f"{rejected.size} records from {first} on were rejected: {trouble}" if rejected.size else "")
        return not rejected.size

    def _note(self, trouble: str) -> None:
        if trouble and not self._trouble:
            log.warning(trouble)
        self._trouble = trouble

    def settle(self) -> bool:
        answers = self.engine.answers()
        if answers is None:
            return False
        self._settle(answers, self._unanswered.take(answers.seqs))
        return True

    def give_up(self) -> None:
        seqs = self._unanswered.left()
        self._unknown(seqs, self._unanswered.take(seqs), NO_ANSWER)

    def _unknown(self, seqs: Ints, sent: Sent, error: str) -> None:
        nothing = np.full(seqs.size, NOT_SEEN)
        self._settle(Answers(seqs, nothing, nothing, nothing, same_error(error, seqs.size)), sent)

    def _settle(self, answers: Answers, sent: Sent) -> None:
        seqs = answers.seqs
        if not seqs.size:
            return
        for error in answers.errors.value_counts().to_pylist():
            self.outcomes[outcome(error["values"], may_have_retried=self.config.retries > 0)] += error["counts"]
        columns = {
            "seq": seqs,
            "partition": self._partitions(seqs, answers.partitions),
            "done_ns": answers.done_ns,
            "offset": answers.offsets,
            "record_bytes": self._sizes.of_records(seqs),
        }
        self.ledger.record(answers.errors, columns | sent._asdict())

    def _partitions(self, seqs: Ints, reported: Ints) -> Ints:
        if not self.config.client_partitions:
            return seqs % self.config.partitions
        unknown = reported == NOT_SEEN
        if self._keys is None or not unknown.any():
            return reported
        return np.where(unknown, partitions_of(self._keys.of_records(seqs), self.config.partitions), reported)


def _filling(config: ProducerConfig, sizes: Sizes) -> Filling | None:
    if config.payload_file:
        return Filling(Path(config.payload_file).read_bytes(), 1.0, sizes)
    if config.compresses_to is not None:
        return Filling.compressing_to(config.compresses_to, sizes)
    return None


class Offers:
    """Apply the rate changes that ``set_rate`` writes to the folder ``control``, and confirm each there."""

    def __init__(self, control: str | None) -> None:
        self._control = Path(control) if control else None
        self._seen: tuple[int, int] | None = None

    def look(self, loop: OpenLoop) -> None:
        if self._control is None:
            return
        try:
            stat = (self._control / OFFER).stat()
        except FileNotFoundError:
            return
        if self._seen == (stat.st_ino, stat.st_mtime_ns):
            return
        rate_per_s = json.loads((self._control / OFFER).read_text())["rate_per_s"]
        now_ns = time.monotonic_ns()
        loop.change_rate(now_ns, rate_per_s)
        self._seen = (stat.st_ino, stat.st_mtime_ns)
        write_atomically(self._control / OFFERED, json.dumps({"rate_per_s": rate_per_s, "from_ns": now_ns}))
        log.info("%g/s from %d ns on", rate_per_s, now_ns)


def go_first() -> None:
    """Give this thread a real-time priority, if permitted: on a busy host its delays would look like the cluster's."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def _prepare_interpreter(engine: str) -> None:
    pa.array([0])  # the first conversion imports pandas, if installed
    keep_freed_memory()
    sys.setswitchinterval(SWITCH_S[engine])
    gc.freeze()
    gc.set_threshold(*GARBAGE)


@dataclass
class Progress:
    """Record answers, flush the ledger, and report the counts so far."""

    loop: OpenLoop
    summary: Summary
    stop: threading.Event
    waited_ns: int = 0
    _flush_due_ns: int = 0

    def settle(self) -> bool:
        loop, answered = self.loop, self.loop.settle()
        now_ns = time.monotonic_ns()
        if now_ns >= self._flush_due_ns or loop.ledger.waiting >= FLUSH_ROWS:
            loop.ledger.flush_soon()
            self._flush_due_ns = now_ns + FLUSH_NS
        if loop.outcomes["ok"]:
            self.summary.ready()
        due = loop.next_seq if self.stop.is_set() else max(loop.next_seq, loop.schedule.due_by(now_ns))
        sent, acked = loop.next_seq - loop.never_sent, loop.outcomes["ok"]
        self.summary.so_far(due=due, sent=sent, acked=acked, waited_ns=self.waited_ns)
        return answered

    def settle_all(self, limit_ns: int) -> None:
        deadline_ns, pause = time.monotonic_ns() + limit_ns, threading.Event()
        while self.loop.in_flight and time.monotonic_ns() < deadline_ns:
            if not self.settle():
                pause.wait(PAUSE_S)


def run(config: ProducerConfig, stop: threading.Event) -> None:
    """Produce until ``stop`` is set, then wait for answers."""
    summary = Summary(config, "producer")
    _prepare_interpreter(config.engine)
    engine = Transactional(config) if config.transaction_records else ENGINES[config.engine](config)
    about = About(config.client_id, config.topic, config.acks, may_have_retried=config.retries > 0)
    with Ledger(config.stream("sends"), about) as ledger:
        loop = OpenLoop(config, Schedule(time.monotonic_ns(), curve_of(config.rate_per_s)), engine, ledger)
        progress, started_ns = Progress(loop, summary, stop), time.monotonic_ns()
        log.info("%s sends %s/s to %s over %s", config.client_id, config.rate_per_s, config.topic, config.engine)
        _offer(progress, Offers(config.control))
        busy_ns = time.monotonic_ns() - started_ns - progress.waited_ns
        _finish(progress, config.delivery_timeout_ms * 1_000_000)
    summary.end(
        rows=loop.next_seq,
        last_seq=loop.next_seq - 1,
        overflowed=loop.never_sent,
        acked=loop.outcomes["ok"],
        failed=loop.outcomes["fail"],
        indeterminate=loop.outcomes["info"],
        busy_ns=busy_ns,
        offering_ns=busy_ns + progress.waited_ns,
    )
    log.info("ended: %s", dict(loop.outcomes))
    engine.close()


def _offer(progress: Progress, offers: Offers) -> None:
    loop = progress.loop
    while not progress.stop.is_set():
        looked_ns = time.monotonic_ns()
        loop.send_due(looked_ns)
        offers.look(loop)
        progress.settle()
        before_ns = time.monotonic_ns()
        until_due_s = (loop.schedule.due_ns(loop.next_seq) - before_ns) / SECOND_NS
        rest_s = FULL_S if loop.much_in_flight else TICK_S - (before_ns - looked_ns) / SECOND_NS
        progress.stop.wait(min(max(until_due_s, rest_s), LOOK_S))
        progress.waited_ns += time.monotonic_ns() - before_ns


def _finish(progress: Progress, limit_ns: int) -> None:
    loop = progress.loop
    loop.finish(time.monotonic_ns())
    log.info("stopping with %d in flight", loop.in_flight)
    progress.settle_all(limit_ns)
    if loop.in_flight:
        loop.engine.give_up()
    progress.settle_all(GIVE_UP_NS)
    loop.settle()
    loop.give_up()


if __name__ == "__main__":
    log_to_stderr()
    settings = ProducerConfig.from_json(Path(sys.argv[1]).read_text())
    if settings.engine == "confluent-kafka":  # kafka-python would occupy a core
        go_first()
    code = 1
    try:
        run(settings, stop_on_sigterm())
        code = 0
    except Exception:
        log.exception("the producer failed")
    sys.exit(code)
