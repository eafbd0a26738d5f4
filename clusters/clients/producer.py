"""An open-loop producer: ``python -m clusters.clients.producer <config.json>``.

Records are due at fixed times from the start, whatever the cluster does, and latency counts from the due time.
Another rate may be asked for while it runs; the records after that are due at fixed times from then on.
What is in flight is bounded; a record that finds no room is ``fail: never_sent``. Every record ends in the
ledger, those without an answer as ``info: no_answer``. SIGTERM stops the flow and waits for the answers.
A record that belongs to a transaction has its answer when the transaction has ended.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from clusters.clients.configs import OFFER, OFFERED, ProducerConfig
from clusters.clients.engines import ENGINES, Engine, NotTakenError
from clusters.clients.ledger import NEVER_SENT, NO_ANSWER, outcome
from clusters.clients.pacing import SECOND_NS, Schedule
from clusters.clients.summary import Summary, log_to_stderr, stop_on_sigterm
from clusters.clients.transactions import Transactional
from history.folder import write_atomically
from history.payload import encode
from history.streams import RowWriter
from history.tables import SENDS

log = logging.getLogger("producer")

TICK_S = 0.001
SWITCH_S = 0.001  # the library's own thread hands back the interpreter this soon (Python's default is 5 ms)
FLUSH_NS = 100_000_000  # little and often: converting a second's rows at once would hold up the schedule


class _Sent(NamedTuple):
    due_ns: int
    sent_ns: int
    transaction: int | None


@dataclass
class OpenLoop:
    """Sends what is due and writes each record's ledger row once its outcome is known.

    Record ``seq`` goes to partition ``seq`` modulo the number of partitions.
    """

    config: ProducerConfig
    schedule: Schedule
    engine: Engine
    record: Callable[[Mapping[str, Any]], None]
    next_seq: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    never_sent: int = 0
    _in_flight: dict[int, _Sent] = field(default_factory=dict)
    _trouble: str = ""

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def send_due(self, now_ns: int) -> None:
        """Hand over everything that is due; after a refusal the rest of it is not even tried, to keep time.

        While a transaction ends, what is due waits, up to as many records as there is room for in flight.
        """
        taken = True
        due = max(self.schedule.due_by(now_ns), self.next_seq)
        for seq in range(self.next_seq, due):
            ready = self.engine.ready
            if not ready and due - seq <= self.config.max_in_flight:
                return
            taken = ready and taken and len(self._in_flight) < self.config.max_in_flight and self._send(seq)
            if not taken:
                self._refuse(seq)
            self.next_seq = seq + 1

    def change_rate(self, now_ns: int, rate_per_s: float) -> bool:
        """The next record is due now and those after it at another rate; False while records that are due wait."""
        if self.next_seq < self.schedule.due_by(now_ns):
            return False
        self.schedule = Schedule(now_ns, rate_per_s, first=self.next_seq)
        return True

    def finish(self, now_ns: int) -> None:
        """No more sends: what is due and still waits is never sent, and an open transaction ends."""
        for seq in range(self.next_seq, self.schedule.due_by(now_ns)):
            self._refuse(seq)
            self.next_seq = seq + 1
        self.engine.finish()

    def _refuse(self, seq: int) -> None:
        self.never_sent += 1
        self._write(seq, self.schedule.due_ns(seq), error=NEVER_SENT)

    def _send(self, seq: int) -> bool:
        value = encode(self.config.client_id, seq, self.config.record_bytes)
        sent_ns = time.monotonic_ns()
        try:
            transaction = self.engine.send(seq % self.config.partitions, value, seq)
        except NotTakenError as error:
            self._note(f"record {seq} was not taken: {error}")
            return False
        self._in_flight[seq] = _Sent(self.schedule.due_ns(seq), sent_ns, transaction)
        self._note("")
        return True

    def _note(self, trouble: str) -> None:
        """One line when the library begins to refuse, not one a record."""
        if trouble and not self._trouble:
            log.warning(trouble)
        self._trouble = trouble

    def settle(self) -> None:
        """Write the rows of all records that were answered by now."""
        self.engine.poll()
        answers = self.engine.answers
        while answers:
            answer = answers.popleft()
            sent = self._in_flight.pop(answer.seq)
            self._write(
                answer.seq,
                sent.due_ns,
                sent_ns=sent.sent_ns,
                done_ns=answer.done_ns,
                offset=answer.offset,
                error=answer.error,
                transaction=sent.transaction,
            )

    def give_up(self) -> None:
        """Write what is still in flight as unknown."""
        for seq, sent in self._in_flight.items():
            self._write(seq, sent.due_ns, sent_ns=sent.sent_ns, error=NO_ANSWER, transaction=sent.transaction)
        self._in_flight.clear()

    def _write(self, seq: int, due_ns: int, *, error: str | None, **seen: int | None) -> None:
        said = outcome(error, may_have_retried=self.config.retries > 0)
        self.outcomes[said] += 1
        self.record(
            {
                "producer_id": self.config.client_id,
                "seq": seq,
                "topic": self.config.topic,
                "partition": seq % self.config.partitions,
                "due_ns": due_ns,
                "outcome": said,
                "error": error,
                "acks": self.config.acks,
                "record_bytes": self.config.record_bytes,
                **seen,
            }
        )


class Offers:
    """Watches for another rate; ``control`` is a folder, None where nobody will ask."""

    def __init__(self, control: str | None) -> None:
        self._control = Path(control) if control else None
        self._seen: tuple[int, int] | None = None

    def look(self, loop: OpenLoop) -> None:
        """Change the loop's rate when another one was asked for since the last look, and answer from when it holds."""
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
        loop.send_due(now_ns)  # at a high rate some record has come due since the last time
        if loop.change_rate(now_ns, rate_per_s):
            self._seen = (stat.st_ino, stat.st_mtime_ns)
            write_atomically(self._control / OFFERED, json.dumps({"rate_per_s": rate_per_s, "from_ns": now_ns}))
            log.info("%g/s from %d ns on", rate_per_s, now_ns)


def run(config: ProducerConfig, stop: threading.Event) -> None:
    """Produce until ``stop`` is set, then wait up to the delivery timeout for answers."""
    summary = Summary(config, "producer")
    pa.array([0])  # pyarrow imports pandas, where there is one, at its first conversion: not while records are due
    sys.setswitchinterval(SWITCH_S)
    engine = Transactional(config) if config.transaction_records else ENGINES[config.engine](config)
    with RowWriter(config.stream("sends"), SENDS) as writer:
        loop = OpenLoop(config, Schedule(time.monotonic_ns(), config.rate_per_s), engine, writer.add)
        flush_due_ns = 0

        def settle() -> None:
            nonlocal flush_due_ns
            loop.settle()
            now_ns = time.monotonic_ns()
            if now_ns >= flush_due_ns:
                writer.flush()
                flush_due_ns = now_ns + FLUSH_NS
            if loop.outcomes["ok"]:
                summary.ready()

        log.info("%s sends %g/s to %s over %s", config.client_id, config.rate_per_s, config.topic, config.engine)
        offers = Offers(config.control)
        while not stop.is_set():
            loop.send_due(time.monotonic_ns())
            offers.look(loop)
            settle()
            due_in_s = (loop.schedule.due_ns(loop.next_seq) - time.monotonic_ns()) / SECOND_NS
            stop.wait(max(due_in_s, TICK_S))
        loop.finish(time.monotonic_ns())
        log.info("stopping with %d in flight", loop.in_flight)
        deadline_ns = time.monotonic_ns() + config.delivery_timeout_ms * 1_000_000
        pause = threading.Event()
        while loop.in_flight and time.monotonic_ns() < deadline_ns:
            settle()
            pause.wait(10 * TICK_S)
        loop.settle()
        loop.give_up()
    summary.end(
        rows=loop.next_seq,
        last_seq=loop.next_seq - 1,
        overflowed=loop.never_sent,
        acked=loop.outcomes["ok"],
        failed=loop.outcomes["fail"],
        indeterminate=loop.outcomes["info"],
    )
    log.info("ended: %s", dict(loop.outcomes))
    engine.close()


if __name__ == "__main__":
    log_to_stderr()
    run(ProducerConfig.from_json(Path(sys.argv[1]).read_text()), stop_on_sigterm())
