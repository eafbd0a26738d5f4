"""The metrics endpoint: on the loopback, in the requested format, and off by default."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path

import psutil
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from history.errors import BadInput
from service.metrics_endpoint import ADDRESS, serving, url_of
from tests.service.live_run import RunUnderWay

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def free_port() -> int:
    """Return a free port of the loopback."""
    with socket.create_server((ADDRESS, 0)) as free:
        port: int = free.getsockname()[1]
        return port


def get(url: str, accept: str = OPEN_METRICS) -> tuple[str, str]:
    """Return a response's content type and text."""
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_a_run_is_served_as_openmetrics(tmp_path: Path) -> None:
    """A run is served as OpenMetrics that a strict parser reads; metrics without samples have their help."""
    port = free_port()
    with RunUnderWay(tmp_path / "r1") as run, serving(port, tmp_path):
        run.tell("load-1", due=100, sent=99, acked=98)
        run.answered(3.0, 4.0)
        run.probed(1, 10, 20)
        run.viewed(1, [1, 2, 3])
        run.faulted("inject")
        kind, text = get(url_of(port))
    families = {family.name: family for family in text_string_to_metric_families(text)}

    assert kind.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")
    assert families["plimsoll_records_acknowledged"].samples[0].labels == {"run": "r1", "client": "load-1"}
    assert families["plimsoll_replica_lag_records"].samples[0].value == 0
    assert families["plimsoll_produce_latency_seconds"].type == "histogram"
    assert families["plimsoll_group_lag_records"].samples == []


def test_programs_that_ask_for_nothing_get_the_text_format(tmp_path: Path) -> None:
    """Without an Accept header, as with curl, the text format is served."""
    port = free_port()
    with serving(port, tmp_path):
        kind, text = get(url_of(port), accept="*/*")

    assert kind.startswith("text/plain")
    assert "# TYPE plimsoll_records_offered_total counter" in text


def test_only_this_machine_is_served_and_only_meanwhile(tmp_path: Path) -> None:
    """The endpoint listens on the loopback only, and its port is free afterwards."""
    port = free_port()
    with serving(port, tmp_path):
        listening = [c.laddr for c in psutil.Process().net_connections() if c.status == psutil.CONN_LISTEN]
        assert [address.ip for address in listening if address.port == port] == [ADDRESS]

    with socket.create_server((ADDRESS, port)):
        pass


def test_a_port_in_use_is_refused_with_the_variable(tmp_path: Path) -> None:
    """A port in use is rejected with the variable's name before anything starts."""
    with socket.create_server((ADDRESS, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=rf"Port {port} .* another by --metrics-port="), serving(port, tmp_path):
            pytest.fail("it was served")


def test_nothing_listens_without_a_port(tmp_path: Path) -> None:
    """Without a port the endpoint is off."""
    before = {c.laddr for c in psutil.Process().net_connections() if c.status == psutil.CONN_LISTEN}
    with serving(None, tmp_path):
        assert before == {c.laddr for c in psutil.Process().net_connections() if c.status == psutil.CONN_LISTEN}
