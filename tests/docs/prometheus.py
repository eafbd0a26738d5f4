"""A real Prometheus on the loopback, and the queries of a dashboard."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from clusters.waiting import wait_until


class Query(NamedTuple):
    """What Grafana asks, and where; of a variable, its ``label``'s values are wanted."""

    where: str
    expr: str
    label: str = ""


def queries(dashboard: Mapping[str, Any]) -> list[Query]:
    """Every query of a dashboard: of its variables, annotations and panels."""
    variables = [each for each in dashboard["templating"]["list"] if each["type"] == "query"]
    found = [Query(f"variable {each['name']}", *_label_values(each["query"]["query"])) for each in variables]
    found += [Query(f"annotation {each['name']}", each["expr"]) for each in dashboard["annotations"]["list"]]
    for panel in dashboard["panels"]:
        found += [Query(f"panel {panel['title']}, {each['refId']}", each["expr"]) for each in panel.get("targets", [])]
    return found


def _label_values(query: str) -> tuple[str, str]:
    parts = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
    assert parts, query
    return parts[1], parts[2]


class Prometheus:
    """Answers queries over what it scraped."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, expr: str, **variables: str) -> list[dict[str, Any]]:
        """The series of an instant query, with Grafana's variables in their places."""
        for name, value in variables.items():
            expr = expr.replace(f"${name}", value)
        assert "$" not in expr, expr
        asked = urllib.parse.urlencode({"query": expr})
        with urllib.request.urlopen(f"{self._url}/api/v1/query?{asked}", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return [series for series in found if series["value"][1] != "NaN"]


@contextmanager
def scraping(folder: Path, **targets: str) -> Iterator[Prometheus]:
    """Prometheus with its data in a folder, which scrapes targets (job → ``host:port/path``) once a second."""
    jobs = []
    for job, target in targets.items():
        address, _, path = target.partition("/")
        jobs.append({"job_name": job, "metrics_path": f"/{path}", "static_configs": [{"targets": [address]}]})
    config = folder / "prometheus.yml"  # JSON is YAML
    config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    command = [shutil.which("prometheus") or "prometheus", f"--config.file={config}", f"--web.listen-address={listen}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--storage.tsdb.path={folder / 'data'}"], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        prometheus = Prometheus(f"http://{listen}")
        up = partial(prometheus.ask, f"count(up == 1) == {len(targets)}")
        wait_until(up, limit_s=60, what="Prometheus to scrape its targets", ignoring=(OSError,))
        yield prometheus
    finally:
        process.terminate()
        process.wait(30)
