"""A tiny HTTP server in Airflow's place: it answers from a table and notes the requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from history.product import version

STEADY = {"is_paused": False, "is_stale": False, "has_import_errors": False, "tags": [{"name": version()}]}
RUN = "/api/v2/dags/steady/dagRuns/r1"


@dataclass
class FakeAirflow:
    """``answers`` maps a method and path to answers in order, of which the last repeats; others are 404."""

    url: str
    answers: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    requests: list[tuple[str, Any, str]] = field(default_factory=list)

    def answer(self, request: str, body: Any, authorization: str) -> tuple[int, Any]:
        self.requests.append((request, body, authorization))
        found = self.answers.get(request, [(404, {"detail": "Not Found"})])
        return found.pop(0) if len(found) > 1 else found[0]

    def sent(self, method: str) -> list[tuple[str, Any]]:
        """Return the paths and bodies of a method's requests."""
        return [(request.split()[1], body) for request, body, _ in self.requests if request.startswith(f"{method} ")]


@contextmanager
def fake_airflow() -> Iterator[FakeAirflow]:
    """Serve an Airflow that knows the DAG ``steady`` and its run ``r1``, which runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = f"{self.command} {self.path.partition('?')[0]}"
            authorization = self.headers.get("Authorization", "")
            code, content = fake.answer(request, json.loads(body) if body else None, authorization)
            data = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = answer  # noqa: N815  # http.server's names

        def log_message(self, *_: object) -> None:
            """Keep the tests' output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        fake = FakeAirflow(f"http://127.0.0.1:{server.server_port}")
        fake.answers |= {
            "GET /api/v2/version": [(200, {"version": "3.3.2"})],
            "GET /api/v2/monitor/health": [(200, {"scheduler": {"status": "healthy"}})],
            "GET /api/v2/dags/steady": [(200, STEADY)],
            "POST /api/v2/dags/steady/dagRuns": [(200, {})],
            f"GET {RUN}": [(200, {"state": "running"})],
            f"PATCH {RUN}": [(200, {})],
            f"GET {RUN}/taskInstances": [(200, {"task_instances": []})],
        }
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield fake
        server.shutdown()
