"""A whole campaign by the command behind make, with real brokers, Airflow and Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.paths import ROOT
from history import archive
from reports.page import PLOTLY
from tests.junit_schema import outcomes

pytestmark = pytest.mark.cluster

SHORT = {
    "name": "short",
    "why": "A run of a few seconds.",
    "cluster": {"brokers": 1},
    "topics": {"orders": {"partitions": 1, "replicas": ["A"]}},
    "load": {"topic": "orders", "rate": "200/s"},
    "phases": [{"steady": [{"hold": "3s"}]}],
}


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server on the loopback, and its received posts."""
    posted: list[dict[str, Any]] = []

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    server = HTTPServer(("127.0.0.1", 0), Taker)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/nightly", posted
    server.shutdown()
    thread.join()
    server.server_close()


def _nightly(folder: Path, settings: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "commands", "nightly", "--name", "nightly-1", "--settings", str(settings)]
    return subprocess.run(
        [*command, "--runs", str(folder / "runs")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _settings_file(folder: Path) -> Path:
    """Write the settings of a nightly run with three short runs; return their path."""
    scenario, settings = folder / "short.yaml", folder / "nightly.yaml"
    scenario.write_text(yaml.safe_dump(SHORT))
    content = {
        "scenarios": [str(scenario)],
        "versions": ["3.9.1"],
        "repetitions": 1,
        "control": {"scenario": str(scenario), "kafka": "3.9.1"},
        "runtime": "process",
        "watch": {"latency_p50_ms": {"margin": 0.1}},
        "baseline": {"releases": ["3.9.1"]},
        "webhook": "TOLD_OF_THE_NIGHTLY_RUN",
    }
    settings.write_text(yaml.safe_dump(content))
    return settings


def test_a_nightly_run_is_recorded_judged_and_told_and_goes_on(
    tmp_path: Path, webhook: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three runs are recorded in order, with a page, JUnit and a post; a second start has none left to record."""
    url, posted = webhook
    monkeypatch.setenv("TOLD_OF_THE_NIGHTLY_RUN", url)
    settings = _settings_file(tmp_path)

    own = os.environ | {"PLIMSOLL_SERVICE": str(tmp_path / "airflow")}  # another's has another webhook

    done = _nightly(tmp_path, settings, own)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "nightly nightly-1: 3 of 3 runs to record" in done.stdout
    rows = archive.read(tmp_path / "archive", campaign="nightly-1")
    runs = {row["run_id"]: row for row in rows}
    in_order = [runs[run_id]["labels"]["role"] for run_id in sorted(runs)]
    assert in_order == ["control", "matrix", "control"]
    assert {row["verdict"] for row in rows} == {"pass"}
    assert {"latency_p50_ms", "acked_per_s", "broker_cpu_s_per_gb"} <= {row["metric"] for row in rows}
    nightly_run = tmp_path / "site" / "nightly" / "nightly-1"
    assert {path.name for path in nightly_run.iterdir()} >= {"index.html", "result.json", "summary.json", "junit.xml"}
    assert "fail" not in outcomes((nightly_run / "junit.xml").read_text()).values()
    assert "nightly-1" in (tmp_path / "site" / "index.html").read_text()
    assert (tmp_path / "site" / PLOTLY).is_file()
    assert [message["campaign"] for message in posted] == ["nightly-1"]

    (nightly_run / "result.json").unlink()
    again = _nightly(tmp_path, settings, own)

    assert "nightly nightly-1: 0 of 3 runs to record" in again.stdout
    assert again.returncode == 0, again.stdout + again.stderr
    assert (nightly_run / "result.json").is_file()
    assert len({row["run_id"] for row in archive.read(tmp_path / "archive")}) == 3
