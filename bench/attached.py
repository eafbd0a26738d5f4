"""Measure what a watch costs, and the load of an attached run: ``python -m bench.attached``."""

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
import pyarrow.parquet as pq
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from bench import targets
from bench.clients import Bench, cluster
from bench.host import host
from clusters.paths import ROOT
from history.errors import HarnessError
from history.events import read_events
from history.folder import RunFolder

TOPIC, PARTITIONS, BROKERS = "many", 1_000, 3
ROUNDS = 3
WARM_S, MEASURED_S = 20.0, 20.0
SCENARIO = "steady"  # 1,000 records/s for 10 s
EDGE_NS = 2_000_000_000  # not counted, while the clients start
COMMAND = str(ROOT / "plimsoll")

Json = dict[str, Any]


class Cores(NamedTuple):
    """CPUs used by the watch, and by each broker without and with it."""

    tool: float
    idle: float
    watched: float


def main() -> None:
    """Measure and record all targets."""
    with cluster() as bench:
        rounds = watch_rounds(bench)
        loads = [(offered(bench), offered(bench, _file(bench))) for _ in range(ROUNDS)]
    targets.record(list(rows(rounds, loads)))


def rows(rounds: Sequence[Cores], loads: Sequence[tuple[float, float]]) -> Iterator[Json]:
    """Yield the results; ``loads`` are records per second on an own and an attached cluster."""
    measured_on = host()
    added = [max(each.watched - each.idle, 0.0) for each in rounds]
    tool, ratios = [each.tool for each in rounds], [others / own for own, others in loads]
    yield targets.row("watch_cpu", round(median(tool), 3), rounds=tool, host=measured_on)
    yield targets.row("watched_broker_cpu", round(median(added), 3), rounds=rounds, host=measured_on)
    yield targets.row("attached_load", round(median(ratios), 3), rounds=loads, host=measured_on)


def watch_rounds(bench: Bench) -> list[Cores]:
    """Measure the brokers without and with a watch of many partitions with records, in turn."""
    _fill(bench.bootstrap)
    brokers = [psutil.Process(int(noted.read_text())) for noted in bench.scratch.glob("runs/*/work/broker-*/pid")]
    return [_watch_round(bench, brokers) for _ in range(ROUNDS)]


def _fill(bootstrap: list[str]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, BROKERS)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for partition in range(PARTITIONS):
        producer.send(TOPIC, b"1", partition=partition)
    producer.close()


def _watch_round(bench: Bench, brokers: list[psutil.Process]) -> Cores:
    time.sleep(WARM_S)
    idle = used(brokers)
    with watching(bench) as tool:
        time.sleep(WARM_S)
        *watched, own = used([*brokers, tool])
        if tool.status() == psutil.STATUS_ZOMBIE:
            raise HarnessError("The watch has ended.")
    return Cores(own, sum(idle) / BROKERS, sum(watched) / BROKERS)


@contextmanager
def watching(bench: Bench) -> Iterator[psutil.Process]:
    """Watch the topic once per second until the end."""
    line = [COMMAND, "watch", TOPIC, "--cluster", str(_file(bench)), "--json", "--runs", str(bench.scratch / "watched")]
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
