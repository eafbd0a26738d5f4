"""A broker's answers, or its silence, become rows."""

from __future__ import annotations

import json
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from clusters.clients import prober
from clusters.clients.configs import ProberConfig
from clusters.clients.prober import BrokerWatch
from clusters.kafka.probe import ReplicaSample
from clusters.kafka.views import ClusterView, PartitionView
from history.partition import TopicPartition
from history.streams import read_stream
from history.tables import ISR, REPLICAS

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SAMPLE = ReplicaSample("t", 0, 10, 20, 3, 0, 5, 5, 7, single_reply=True)
VIEW = ClusterView(30, 40, 1, {1: ("a", 9094)}, [PartitionView("t", 0, 1, 3, [1, 2], [1], [2])])


class Idle(nullcontext[None]):
    """A connection that is never used nor throttled."""

    throttled_until_ns = 0


class FakeProbe:
    """A probe that answers with one sample, or raises an error."""

    connection: Any = Idle()

    def __init__(self, error: Exception | None = None) -> None:
        self.replicas = {T1, T0}
        self.error = error

    def sample(self) -> list[ReplicaSample]:
        if self.error:
            raise self.error
        return [SAMPLE]


def watch(error: Exception | None = None) -> BrokerWatch:
    """Return a watch of broker 1."""
    return BrokerWatch(1, FakeProbe(error), ["t"])  # type: ignore[arg-type]  # it has what is used


@pytest.fixture(autouse=True)
def _metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prober, "metadata", lambda connection, topics: VIEW)


def test_a_sample_is_a_row_of_its_table() -> None:
    """A sample has all columns of its table; the incarnation is null until the run is collected."""
    replicas, _ = watch().tick(with_isr=True)
    (row,) = pa.RecordBatch.from_pylist(replicas, schema=REPLICAS).to_pylist()

    assert row == {"broker_id": 1, "incarnation": None, **vars(SAMPLE)}


def test_metadata_is_sampled_when_asked_for() -> None:
    """A metadata sample is taken only in the ticks that ask for one."""
    assert [len(watch().tick(with_isr=asked)[1]) for asked in (True, False)] == [1, 0]


def test_a_view_is_a_row_of_its_table() -> None:
    """A metadata view has neither partition epoch nor ELR; both are null, not empty."""
    (row,) = pa.RecordBatch.from_pylist(watch().tick(with_isr=True)[1], schema=ISR).to_pylist()

    assert (row["observer"], row["source"], row["leader"], row["leader_epoch"]) == ("1", "metadata", 1, 3)
    assert (row["replicas"], row["isr"], row["offline"]) == ([1, 2], [1], [2])
    assert (row["partition_epoch"], row["elr"]) == (None, None)


@pytest.mark.parametrize(("error", "name"), [(TimeoutError(), "timeout"), (ConnectionRefusedError(), "unreachable")])
def test_silence_is_a_row_for_every_replica(error: OSError, name: str) -> None:
    """A broker that does not answer yields one row with the error for each replica, and no ISR row."""
    replicas, isr = watch(error).tick(with_isr=True)

    assert [(row["partition"], row["error"], row["high_watermark"], row["leader_epoch"]) for row in replicas] == [
        (0, name, None, None),
        (1, name, None, None),
    ]
    assert all(row["received_ns"] >= row["sent_ns"] for row in replicas)
    assert isr == []


def test_each_broker_is_asked_for_its_own_replicas() -> None:
    """Each broker is probed for the replicas that the assignment gives it; a broker without one has none."""
    config = ProberConfig(
        client_id="p",
        out="",
        summary="",
        brokers={1: "10.0.0.1:9094", 3: "10.0.0.3:9094"},
        assignment={"t": {0: [1, 2], 1: [2]}},
    )
    first, second = prober.watches(config)

    assert (first.probe.replicas, second.probe.replicas) == ({T0}, set())
    assert (first.probe.connection.host, first.probe.connection.port) == ("10.0.0.1", 9094)


def test_a_replica_that_moves_in_is_probed_from_then_on() -> None:
    """A replica that is reassigned to a broker is probed from then on; replicas elsewhere are not."""
    moved = SimpleNamespace(
        partitions=[PartitionView("u", 0, 2, 1, [2, 1], [2], []), PartitionView("u", 1, 2, 1, [2], [2], [])]
    )
    broker = watch()
    broker._follow(moved)  # type: ignore[arg-type]  # it has what is used

    assert broker.probe.replicas == {T0, T1, TopicPartition("u", 0)}


# --- its end -----------------------------------------------------------------------------------


def probing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *brokers: BrokerWatch) -> ProberConfig:
    """Return the configuration of a prober of these brokers."""
    monkeypatch.setattr(prober, "watches", lambda _: iter(brokers))
    addresses = {number: "" for number, _ in enumerate(brokers)}
    summary = str(tmp_path / "p.json")
    return ProberConfig(client_id="p", out=str(tmp_path), summary=summary, brokers=addresses, assignment={}, hz=100.0)


def test_the_summary_counts_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary counts all rows, including those of a broker that does not answer."""
    config, stop = probing(tmp_path, monkeypatch, watch(), watch(ConnectionRefusedError())), threading.Event()
    threading.Timer(0.1, stop.set).start()
    prober.run(config, stop)

    written = [row for batch in read_stream(tmp_path / "replicas-p.arrow") for row in batch.to_pylist()]
    summary = json.loads((tmp_path / "p.json").read_text())
    assert {row["error"] for row in written} == {None, "unreachable"}
    assert (summary["clean"], summary["rows"]) == (True, len(written))


def test_a_watch_that_breaks_ends_the_prober(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that raises an unexpected error ends the prober, and the summary is not clean."""
    config = probing(tmp_path, monkeypatch, watch(), watch(ZeroDivisionError("no such bytes")))

    with pytest.raises(ZeroDivisionError, match="no such bytes"):
        prober.run(config, threading.Event())
    assert json.loads((tmp_path / "p.json").read_text())["clean"] is False


@pytest.mark.parametrize(
    ("busy", "throttled_until_ns", "expected_ns"),
    [(1.0, 0, 1_050), (0.2, 0, 1_250), (0.2, 3_000, 3_000), (0.2, 1_100, 1_250)],
)
def test_a_slow_or_throttling_broker_rests(busy: float, throttled_until_ns: int, expected_ns: int) -> None:
    """After 50 ns of waiting a probe that may be busy for a fifth waits 200 ns, and until a quota's end (KIP-219)."""
    assert prober.rests_until_ns(1_000, 1_050, busy, throttled_until_ns) == expected_ns
