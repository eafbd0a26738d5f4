"""Run Kafka's VerifiableProducer as the load.

Each line of the child process becomes a ledger row, ``done_ns`` its arrival; due and send times are unknown. On SIGTERM
it prints its number of sent records; otherwise that is unknown and the summary not clean.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from kafka.partitioner.default import murmur2

from clusters.clients.configs import VerifiableProducerConfig
from clusters.clients.ledger import NO_ANSWER, NOT_SEEN, About, Ledger, error_names, outcome
from clusters.clients.main import main
from clusters.clients.summary import Summary
from clusters.kafka.properties import render
from history import verifiable
from history.errors import HarnessError
from history.folder import write_private

log = logging.getLogger("producer")

MAIN = "org.apache.kafka.tools.VerifiableProducer"
KEYS = 1000  # spreads evenly over partitions
FLUSH_NS = 100_000_000


def partition_of(seq: int, partitions: int) -> int:
    """Return the murmur2 partition of the tool's key (``BuiltInPartitioner.partitionForKey``)."""
    key = str(seq % KEYS).encode()
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


def properties(config: VerifiableProducerConfig) -> dict[str, Any]:
    """Return the producer's settings; the tool's defaults give up after one attempt."""
    return {
        "client.id": config.id_on_cluster,
        "acks": config.acks,
        "enable.idempotence": str(config.idempotence).lower(),
        "retries": config.retries,
        "request.timeout.ms": config.request_timeout_ms,
        "delivery.timeout.ms": config.delivery_timeout_ms,
        "linger.ms": config.linger_ms,
        "batch.size": config.batch_bytes,
        "compression.type": config.compression,
        "metadata.max.age.ms": 1000,
        "retry.backoff.ms": 50,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        **(config.credentials.java() if config.credentials else {}),
    }


def command(config: VerifiableProducerConfig, settings: Path) -> list[str]:
    """Return the tool's command line, valid since 2.8.0."""
    return [
        *("setpriv", "--pdeathsig", "KILL"),  # it must not run without its ledger
        *(config.java, "-Xmx256m", "-cp", f"{config.jars}/*", MAIN),
        *("--bootstrap-server", ",".join(config.bootstrap), "--topic", config.topic),
        *("--throughput", str(max(1, round(config.rate_per_s))), "--producer.config", str(settings)),
        *("--value-prefix", str(config.value_prefix), "--repeating-keys", str(KEYS)),
    ]


@dataclass
class ToolOutput:
    """Write the tool's output to the ledger."""

    config: VerifiableProducerConfig
    ledger: Ledger
    outcomes: Counter[str] = field(default_factory=Counter)
    sent: int | None = None
    _next: int = 0  # all below were answered
    _ahead: set[int] = field(default_factory=set)  # answered above that

    def read(self, line: str, now_ns: int) -> None:
        """Process a line; log it unless it is the tool's JSON.

        Raises:
            HarnessError: a record's partition does not match its key.
        """
        try:
            row = json.loads(line)
            name = row["name"]
        except (ValueError, TypeError, KeyError):
            log.warning("the tool: %s", line.rstrip())
            return
        if name == verifiable.COUNTS:
            self.sent = int(row["sent"])
        elif name == verifiable.SENT:
            seq = self._seq(row)
            if row["partition"] != partition_of(seq, self.config.partitions):
                raise HarnessError(f"Record {seq} went to partition {row['partition']}, which does not match its key.")
            self._record(seq, now_ns, int(row["offset"]))
        elif name == verifiable.FAILED:
            self._record(self._seq(row), now_ns, NOT_SEEN, str(row["exception"]).rpartition(".")[2])

    def end(self) -> int:
        last = max(self._ahead, default=self._next - 1)
        sent = last + 1 if self.sent is None else self.sent
        for seq in range(self._next, sent):
            if seq not in self._ahead:
                self._write(seq, NOT_SEEN, NOT_SEEN, NO_ANSWER)
        return sent

    def _seq(self, row: dict[str, Any]) -> int:
        found = verifiable.named(row["value"])
        if found is None:
            raise HarnessError(f"The tool reported the value {row['value']!r}, which has no number.")
        return found[1]

    def _record(self, seq: int, done_ns: int, offset: int, error: str | None = None) -> None:
        self._write(seq, done_ns, offset, error)
        self._ahead.add(seq)
        while self._next in self._ahead:
            self._ahead.remove(self._next)
            self._next += 1

    def _write(self, seq: int, done_ns: int, offset: int, error: str | None) -> None:
        row = {
            "seq": seq,
            "partition": partition_of(seq, self.config.partitions),
            "due_ns": NOT_SEEN,
            "sent_ns": NOT_SEEN,
            "done_ns": done_ns,
            "offset": offset,
            "record_bytes": len(f"{self.config.value_prefix}.{seq}"),
            "transaction": NOT_SEEN,
        }
        self.outcomes[outcome(error, may_have_retried=self.config.retries > 0)] += 1
        self.ledger.record(error_names([error]), {name: np.array([value]) for name, value in row.items()})


def lines(child: subprocess.Popen[str]) -> Iterator[tuple[str, int]]:
    """Yield the tool's lines and their arrival times."""
    for line in child.stdout or ():
        yield line, time.monotonic_ns()


def run(config: VerifiableProducerConfig) -> None:
    """Run the tool until SIGTERM; raise HarnessError if it ends otherwise."""
    summary = Summary(config, "producer")
    settings = Path(config.control or config.out) / "producer.properties"
    write_private(settings, render({name: str(value) for name, value in properties(config).items()}))
    child = subprocess.Popen(
        command(config, settings),
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(config.access).parent if config.access else None,  # its settings may have relative paths
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.kill(child.pid, signal.SIGTERM))
    log.info("%s sends %g/s to %s", config.client_id, config.rate_per_s, config.topic)
    about = About(config.client_id, config.topic, config.acks, may_have_retried=config.retries > 0)
    with Ledger(config.stream("sends"), about) as ledger:
        output, flush_due_ns = ToolOutput(config, ledger), 0
        for line, now_ns in lines(child):
            output.read(line, now_ns)
            if output.outcomes["ok"]:
                summary.ready()
            summary.so_far(sent=output.outcomes.total(), acked=output.outcomes["ok"])
            if now_ns >= flush_due_ns:
                ledger.flush()
                flush_due_ns = now_ns + FLUSH_NS
        rows = output.end()
    code = child.wait()
    if output.sent is None:
        raise HarnessError(
            f"VerifiableProducer ended with code {code}, without reporting how many records it had sent."
        )
    summary.end(
        rows=rows,
        last_seq=rows - 1,
        acked=output.outcomes["ok"],
        failed=output.outcomes["fail"],
        indeterminate=output.outcomes["info"],
    )
    log.info("ended: %s", dict(output.outcomes))


if __name__ == "__main__":
    main(VerifiableProducerConfig, run)
