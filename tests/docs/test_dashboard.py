"""The dashboard for Grafana: a real Prometheus answers each of its queries."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import pytest

from campaigns.archive_metrics import write_metrics
from clusters.paths import ROOT
from clusters.run import host
from clusters.waiting import wait_until
from service.metrics_endpoint import ADDRESS, serving
from tests.campaigns.archive_rows import row
from tests.docs.prometheus import Prometheus, Query, queries, scraping
from tests.service.live_run import RunUnderWay
from tests.service.test_host_metrics import BEGUN, campaign, guest
from tests.service.test_metrics_endpoint import free_port

DASHBOARD = json.loads((ROOT / "docs" / "examples" / "grafana.json").read_text())
QUERIES = queries(DASHBOARD)
# The values of Grafana's variables; "All" is a regular expression for any value.
VARIABLES = {"run": "r1", "topic": "orders", "partition": "0", "scenario": ".*", "kafka_version": ".*"}
VARIABLES["__rate_interval"] = "10s"
ARCHIVED = ("latency_p99_ms", "elect_s", "catch_up_s", "broker_cpu_s_per_gb")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder's files as a web server does."""
    server = ThreadingHTTPServer((ADDRESS, 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"{ADDRESS}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def go_on(run: RunUnderWay, waiting: Path, stop: threading.Event) -> None:
    """Record a run of three brokers after a kill, with the third lagging since it was slowed down; another waits."""
    run.faulted("phase_started", step="")
    run.faulted("inject")
    run.faulted("healed")
    run.faulted("inject", step="slow", target="broker-3")
    for tick in count(1):
        waiting.touch()
        run.tell("load-1", due=100 * tick, sent=90 * tick, acked=80 * tick)
        run.tell("consumer", received=70 * tick)
        run.tell("member-1.1", lag=5)
        run.answered(3.0, 4.0, 30.0)
        for broker, behind in ((1, 0), (2, 0), (3, 40)):
            run.probed(broker, 80 * tick - 40, 80 * tick - behind)
        run.viewed(1, [1, 2, 3])
        if stop.wait(0.2):
            return


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the endpoint of a live run and of a campaign, and the file of an archive."""
    folder, port, stop = tmp_path_factory.mktemp("scraped"), free_port(), threading.Event()
    (folder / "archive").mkdir()
    write_metrics([row("r0", name, 2.5) for name in ARCHIVED], folder / "archive" / "plimsoll.prom")
    guest(folder / "host", "b1", 1, is_admitted=False, waited_s=40)
    campaign(folder / "site", BEGUN)
    with (
        pytest.MonkeyPatch.context() as patch,
        RunUnderWay(folder / "runs" / "r1") as run,
        serving(port, folder / "runs"),
        served(folder / "archive") as archive,
    ):
        patch.setattr(host, "HOST", folder / "host")
        going_on = threading.Thread(target=go_on, args=(run, folder / "host" / "b1", stop))
        going_on.start()
        try:
            with scraping(folder, live=f"{ADDRESS}:{port}/metrics", archive=f"{archive}/plimsoll.prom") as asked:
                yield asked
        finally:
            stop.set()
            going_on.join()


@pytest.mark.prometheus
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.where)
def test_every_query_has_an_answer(prometheus: Prometheus, query: Query) -> None:
    """Every query returns a series within the time that a rate needs; a variable's series have its label."""
    answer = partial(prometheus.ask, query.expr, **VARIABLES)
    series = wait_until(answer, limit_s=60, every_s=0.5, what=query.expr)

    assert all(query.label in each["metric"] for each in series if query.label)


@pytest.mark.prometheus
def test_a_query_with_a_typing_error_has_none(prometheus: Prometheus) -> None:
    """A query with a wrong metric, label or run returns no series (control of the test above)."""
    wrong = (
        "plimsoll_replica_lag{run='$run'}",
        "plimsoll_replica_lag_records{rum='$run'}",
        "plimsoll_run_info{run='r2'}",
    )

    assert [prometheus.ask(expr, **VARIABLES) for expr in wrong] == [[], [], []]


@pytest.mark.prometheus
def test_figures_are_those_of_the_run(prometheus: Prometheus) -> None:
    """Figures equal those of the run, by broker and by fault."""
    by_broker = prometheus.ask("plimsoll_replica_lag_records")
    active = prometheus.ask("plimsoll_fault_active")
    [injected] = prometheus.ask("plimsoll_fault_injected_timestamp_seconds{fault='slow'}")

    assert {each["metric"]["broker"]: each["value"][1] for each in by_broker} == {"1": "0", "2": "0", "3": "40"}
    assert {each["metric"]["fault"]: each["value"][1] for each in active} == {"kill": "0", "slow": "1"}
    assert time.time() - 300 < float(injected["value"][1]) < time.time()
    [waiting] = prometheus.ask("plimsoll_host_run_waiting_seconds")
    assert (waiting["metric"]["run"], 40 < float(waiting["value"][1]) < 400) == ("b1", True)
    assert prometheus.ask("plimsoll_archive_elect_s")[0]["metric"]["date"] == "2026-11-02"


def test_every_metric_of_a_run_is_shown() -> None:
    """Every metric of a run is shown; panels do not overlap, and have unique numbers."""
    page = (ROOT / "docs" / "observability.md").read_text()
    told = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `plimsoll_")}
    shown = " ".join(query.expr for query in QUERIES)
    places = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert {name for name in told if name not in shown} == set()
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
