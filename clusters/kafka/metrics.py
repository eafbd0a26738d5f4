"""Read a broker's metrics from its Prometheus JMX agent (``metrics.yaml``)."""

from __future__ import annotations

import re
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from clusters.runtimes.ports import Endpoint

RULES = Path(__file__).with_name("metrics.yaml")
SCRAPE_LIMIT_S = 10.0  # slow at first under a small CPU limit
_LINE = re.compile(r"(\w+)(?:\{(.*?),?\})? (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_PARTS = {
    "Total": "total",
    "RequestQueue": "request_queue",
    "Local": "local",
    "Remote": "remote",
    "ResponseQueue": "response_queue",
    "ResponseSend": "response_send",
}


def scrape(agent: Endpoint) -> dict[str, float]:
    """Return a broker's counters, none if its agent does not answer."""
    try:
        with closing(HTTPConnection(agent.host, agent.port, timeout=SCRAPE_LIMIT_S)) as connection:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            text = answer.read().decode()
    except (OSError, HTTPException):
        return {}
    return counters(text) if answer.status == 200 else {}


def counters(exposition: str) -> dict[str, float]:
    """Parse the agent's text into cumulative counters.

    ``request_total_ms{Produce}`` is mean times count, as are its parts; ``under_replicated_partitions`` is the current
    value.
    """
    counts: dict[tuple[str, str], float] = {}
    means: dict[tuple[str, str], float] = {}
    plain: dict[str, float] = {}
    for match in map(_LINE.fullmatch, exposition.splitlines()):
        if match is None:
            continue
        name, labels, value = match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])
        if name in ("gc_ms", "gc_count", "under_replicated_partitions"):
            plain[name] = plain.get(name, 0.0) + value
        elif name == "request_count":
            counts[labels["part"], labels["request"]] = value
        elif name == "request_mean_ms":
            means[labels["part"], labels["request"]] = value
    found = plain | {
        f"request_count{{{request}}}": count for (part, request), count in counts.items() if part == "Total"
    }
    return found | {
        f"request_{_PARTS[part]}_ms{{{request}}}": count * means[part, request]
        for (part, request), count in counts.items()
        if part in _PARTS and (part, request) in means
    }
