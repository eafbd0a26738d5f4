"""Serve the pages of runs and campaigns to this host."""

from __future__ import annotations

import sys
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ADDRESS = "127.0.0.1"
HOSTS = (ADDRESS, "localhost")  # names that a local browser uses
INDEX = "/site/index.html"


class Pages(SimpleHTTPRequestHandler):
    """Serve only ``site/`` and the runs' folder, without ``work/``, which has secrets.

    Requests for another host are rejected (DNS rebinding). Only Airflow, on local port ``framed_by``, may frame the
    pages.
    """

    def __init__(self, *arguments: Any, runs: Path, framed_by: int | None, **settings: Any) -> None:
        self.served = ("/site/", f"/{runs.name}/")
        ancestors = "'none'" if framed_by is None else " ".join(f"http://{host}:{framed_by}" for host in HOSTS)
        self.policy = f"frame-ancestors {ancestors}"
        super().__init__(*arguments, directory=str(runs.parent), **settings)

    def parse_request(self) -> bool:
        """Reject requests for other hosts."""
        if not super().parse_request():
            return False
        named = self.headers.get_all("Host") or []
        port = self.connection.getsockname()[1]
        if len(named) == 1 and named[0].lower() in {f"{host}:{port}" for host in HOSTS}:
            return True
        self.send_error(HTTPStatus.MISDIRECTED_REQUEST, f"The pages are served only as {ADDRESS}:{port}")
        return False

    def send_head(self) -> Any:
        """Redirect the root to the index, whose links are relative."""
        if self.path != "/":
            return super().send_head()
        self.send_response(HTTPStatus.FOUND)
        self.send_header("Location", INDEX)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return None

    def translate_path(self, path: str) -> str:
        """Return a requested file; a missing one if it is outside the served folders, also by a symbolic link."""
        root = Path(self.directory).resolve()
        found = Path(super().translate_path(path)).resolve()
        inside = f"/{found.relative_to(root)}/" if found.is_relative_to(root) else ""
        is_served = inside.startswith(self.served) and inside.split("/")[3:4] != ["work"]
        return str(found) if is_served else str(root / "nothing" / "here")

    def end_headers(self) -> None:
        """Forbid type guessing and foreign frames."""
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", self.policy)
        super().end_headers()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # the base class names it so
        """Keep requests out of Airflow's log."""


def serve(port: int, runs: Path, framed_by: int | None = None) -> ThreadingHTTPServer:
    """Return a loopback server of the runs' folder and the site next to it; the caller runs it."""
    return ThreadingHTTPServer((ADDRESS, port), partial(Pages, runs=runs, framed_by=framed_by))


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])).serve_forever()
