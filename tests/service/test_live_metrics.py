"""The metrics of a running run, read from the files that it writes anyway."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service import live_metrics
from service.live_metrics import LiveRuns
from tests.docs.pages import page, rows, section
from tests.service.live_run import RunUnderWay

RUN = "r1"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunUnderWay]:
    """A run whose producer reports progress."""
    with RunUnderWay(tmp_path / RUN) as under_way:
        under_way.tell("load-1", due=100, sent=99, acked=98)
        yield under_way


def samples(runs: LiveRuns, name: str) -> dict[tuple[str, ...], float]:
    """Return a metric's samples by their label values, without the run's."""
    return {
        tuple(value for label, value in sample.labels.items() if label != "run"): sample.value
        for family in runs.collect()
        for sample in family.samples
        if sample.name == f"plimsoll_{name}"
    }


def test_counts_are_those_that_clients_tell(run: RunUnderWay, tmp_path: Path) -> None:
    """Each client has the metrics that it reports."""
    run.tell("consumer", received=90)
    run.tell("member-1.1", lag=7)
    runs = LiveRuns(tmp_path)

    assert samples(runs, "records_offered_total") == {("load-1",): 100}
    assert samples(runs, "records_sent_total") == {("load-1",): 99}
    assert samples(runs, "records_acknowledged_total") == {("load-1",): 98}
    assert samples(runs, "records_received_total") == {("consumer",): 90}
    assert samples(runs, "group_lag_records") == {("member-1.1",): 7}
    assert samples(runs, "run_info") == {("synthetic", "4.3.0", "process"): 1}


def test_latency_is_counted_from_the_start_of_the_run(run: RunUnderWay, tmp_path: Path) -> None:
    """Latency buckets count each acknowledged send of the run once; a time at an edge is in the lower bucket."""
    run.answered(1.0, 1.1, errors=("NOT_LEADER_OR_FOLLOWER",))
    runs = LiveRuns(tmp_path)
    samples(runs, "run_info")
    run.answered(40_000.0)
    counts = samples(runs, "produce_latency_seconds_bucket")

    assert [counts["load-1", edge] for edge in ("0.001", "0.0025", "30.0", "+Inf")] == [1, 2, 2, 3]
    assert samples(runs, "produce_latency_seconds_count") == {("load-1",): 3}
    assert samples(runs, "produce_latency_seconds_sum") == {("load-1",): pytest.approx(40.0021)}


def test_replicas_are_as_they_were_last_seen(run: RunUnderWay, tmp_path: Path) -> None:
    """Replica metrics are those of the newest sample; the lag is the distance from the largest log end offset."""
    run.probed(1, 10, 20)
    run.probed(1, 30, 40)
    run.probed(2, 29, 35)
    runs = LiveRuns(tmp_path)

    assert samples(runs, "replica_high_watermark") == {("orders", "0", "1"): 30, ("orders", "0", "2"): 29}
    assert samples(runs, "replica_log_end_offset") == {("orders", "0", "1"): 40, ("orders", "0", "2"): 35}
    assert samples(runs, "replica_lag_records") == {("orders", "0", "1"): 0, ("orders", "0", "2"): 5}
    run.probed(2, 40, 40)
    assert samples(runs, "replica_lag_records") == {("orders", "0", "1"): 0, ("orders", "0", "2"): 0}


def test_a_replica_that_nobody_sees_is_missing(run: RunUnderWay, tmp_path: Path) -> None:
    """A replica that does not answer, or has no sample for 10 s, has no metric."""
    run.probed(1, 10, 20)
    run.probed(1, None, None, error="unreachable")
    run.probed(2, 9, 9, ago_s=11)
    run.probed(3, 8, 8, ago_s=5)

    assert samples(LiveRuns(tmp_path), "replica_log_end_offset") == {("orders", "0", "3"): 8}


def test_the_newest_leaders_view_of_the_isr_counts(run: RunUnderWay, tmp_path: Path) -> None:
    """The ISR size is from the newest leader epoch, not from a broker that is behind."""
    runs = LiveRuns(tmp_path)
    run.viewed(1, [1, 2, 3], epoch=4, ago_s=1)
    run.viewed(3, [1], epoch=4)
    assert samples(runs, "partition_isr_size") == {("orders", "0"): 3}

    run.viewed(2, [2, 3], leader=2, epoch=5, ago_s=2)
    assert samples(runs, "partition_isr_size") == {("orders", "0"): 2}


def test_an_old_view_is_missing(run: RunUnderWay, tmp_path: Path) -> None:
    """A view older than 10 s yields no metric."""
    run.viewed(1, [1, 2, 3], ago_s=11)

    assert samples(LiveRuns(tmp_path), "partition_isr_size") == {}


def test_a_fault_is_active_until_it_is_cleared(run: RunUnderWay, tmp_path: Path) -> None:
    """A fault is active until it is healed or its phase ends; its time is that of its last injection."""
    runs = LiveRuns(tmp_path)
    began_s = time.time()
    run.faulted("phase_started", step="")
    run.faulted("inject")
    run.faulted("injected", effect_verified=True)
    run.faulted("inject", step="pause", target="broker-2")
    assert samples(runs, "fault_active") == {("p", "kill", "broker-1"): 1, ("p", "pause", "broker-2"): 1}

    run.faulted("healed", recovery_verified=True)
    assert samples(runs, "fault_active") == {("p", "kill", "broker-1"): 0, ("p", "pause", "broker-2"): 1}
    [killed_s, paused_s] = samples(runs, "fault_injected_timestamp_seconds").values()
    assert began_s - 1 < killed_s <= paused_s < time.time() + 1

    run.faulted("phase_ended", step="", target="")
    run.faulted("inject", phase="q")
    assert samples(runs, "fault_active") == {
        ("p", "kill", "broker-1"): 0,
        ("p", "pause", "broker-2"): 0,
        ("q", "kill", "broker-1"): 1,
    }


def test_the_same_fault_again_is_one_series(run: RunUnderWay, tmp_path: Path) -> None:
    """A repeated fault is one series, since duplicate labels would invalidate the scrape."""
    for _ in range(2):
        run.faulted("inject")
        run.faulted("healed")
    run.faulted("inject")

    assert samples(LiveRuns(tmp_path), "fault_active") == {("p", "kill", "broker-1"): 1}


def test_only_runs_that_go_on_are_shown(run: RunUnderWay, tmp_path: Path) -> None:
    """Sealed runs, and runs whose clients are silent for too long, are not shown."""
    runs = LiveRuns(tmp_path)
    with RunUnderWay(tmp_path / "r2") as other:
        other.tell("load-1", due=1)
        (tmp_path / "r3" / "clients").mkdir(parents=True)
        (tmp_path / "r3" / "clients" / "load-1.json").write_text('{"so_far": {"t_ns": 1, "due": 5}}')
        shown = [sample.labels["run"] for family in runs.collect() for sample in family.samples]
        assert set(shown) == {"r1", "r2"}

        for ago_s, is_shown in ((live_metrics.LIVE_S + 1, False), (live_metrics.LIVE_S - 5, True)):
            told_s = time.time() - ago_s
            os.utime(other.folder.clients / "load-1.json", (told_s, told_s))
            assert ({s.labels["run"] for f in runs.collect() for s in f.samples} == {"r1", "r2"}) is is_shown


def test_every_metric_is_on_its_page(tmp_path: Path) -> None:
    """docs/observability.md lists every metric with its labels, and no others."""
    table = rows(section(page("observability.md"), "Active runs"))[2:]
    with RunUnderWay(tmp_path / RUN) as run:
        run.tell("load-1", due=100, sent=99, acked=98, received=1, lag=1)
        run.answered(3.0)
        run.probed(1, 10, 20)
        run.viewed(1, [1, 2, 3])
        run.faulted("inject")
        shown = {
            sample.name.replace("_seconds_count", "_seconds"): [name for name in sample.labels if name != "run"]
            for family in LiveRuns(tmp_path).collect()
            for sample in family.samples
            if not sample.name.endswith(("_bucket", "_sum"))
        }

    assert shown == {name: re.findall(r"\w+", labels) for name, labels, _ in table}
