"""Measure what a watch costs, also to another load, and the load of an attached run: ``python -m bench.attached``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from bench import targets
from bench.clients import PARTITIONS as PARTITIONS_OF_LOAD
from bench.clients import Bench, cluster
from bench.host import host
from clusters.clients.configs import ProducerConfig
from clusters.clients.ledger import sends_of
from clusters.paths import ROOT
from history.errors import HarnessError
from history.events import read_events
from history.folder import RunFolder

PARTITIONS, BROKERS = 1_000, 3
FEW = 100  # partitions watched beside another load, so that the host is not the limit
ROUNDS = 3
LATENCY_ROUNDS = 8
OTHERS_PER_S = 200.0  # of the load whose latency is measured; 1,000 took most of two cores
WARM_S, MEASURED_S = 20.0, 20.0
SCENARIO = "steady"  # 1,000 records/s for 10 s
EDGE_NS = 2_000_000_000  # not counted, while the clients start
COMMAND = str(ROOT / "plimsoll")

Json = dict[str, Any]
Span = tuple[int, int]  # monotonic nanoseconds


class Cores(NamedTuple):
    """CPUs used by the watch, and by each broker without and with it."""

    tool: float
    idle: float
    watched: float


def main() -> None:
    """Measure and record all targets."""
    with cluster() as bench:
        latencies, rounds = latency_rounds(bench), watch_rounds(bench)  # first without the many partitions
        loads = [(offered(bench), offered(bench, _file(bench))) for _ in range(ROUNDS)]
    targets.record(list(rows(rounds, latencies, loads)))


def rows(
    rounds: Sequence[Cores], latencies: Sequence[tuple[float, float]], loads: Sequence[tuple[float, float]]
) -> Iterator[Json]:
    """Yield the results.

    ``latencies`` are those of another load in ms, without and with a watch; ``loads`` are records per second on an own
    and an attached cluster.
    """
    measured_on = host()
    added = [max(each.watched - each.idle, 0.0) for each in rounds]
    tool, slower = [each.tool for each in rounds], [watched / alone for alone, watched in latencies]
    ratios = [others / own for own, others in loads]
    yield targets.row("watch_cpu", round(median(tool), 3), rounds=tool, host=measured_on)
    yield targets.row("watched_broker_cpu", round(median(added), 3), rounds=rounds, host=measured_on)
    yield targets.row("watched_p99", round(median(slower), 3), rounds=latencies, host=measured_on)
    yield targets.row("attached_load", round(median(ratios), 3), rounds=loads, host=measured_on)


def watch_rounds(bench: Bench) -> list[Cores]:
    """Measure the brokers without and with a watch of many partitions with records, in turn."""
    topic = _fill(bench.bootstrap, PARTITIONS)
    works = [RunFolder(run).work for run in (bench.scratch / "runs").iterdir()]
    brokers = [psutil.Process(int(noted.read_text())) for work in works for noted in work.glob("broker-*/pid")]
    return [_watch_round(bench, topic, brokers) for _ in range(ROUNDS)]


def _fill(bootstrap: list[str], partitions: int) -> str:
    """Create a topic with a record in each partition; return its name."""
    name = f"of-{partitions}"
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(name, partitions, BROKERS)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for partition in range(partitions):
        producer.send(name, b"1", partition=partition)
    producer.close()
    return name


def _watch_round(bench: Bench, topic: str, brokers: list[psutil.Process]) -> Cores:
    time.sleep(WARM_S)
    idle = used(brokers)
    with watching(bench, topic) as tool:
        time.sleep(WARM_S)
        *watched, own = used([*brokers, tool])
        if tool.status() == psutil.STATUS_ZOMBIE:
            raise HarnessError("The watch has ended.")
    return Cores(own, sum(idle) / BROKERS, sum(watched) / BROKERS)


def latency_rounds(bench: Bench) -> list[tuple[float, float]]:
    """Measure the p99 latency in ms of another load without and with a watch, in turn."""
    watched = _fill(bench.bootstrap, FEW)
    with bench.topic() as topic:
        config = ProducerConfig(
            **bench.common("others"),
            topic=topic,
            partitions=PARTITIONS_OF_LOAD,
            rate_per_s=OTHERS_PER_S,
            record_bytes=100,
            engine="confluent-kafka",
        )
        producer = bench.start("producer", config)
        spans = [_latency_round(bench, watched) for _ in range(LATENCY_ROUNDS)]
        producer.send_signal(signal.SIGTERM)
        producer.wait(60)
        sends = pa.Table.from_batches(sends_of(config.stream("sends")))
    due_ns, done_ns = (sends[name].to_numpy(zero_copy_only=False) for name in ("due_ns", "done_ns"))
    return [(p99_ms(due_ns, done_ns, alone), p99_ms(due_ns, done_ns, watched)) for alone, watched in spans]


def _latency_round(bench: Bench, topic: str) -> tuple[Span, Span]:
    alone = _span()
    with watching(bench, topic):
        return alone, _span()


def _span() -> Span:
    time.sleep(WARM_S)
    began_ns = time.monotonic_ns()
    time.sleep(MEASURED_S)
    return began_ns, time.monotonic_ns()


def p99_ms(due_ns: np.ndarray, done_ns: np.ndarray, span: Span) -> float:
    """Return the p99 in ms of (acknowledged - due), of the records due within a span."""
    within = (due_ns >= span[0]) & (due_ns < span[1])
    return float(np.quantile(done_ns[within] - due_ns[within], 0.99, method="higher") / 1e6)


@contextmanager
def watching(bench: Bench, topic: str) -> Iterator[psutil.Process]:
    """Watch a topic once per second until the end."""
    line = [COMMAND, "watch", topic, "--cluster", str(_file(bench)), "--json", "--runs", str(bench.scratch / "watched")]
    with (bench.scratch / "watch.log").open("ab") as log:
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True)
    try:
        yield psutil.Process(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def used(processes: Sequence[psutil.Process]) -> list[float]:
    """Return how many CPUs each process uses for some seconds."""
    before, began = list(map(_cpu_s, processes)), time.monotonic()
    time.sleep(MEASURED_S)
    after, seconds = list(map(_cpu_s, processes)), time.monotonic() - began
    return [(late - early) / seconds for early, late in zip(before, after, strict=True)]


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def offered(bench: Bench, file: Path | None = None) -> float:
    """Return the records per second that a run sends, attached if there is a cluster file."""
    where = ["--cluster", str(file)] if file else ["--runtime", "process"]
    line = [COMMAND, "run", SCENARIO, *where, "--runs", str(bench.scratch / "ran"), "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    facts = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    if facts.get("verdict") != "pass":
        raise HarnessError(f"The run {where} did not pass: {facts}; {done.stderr[-500:]}")
    run = RunFolder(Path(facts["run"]))
    times = {event.kind: event.t_ns for event in read_events(run.events) if event.phase == SCENARIO}
    sent_ns = pq.read_table(run.table("sends"), columns=["sent_ns"])["sent_ns"].drop_null().to_numpy()
    return sent_per_s(sent_ns, times["phase_started"] + EDGE_NS, times["phase_ended"])


def sent_per_s(sent_ns: np.ndarray, began_ns: int, ended_ns: int) -> float:
    """Return the records per second between two times."""
    count = np.count_nonzero((sent_ns >= began_ns) & (sent_ns < ended_ns))
    return float(count / (ended_ns - began_ns) * 1e9)


def _file(bench: Bench) -> Path:
    path = bench.scratch / "mine.yaml"
    path.write_text(f"bootstrap: {json.dumps(bench.bootstrap)}\n")
    return path


if __name__ == "__main__":
    main()
