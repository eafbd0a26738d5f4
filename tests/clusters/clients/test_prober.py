"""A broker's answers, or its silence, become rows."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.clients import prober
from clusters.clients.configs import ProberConfig
from clusters.clients.prober import BrokerWatch
from clusters.kafka.probe import INCONSISTENT_TOPIC_ID, ReplicaSample, Tick
from clusters.kafka.views import ClusterView, PartitionView
from history.partition import TopicPartition
from history.streams import read_stream

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SAMPLE = ReplicaSample("t", 0, 10, 20, 3, 0, 5, 5, 7, single_reply=True)
VIEW = ClusterView(30, 40, 1, {1: ("a", 9094)}, [PartitionView("t", 0, 1, 3, [1, 2], [1], [2])])


class Idle(nullcontext[None]):
    """A connection that is never used nor throttled."""

    host = "b"
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


class FakeReader:
    """Metadata that is one view, or cannot be read."""

    def __init__(self, view: ClusterView | None) -> None:
        self.view = view

    def read(self) -> ClusterView:
        if self.view is None:
            raise ConnectionResetError
        return self.view


def watch(error: Exception | None = None, view: ClusterView | None = VIEW, **topic_ids: str) -> BrokerWatch:
    """Return a watch of broker 1."""
    return BrokerWatch(1, FakeProbe(error), FakeReader(view), topic_ids)  # type: ignore[arg-type]  # they have what is used


def rows_of(folder: Path, tick: Tick) -> list[list[dict[str, Any]]]:
    """Write one tick; return the rows of replicas and isr."""
    config = ProberConfig(client_id="p", out=str(folder), summary="", brokers={}, assignment={})
    with ExitStack() as files:
        prober._Tables(config, files).add(tick)
    streams = (read_stream(folder / f"{name}-p.arrow") for name in ("replicas", "isr"))
    return [[row for batch in stream for row in batch.to_pylist()] for stream in streams]


def test_a_sample_is_a_row_of_its_table(tmp_path: Path) -> None:
    """A sample has all columns of its table; the incarnation is null until the run is collected."""
    (row,), _ = rows_of(tmp_path, watch().tick(with_isr=True))

    assert row == {"broker_id": 1, "incarnation": None, **SAMPLE._asdict()}


def test_metadata_is_sampled_when_asked_for() -> None:
    """A metadata sample is taken only in the ticks that ask for one."""
    assert [watch().tick(with_isr=due).view for due in (True, False)] == [VIEW, None]


def test_a_view_is_a_row_of_its_table(tmp_path: Path) -> None:
    """A metadata view has neither partition epoch nor ELR; both are null, not empty."""
    _, (row,) = rows_of(tmp_path, watch().tick(with_isr=True))

    assert (row["observer"], row["source"], row["leader"], row["leader_epoch"]) == ("1", "metadata", 1, 3)
    assert (row["replicas"], row["isr"], row["offline"]) == ([1, 2], [1], [2])
    assert (row["partition_epoch"], row["elr"]) == (None, None)


@pytest.mark.parametrize(("error", "name"), [(TimeoutError(), "timeout"), (ConnectionRefusedError(), "unreachable")])
def test_silence_is_a_row_for_every_replica(error: OSError, name: str) -> None:
    """A broker that does not answer yields one row with the error for each replica, and no ISR row."""
    _, samples, view = watch(error).tick(with_isr=True)

    assert [(each.partition, each.error, each.high_watermark, each.leader_epoch) for each in samples] == [
        (0, name, None, None),
        (1, name, None, None),
    ]
    assert all(each.received_ns >= each.sent_ns for each in samples)
    assert view is None


@pytest.mark.parametrize(
    ("topic_ids", "error", "views"),
    [
        ({}, None, 1),  # the cluster has no ids
        ({"t": "1"}, None, 1),
        ({"t": "2"}, INCONSISTENT_TOPIC_ID, 0),
        ({}, "UNKNOWN_TOPIC_OR_PARTITION", 0),
    ],
)
def test_rows_of_a_topic_end_when_it_is_made_anew(topic_ids: dict[str, str], error: str | None, views: int) -> None:
    """A sample counts if the metadata after it has the expected id; else it is an error without offsets."""
    expected = {} if error is None and not topic_ids else {"t": "1"}
    tick = watch(view=replace(VIEW, topic_ids=topic_ids), **expected).tick(with_isr=False)

    (found,) = tick.samples
    assert (found.error, found.high_watermark, found.sent_ns) == (error, 5 if error is None else None, 10)
    assert len(tick.view.partitions if tick.view else ()) == (views if expected else 0)


@pytest.mark.parametrize(("topic_ids", "error"), [({}, None), ({"t": "1"}, "unreachable")])
def test_samples_without_metadata_count_if_any_topic_does(topic_ids: dict[str, str], error: str | None) -> None:
    """Without metadata it is unknown of which topic they are."""
    tick = watch(view=None, **topic_ids).tick(with_isr=True)

    assert ({each.error for each in tick.samples}, tick.view) == ({error}, None)


def test_each_broker_is_asked_for_its_own_replicas() -> None:
    """Each broker is probed for the replicas that the assignment gives it; a broker without one has none."""
    config = ProberConfig(
        client_id="p",
        out="",
        summary="",
        brokers={1: "10.0.0.1:9094", 3: "[::1]:9094"},
        assignment={"t": {0: [1, 2], 1: [2]}},
    )
    first, second = prober.watches(config)

    assert (first.probe.replicas, second.probe.replicas) == ({T0}, set())
    assert (first.probe.connection.host, first.probe.connection.port) == ("10.0.0.1", 9094)
    assert (second.probe.connection.host, second.probe.connection.port) == ("::1", 9094)


def test_a_broker_without_an_address_is_probed_once_another_one_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then its replicas are rows with an error; a broker with an address keeps it."""
    brokers = {1: "10.0.0.1:9094", 2: ""}
    config = ProberConfig(client_id="p", out="", summary="", brokers=brokers, assignment={"t": {0: [1, 2]}})
    first, second = prober.watches(config)
    reached: list[str] = []
    monkeypatch.setattr(prober.BrokerProbe, "sample", lambda probe: reached.append(probe.connection.host) or [])

    assert [sample.error for sample in second.tick(with_isr=False).samples] == ["unreachable"]
    first._follow(replace(VIEW, brokers={1: ("other", 1), 2: ("b2", 9095)}))
    for broker in (first, second):
        assert broker.tick(with_isr=False).samples == []
    assert reached == ["10.0.0.1", "b2"]
    assert second.probe.connection.port == 9095


def test_a_replica_that_moves_in_is_probed_from_then_on() -> None:
    """A replica that is reassigned to a broker is probed from then on; replicas elsewhere are not."""
    moved = SimpleNamespace(
        brokers={}, partitions=[PartitionView("u", 0, 2, 1, [2, 1], [2], []), PartitionView("u", 1, 2, 1, [2], [2], [])]
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
