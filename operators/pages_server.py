"""Serves the pages of runs and campaigns beside Airflow, to this machine alone."""

from __future__ import annotations

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ADDRESS = "127.0.0.1"


class Pages(SimpleHTTPRequestHandler):
    """Files below ``site/`` and the runs' folder, and nothing else of the folder that holds them."""

    def __init__(self, *arguments: Any, runs: Path, **settings: Any) -> None:
        self.served = ("/site/", f"/{runs.name}/")
        super().__init__(*arguments, directory=str(runs.parent), **settings)

    def translate_path(self, path: str) -> str:
        """Where a requested path lies; what is not served leads nowhere."""
        found = super().translate_path(path)
        root = Path(self.directory)
        if path == "/":
            return str(root / "site" / "index.html")
        inside = f"/{Path(found).relative_to(root)}/" if Path(found).is_relative_to(root) else ""
        return found if inside.startswith(self.served) else str(root / "nothing" / "here")

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # the base class names it so
        """Requests are not worth a line in Airflow's log."""


def serve(port: int, runs: Path) -> ThreadingHTTPServer:
    """A server on the loopback, of the runs' folder and the site beside it; the caller runs it."""
    return ThreadingHTTPServer((ADDRESS, port), partial(Pages, runs=runs))


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2])).serve_forever()
