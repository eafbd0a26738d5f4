"""Compare our clients' speed with Kafka's own performance tools: ``python -m bench.clients [late]``.

``late`` measures only the open loop's lateness. All programs have acks=all, idempotence, no compression, equal linger
and default batch sizes, and take turns. confluent-kafka sends each partition's batch in its own request, where Kafka's
client fills one per broker, so it also runs with Kafka's batch size. Our producer gets a rate above its capacity.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from kafka.admin import KafkaAdminClient

from bench import targets
from bench.host import host
from clusters.clients.configs import ClientConfig, ConsumerConfig, DrainConfig, ProducerConfig
from clusters.clients.ledger import sends_of
from clusters.clients.polls import polls_of
from clusters.kafka.admin import create_topic
from clusters.kafka.connection import Connection
from clusters.kafka.jars import tools_jars
from clusters.live.world import World
from clusters.paths import ROOT
from clusters.run.experiment import create_topics, prepare, start_cluster, tear_down
from clusters.waiting import wait_until
from history.errors import HarnessError
from history.java import java_of

MEMORY = Path("/dev/shm")
KAFKA = "4.3.1"  # the newest with performance tools on Maven Central
PRODUCER_TOOL, CONSUMER_TOOL = "kafka-producer-perf-test", "kafka-consumer-perf-test"
SAME_BATCHES = "confluent-kafka, batches as Kafka's"
ENGINES = {"confluent-kafka": 1, "kafka-python": 2}  # processes that share the load
ROUNDS = 5
LATE_BYTES = 100
WARM_S, MEASURED_S = 3.0, 6.0
ASKED = {"confluent-kafka": 1.5, "kafka-python": 0.35}  # times the rate of kafka-producer-perf-test
LINGER_MS, BATCH_BYTES = 5, 16_384  # Kafka's defaults
WARM_GROWTH, WARM_RUNS = 1.1, 10  # a faster warm-up run exceeds the best by this ratio
LEAST_RUNS = 2
PARTITIONS = 6
BESIDE = {"confluent-kafka": (SAME_BATCHES,)}
READERS = ("drain", "consumer")
READ_LIMIT_S = 120.0
STEADY = re.compile(r"steady state records sent, ([\d.]+) records/sec")
SECOND_NS = 1_000_000_000


@dataclass
class Bench:
    """A running cluster and a folder for the clients' files."""

    bootstrap: list[str]
    scratch: Path
    _topics: int = 0

    def __post_init__(self) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)

    @contextmanager
    def topic(self) -> Iterator[str]:
        """Delete the records afterwards."""
        self._topics += 1
        name, brokers = f"measured-{self._topics}", (1, 2, 3)
        address, _, port = self.bootstrap[0].rpartition(":")
        connection = Connection(address, int(port), 10.0, "bench")
        try:
            placed = {p: [brokers[(p + i) % 3] for i in range(3)] for p in range(PARTITIONS)}
            create_topic(connection, name, placed, {"file.delete.delay.ms": "0"})
        finally:
            connection.close()
        yield name
        self._admin.delete_topics([name])

    def start(self, program: str, config: ClientConfig) -> subprocess.Popen[bytes]:
        file = self.scratch / f"{config.client_id}.json"
        file.write_text(config.to_json())
        log = (self.scratch / f"{config.client_id}.log").open("wb")
        return subprocess.Popen(
            [sys.executable, "-m", f"clusters.clients.{program}", str(file)], cwd=ROOT, stderr=log, stdout=log
        )

    def common(self, name: str) -> dict[str, Any]:
        """Return the settings of every client; delete an earlier client's files."""
        out = self.scratch / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        return {"client_id": name, "out": str(out), "summary": str(out / "summary.json"), "bootstrap": self.bootstrap}


@contextmanager
def cluster() -> Iterator[Bench]:
    """Start three brokers with logs in memory: on disk they are slower than the clients."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-", dir=MEMORY) as scratch:
        run = prepare(str(ROOT / "bench" / "clients.yaml"), kafka=KAFKA, runtime="process", runs=Path(scratch) / "runs")
        start_cluster(run)
        try:
            create_topics(run)
            with World.open(run) as world:
                yield Bench(world.bootstrap, Path(scratch))
        finally:
            tear_down(run)


# --- producers -----------------------------------------------------------------------------------


def perf_test(bench: Bench, topic: str, record_bytes: int, warm: int, measured: int) -> float:
    """Return the records per second of kafka-producer-perf-test."""
    settings = {
        "bootstrap.servers": ",".join(bench.bootstrap),
        "acks": "all",
        "enable.idempotence": "true",
        "linger.ms": LINGER_MS,
    }
    arguments = ["--topic", topic, "--num-records", str(warm + measured), "--warmup-records", str(warm)]
    arguments += ["--record-size", str(record_bytes), "--throughput", "-1"]
    arguments += ["--command-property", *(f"{key}={value}" for key, value in settings.items())]
    return float(_said(STEADY, _tool("ProducerPerformance", arguments)))


def our_producer(
    bench: Bench,
    topic: str,
    engine: str,
    record_bytes: int,
    rate_per_s: float,
    *,
    batch_bytes: int = ProducerConfig.batch_bytes,
) -> pa.Table:
    """Run one of our engines and return its ledger rows."""
    configs = [
        ProducerConfig(
            **bench.common(f"{engine}-{number}"),
            topic=topic,
            partitions=PARTITIONS,
            rate_per_s=rate_per_s / ENGINES[engine],
            record_bytes=record_bytes,
            linger_ms=LINGER_MS,
            engine=engine,
            batch_bytes=batch_bytes,
        )
        for number in range(ENGINES[engine])
    ]
    processes = [bench.start("producer", config) for config in configs]
    time.sleep(WARM_S + MEASURED_S + 2)
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        process.wait(60)
    return pa.Table.from_batches([batch for config in configs for batch in sends_of(config.stream("sends"))])


def acknowledged_per_s(sends: pa.Table) -> float:
    """Return the records per second acknowledged after the warm-up."""
    done_ns = sends["done_ns"].filter(_is_ok(sends)).to_numpy()
    begun_ns = int(done_ns.min() + WARM_S * SECOND_NS)
    return float(np.count_nonzero((done_ns >= begun_ns) & (done_ns < begun_ns + MEASURED_S * SECOND_NS)) / MEASURED_S)


def late_ms(sends: pa.Table) -> tuple[float, float]:
    """Return the 99 % and 99.9 % quantiles of (sent - due), in ms."""
    due_ns, sent_ns = sends["due_ns"].to_numpy(), sends["sent_ns"].to_numpy(zero_copy_only=False)
    warm = due_ns >= due_ns.min() + WARM_S * SECOND_NS
    late = np.where(np.isnan(sent_ns), np.inf, (sent_ns - due_ns) / 1e6)[warm]
    most, nearly_all = np.quantile(late, (0.99, 0.999), method="higher").tolist()
    return most, nearly_all


def _is_ok(sends: pa.Table) -> pa.ChunkedArray:
    return pc.equal(sends["outcome"], "ok")


# --- readers -------------------------------------------------------------------------------------


def consumer_perf_test(bench: Bench, topic: str, records: int) -> float:
    """Return the records per second of kafka-consumer-perf-test after the assignment."""
    arguments = ["--bootstrap-server", ",".join(bench.bootstrap), "--topic", topic, "--num-records", str(records)]
    printed = _tool("ConsumerPerformance", arguments)
    return float(printed.strip().splitlines()[-1].split(",")[-1])


def our_reader(bench: Bench, program: str, topic: str, records: int) -> float:
    """Return the records per second of drain or live consumer."""
    common = {**bench.common(program), "topics": {topic: PARTITIONS}}
    config = DrainConfig(**common) if program == "drain" else ConsumerConfig(**common)
    process = bench.start(program, config)
    try:
        wait_until(
            lambda: process.poll() is not None or _read(config) >= records,
            limit_s=READ_LIMIT_S,
            every_s=0.2,
            ignoring=(FileNotFoundError,),
            what=f"{program} to read {records} records",
        )
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    received_ns = np.concatenate([batch["received_ns"].to_numpy() for batch in polls_of(config.stream("polls"))])
    if received_ns.size < records:
        said = (bench.scratch / f"{program}.log").read_text().strip()[-500:]
        raise HarnessError(f"{program} read {received_ns.size} of {records} records; it said: {said}")
    return float(received_ns.size / ((received_ns.max() - received_ns.min()) / SECOND_NS))


def _read(config: ConsumerConfig) -> int:
    """Reading its stream would slow it down."""
    said: dict[str, int] = json.loads(Path(config.summary).read_text()).get("so_far", {})
    return said.get("received", 0)


# --- rounds --------------------------------------------------------------------------------------


def rounds(bench: Bench, record_bytes: int) -> Iterator[dict[str, float]]:
    """Yield records per second by program and round, after a warm-up."""
    per_s = warm_up(bench, record_bytes)
    with bench.topic() as to_read:
        sends = our_producer(bench, to_read, "confluent-kafka", record_bytes, per_s)
        written = Written(to_read, pc.sum(_is_ok(sends)).as_py())
        for number in range(ROUNDS + 1):
            rates: dict[str, float] = {}
            programs = [PRODUCER_TOOL, *ENGINES, SAME_BATCHES, CONSUMER_TOOL, *READERS]
            # deleting the previous program's records costs time: alternate who comes first
            for program in programs if number % 2 else reversed(programs):
                rates[program] = _measured(bench, program, record_bytes, per_s, written)
            per_s = rates[PRODUCER_TOOL]
            told = ", ".join(f"{name} {rate:,.0f}/s" for name, rate in rates.items())
            print(f"{record_bytes} bytes, round {number} of {ROUNDS}: {told}", flush=True)
            if number:
                yield rates


def warm_up(bench: Bench, record_bytes: int) -> float:
    """Return the best rate once the brokers' code is compiled."""
    best, records, without = 0.0, 50_000, 0
    for _ in range(WARM_RUNS):
        with bench.topic() as topic:
            per_s = perf_test(bench, topic, record_bytes, records, records)
        without = 0 if per_s >= WARM_GROWTH * best else without + 1
        best = max(best, per_s)
        if without == LEAST_RUNS:
            break
        records = int(per_s * MEASURED_S)
    return best


class Written(NamedTuple):
    """The topic that the readers read."""

    topic: str
    records: int


def _measured(bench: Bench, program: str, record_bytes: int, per_s: float, written: Written) -> float:
    """``per_s`` is the last rate of kafka-producer-perf-test."""
    if program == CONSUMER_TOOL:
        return consumer_perf_test(bench, *written)
    if program in READERS:
        return our_reader(bench, program, *written)
    with bench.topic() as topic:
        if program == PRODUCER_TOOL:
            return perf_test(bench, topic, record_bytes, int(per_s * WARM_S), int(per_s * MEASURED_S))
        engine, batch_bytes = program, ProducerConfig.batch_bytes
        if program == SAME_BATCHES:
            engine, batch_bytes = "confluent-kafka", BATCH_BYTES
        sends = our_producer(bench, topic, engine, record_bytes, ASKED[engine] * per_s, batch_bytes=batch_bytes)
        return acknowledged_per_s(sends)


def rows_of(record_bytes: int, measured: Sequence[Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    """Yield the median of the rounds' ratios."""
    for ours, _, theirs, _ in targets.BESIDE_KAFKA:
        ratios = [round(rates[ours] / rates[theirs], 3) for rates in measured]
        compared = (ours, theirs, *BESIDE.get(ours, ()))
        per_s = {name: [round(rates[name]) for rates in measured] for name in compared}
        name = targets.beside_kafka(ours, record_bytes)
        yield targets.row(name, median(ratios), rounds=ratios, records_per_s=per_s, kafka=KAFKA)


def main(*, only_late: bool = False) -> None:
    """Measure all targets; record each size at once."""
    machine = host()

    def record(rows: Iterable[Mapping[str, Any]]) -> None:
        targets.record([{**row, "host": machine} for row in rows])

    with cluster() as bench:
        if only_late:
            record(lateness(bench, LATE_BYTES, capacity(bench, LATE_BYTES)))
            return
        for record_bytes in targets.SIZES:
            measured = list(rounds(bench, record_bytes))
            record(rows_of(record_bytes, measured))
            if record_bytes == LATE_BYTES:
                record(lateness(bench, record_bytes, [rates["confluent-kafka"] for rates in measured]))


def capacity(bench: Bench, record_bytes: int) -> list[float]:
    """Return our open loop's highest rate in each round, per second."""
    per_s, nothing = warm_up(bench, record_bytes), Written("", 0)
    rates = [_measured(bench, "confluent-kafka", record_bytes, per_s, nothing) for _ in range(ROUNDS)]
    print(f"{record_bytes} bytes: {', '.join(f'{rate:,.0f}/s' for rate in rates)}", flush=True)
    return rates


def lateness(bench: Bench, record_bytes: int, capacities: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yield the lateness at half the median rate."""
    rate_per_s = median(capacities) / 2
    late = list[tuple[float, float]]()
    for _ in range(ROUNDS):
        with bench.topic() as topic:
            late.append(late_ms(our_producer(bench, topic, "confluent-kafka", record_bytes, rate_per_s)))
    print(f"at {rate_per_s:,.0f}/s late by at most (99 %, 99.9 %): {late}", flush=True)
    for name, figures in zip(("late_99", "late_999"), zip(*late, strict=True), strict=True):
        rounds_ms = [round(figure, 3) for figure in figures]
        yield targets.row(name, median(rounds_ms), rounds_ms=rounds_ms, rate_per_s=round(rate_per_s))


def _tool(name: str, arguments: Sequence[str]) -> str:
    command = [java_of().command, "-cp", f"{tools_jars(KAFKA)}/*", f"org.apache.kafka.tools.{name}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"{name} of Kafka {KAFKA} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def _said(pattern: re.Pattern[str], printed: str) -> str:
    found = pattern.findall(printed)
    if not found:
        raise HarnessError(f"No {pattern.pattern!r} in what was printed: {printed.strip()[-500:]}")
    return str(found[-1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("late", nargs="?", choices=["late"], help="measure only the open loop's lateness")
    main(only_late=parser.parse_args().late is not None)
