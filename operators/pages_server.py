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


class Pages(SimpleHTTPRequestHandler):
    """Files below ``site/`` and the runs' folder, and nothing else of the folder that holds them.

    A request that names another host is refused: a foreign page whose name was made to lead here would read the pages.
    """

    def __init__(self, *arguments: Any, runs: Path, **settings: Any) -> None:
        self.served = ("/site/", f"/{runs.name}/")
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

    def translate_path(self, path: str) -> str:
        """Where a requested path lies; what is not served, or leads out of it by a symbolic link, leads nowhere."""
        root = Path(self.directory).resolve()
        found = Path(root / "site" / "index.html" if path == "/" else super().translate_path(path)).resolve()
        inside = f"/{found.relative_to(root)}/" if found.is_relative_to(root) else ""
        return str(found) if inside.startswith(self.served) else str(root / "nothing" / "here")

    def end_headers(self) -> None:
        """No page is guessed to be of another type, or shown within another."""
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        super().end_headers()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # the base class names it so
        """Requests are not worth a line in Airflow's log."""


def serve(port: int, runs: Path) -> ThreadingHTTPServer:
    """A server on the loopback, of the runs' folder and the site beside it; the caller runs it."""
    return ThreadingHTTPServer((ADDRESS, port), partial(Pages, runs=runs))


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2])).serve_forever()
