"""Serves the pages of runs and campaigns beside Airflow, to this machine alone."""

from __future__ import annotations

import sys
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ADDRESS = "127.0.0.1"
HOSTS = (ADDRESS, "localhost")  # as a browser of this machine names it
INDEX = "/site/index.html"


class Pages(SimpleHTTPRequestHandler):
    """Files below ``site/`` and the runs' folder, and nothing else of the folder that holds them.

    A request that names another host is refused: a foreign page whose name was made to lead here would read the pages.
    Only Airflow, on port ``framed_by`` of this machine, may show them within a page of its own.
    """

    def __init__(self, *arguments: Any, runs: Path, framed_by: int | None, **settings: Any) -> None:
        self.served = ("/site/", f"/{runs.name}/")
        ancestors = "'none'" if framed_by is None else " ".join(f"http://{host}:{framed_by}" for host in HOSTS)
        self.policy = f"frame-ancestors {ancestors}"
        super().__init__(*arguments, directory=str(runs.parent), **settings)

    def parse_request(self) -> bool:
        """Whether the request can be answered; one for another host was refused."""
        if not super().parse_request():
            return False
        named = self.headers.get_all("Host") or []
        port = self.connection.getsockname()[1]
        if len(named) == 1 and named[0].lower() in {f"{host}:{port}" for host in HOSTS}:
            return True
        self.send_error(HTTPStatus.MISDIRECTED_REQUEST, f"The pages are served as {ADDRESS}:{port} alone")
        return False

    def send_head(self) -> Any:
        """Lead from the root to the index: its figures and links are relative to where it lies."""
        if self.path != "/":
            return super().send_head()
        self.send_response(HTTPStatus.FOUND)
        self.send_header("Location", INDEX)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return None

    def translate_path(self, path: str) -> str:
        """Where a requested path lies; what is not served, or leads out of it by a symbolic link, leads nowhere."""
        root = Path(self.directory).resolve()
        found = Path(super().translate_path(path)).resolve()
        inside = f"/{found.relative_to(root)}/" if found.is_relative_to(root) else ""
        return str(found) if inside.startswith(self.served) else str(root / "nothing" / "here")

    def end_headers(self) -> None:
        """No page is guessed to be of another type, or shown within a foreign one."""
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", self.policy)
        super().end_headers()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # the base class names it so
        """Requests are not worth a line in Airflow's log."""


def serve(port: int, runs: Path, framed_by: int | None = None) -> ThreadingHTTPServer:
    """Return a server on the loopback, of the runs' folder and the site beside it; the caller runs it."""
    return ThreadingHTTPServer((ADDRESS, port), partial(Pages, runs=runs, framed_by=framed_by))


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])).serve_forever()
