"""Record the replicas of a cluster that somebody else runs; nothing is written to it."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clusters.attached.cluster_file import ClusterFile
from clusters.attached.discover import WATCH, Discovered
from clusters.attached.incidents import Incidents
from clusters.attached.state import PartitionNow, WatchState
from clusters.clients import prober
from clusters.clients.configs import ProberConfig
from clusters.clients.nodes import OTHERS_ANSWER_LIMIT_S, OTHERS_BUSY
from clusters.kafka.access import Access
from clusters.kafka.probe import Tick
from clusters.run.manifest import boot_id, host_fingerprint
from history.events import EventLog
from history.folder import RunFolder
from history.manifest import UNKNOWN, Manifest, NodeInfo, TopicInfo
from history.partitioned import streams_to_parquet
from history.product import product
from history.streams import read_stream
from history.tables import RECORDED

PHASE = "watch"


class Watch:
    """A watch in progress; ``folder`` looks like a run's, so that its metrics can be served."""

    def __init__(self, runs: Path, file: ClusterFile, found: Discovered, access: Access | None, hz: float) -> None:
        now = datetime.now(UTC)
        self.folder = RunFolder(runs / f"{now:%Y%m%d-%H%M%S}-watch-{secrets.token_hex(2)}")
        self._events = EventLog(self.folder.events)
        self._incidents = Incidents(self._events, PHASE)
        self._file, self._found, self._access, self._hz = file, found, access, hz
        min_isr = {
            name: int(topic.settings["min.insync.replicas"])
            for name, topic in found.topics.items()
            if topic.settings and "min.insync.replicas" in topic.settings
        }
        self._state, self._lock = WatchState(found.replicas, min_isr, time.monotonic_ns()), threading.Lock()
        self._stop = threading.Event()

    @contextmanager
    def recording(self) -> Iterator[Future[None]]:
        """Record until the end of the block, then seal the folder."""
        self._prepare()
        self._events.add("run_started")
        self._events.add("phase_started", phase=PHASE)
        with ExitStack() as ending:
            pool = ending.enter_context(ThreadPoolExecutor(1))
            ending.callback(self._stop.set)
            probing = pool.submit(prober.run, self._config(), self._stop, self._show)
            yield probing
        probing.result()
        self._incidents.end()
        self._events.add("phase_ended", phase=PHASE)
        self._collect()

    def now(self) -> list[PartitionNow]:
        with self._lock:
            return list(self._state.now(time.monotonic_ns()))

    def _show(self, tick: Tick) -> None:
        with self._lock:
            self._state.add(tick)
        self._incidents.add(tick)

    def _prepare(self) -> None:
        for folder in (self._streams, self.folder.clients):
            folder.mkdir(parents=True)
        _manifest(self.folder.run_id, self._found, self._hz).write(self.folder.manifest)

    @property
    def _streams(self) -> Path:
        return self.folder.work / "streams"

    def _config(self) -> ProberConfig:
        return ProberConfig(
            client_id=WATCH,
            id_prefix=self._file.topics.prefix,
            out=str(self._streams),
            summary=str(self.folder.clients / f"{WATCH}.json"),
            access=str(self._access.path) if self._access else None,
            brokers={number: str(broker.address or "") for number, broker in self._found.brokers.items()},
            assignment={name: topic.assignment for name, topic in self._found.topics.items()},
            hz=self._hz,
            topic_ids={name: topic.topic_id for name, topic in self._found.topics.items() if topic.topic_id},
            isr_hz=self._hz,
            timeout_ms=round(OTHERS_ANSWER_LIMIT_S * 1000),
            busy=OTHERS_BUSY,
        )

    def _collect(self) -> None:
        rows: dict[str, Any] = {}
        for name in ("replicas", "isr"):
            files = sorted(self._streams.glob(f"{name}-*.arrow"))
            rows[name] = streams_to_parquet(files, self.folder.table(name), RECORDED[name], read_stream)
        clock = self._streams / "clock.jsonl"
        clock.rename(self.folder.path / "clock.jsonl")
        self._events.add("collected", **rows)
        self.folder.seal()


def _manifest(run_id: str, found: Discovered, hz: float) -> Manifest:
    topics = {
        name: TopicInfo(assignment=topic.assignment, config=dict(topic.settings or {}))
        for name, topic in found.topics.items()
    }
    nodes = [
        NodeInfo(
            name=f"broker-{broker.broker_id}",
            role="broker",
            address=str(broker.address or UNKNOWN),
            node_id=broker.broker_id,
            config=dict(broker.settings),
        )
        for broker in found.brokers.values()
    ]
    return Manifest(
        origin="watched",
        run_id=run_id,
        scenario_name="watch",
        scenario={"why": f"The replicas of {', '.join(found.topics)} on cluster {found.cluster_id}.", "phases": []},
        scenario_digest="",
        faults=[],
        traits={},
        kafka_version=UNKNOWN,
        kafka_jars_digest="",
        seed=0,
        started_at=datetime.now(UTC).isoformat(),
        started_ns=time.monotonic_ns(),
        boot_id=boot_id(),
        probe_hz=hz,
        nodes=nodes,
        topics=topics,
        producers=[],
        host=host_fingerprint(),
        plimsoll=product(),
    )
