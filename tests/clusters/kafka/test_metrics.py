"""The metrics of a broker's agent, as counters."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import yaml

from clusters.kafka.metrics import RULES, counters, scrape
from clusters.runtimes.ports import Endpoint

SAID = """\
# HELP gc_ms java.lang:name=G1 Young Generation,type=GarbageCollector,attribute=CollectionTime
# TYPE gc_ms gauge
gc_ms{collector="G1 Young Generation",} 30.0
gc_ms{collector="G1 Old Generation"} 12.0
gc_count{collector="G1 Young Generation",} 3.0
request_count{part="Total",request="Produce",} 4.0
request_count{part="Local",request="Produce",} 5.0
request_count{part="Throttle",request="Produce",} 5.0
request_mean_ms{part="Total",request="Produce",} 2.5
request_mean_ms{part="Local",request="Produce",} 1.0E-1
request_mean_ms{part="Throttle",request="Produce",} 0.0
request_count{part="Total",request="FetchFollower",} 7.0
under_replicated_partitions 2.0
jvm_threads_current 60.0
"""


def test_a_sum_is_a_mean_times_its_own_count() -> None:
    """A sum is mean times count; collectors are summed; other metrics, and counts without a mean, are skipped."""
    assert counters(SAID) == {
        "gc_ms": 42,
        "gc_count": 3,
        "under_replicated_partitions": 2,
        "request_count{Produce}": 4,
        "request_total_ms{Produce}": 10,
        "request_local_ms{Produce}": 0.5,
        "request_count{FetchFollower}": 7,
    }


@pytest.mark.parametrize("text", ["", "nothing of the kind", "request_count 7 8 9"])
def test_another_text_says_nothing(text: str) -> None:
    """A text in another format yields no counters and no error."""
    assert counters(text) == {}


class Agent(BaseHTTPRequestHandler):
    """Answers with the metrics, or with its server's error status."""

    def do_GET(self) -> None:  # the name that http.server calls
        self.send_response(self.server.status if self.path == "/metrics" else 404)  # type: ignore[attr-defined]
        self.end_headers()
        self.wfile.write(SAID.encode())

    def log_message(self, *_: Any) -> None:
        """Logs nothing."""


@pytest.fixture
def agent() -> Iterator[Any]:
    """An agent that listens on a free port."""
    server: Any = HTTPServer(("127.0.0.1", 0), Agent)
    server.status = 200
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_an_agent_is_asked_at_the_brokers_address(agent: Any) -> None:
    """Metrics are read at the broker's address; an error response or no response yields no counters."""
    assert scrape(Endpoint("127.0.0.1", agent.server_port))["gc_ms"] == 42

    agent.status = 500
    assert scrape(Endpoint("127.0.0.1", agent.server_port)) == {}
    assert scrape(Endpoint("127.0.0.2", agent.server_port)) == {}


def test_the_rules_export_what_is_read() -> None:
    """The agent's rules export exactly the metrics that the project reads."""
    told = yaml.safe_load(RULES.read_text())["rules"]

    assert {rule["name"] for rule in told} == {
        "request_count",
        "request_mean_ms",
        "under_replicated_partitions",
        "gc_ms",
        "gc_count",
    }
