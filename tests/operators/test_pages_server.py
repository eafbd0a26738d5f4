"""Pages are served, and nothing beside them."""

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from operators.pages_server import serve


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A folder with a site, a run in a folder of its own name, and a secret."""
    for name in ("site/index.html", "mine/run-1/report/index.html", "runs/x.html", "secret.txt", "sites/x.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    server = serve(0, tmp_path / "mine")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_pages_are_served(address: str) -> None:
    """The index at the root, a run where its link leads."""
    with urllib.request.urlopen(address, timeout=5) as answer:
        assert answer.read() == b"site/index.html"
    assert _status(f"{address}/mine/run-1/report/index.html") == 200


@pytest.mark.parametrize(
    "path", ["/secret.txt", "/runs/x.html", "/sites/x.html", "/site/../secret.txt", "/site/%2e%2e/secret.txt"]
)
def test_nothing_else_is_served(address: str, path: str) -> None:
    """Not what lies beside, nor by a way around."""
    assert _status(address + path) == 404
