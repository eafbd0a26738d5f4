"""The server of the pages serves only the site and the runs."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.pages_server import serve


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A folder with a site, a run with a report, and files that must not be served."""
    secrets = ("runs/x.html", "secret.txt", "sites/x.html", "mine/run-1/work/client.properties")
    for name in ("site/index.html", "mine/run-1/report/index.html", *secrets):
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
    """The root redirects to the index, and a run's page is served under its link."""
    with urllib.request.urlopen(address, timeout=5) as answer:
        assert (answer.url, answer.read()) == (f"{address}/site/index.html", b"site/index.html")
    assert _status(f"{address}/mine/run-1/report/index.html") == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/secret.txt", "/runs/x.html", "/sites/x.html", "/site/../secret.txt", "/site/%2e%2e/secret.txt"),
        *("/mine/run-1/work/client.properties", "/mine/run-1/work/", "/mine/run-1/report/../work/client.properties"),
    ],
)
def test_nothing_else_is_served(address: str, path: str) -> None:
    """Paths outside of site and runs are not found, also with ``..``, and neither is a run's work folder."""
    assert _status(address + path) == 404


def test_a_symbolic_link_that_leads_out_is_not_served(address: str, tmp_path: Path) -> None:
    """A symbolic link out of the served folders is not found; one within them is served."""
    run = tmp_path / "mine" / "run-1"
    (run / "outside.txt").symlink_to(tmp_path / "secret.txt")
    (run / "folder").symlink_to(tmp_path)
    (run / "inside.html").symlink_to(tmp_path / "site" / "index.html")

    assert [_status(f"{address}/mine/run-1/{name}") for name in ("outside.txt", "folder/secret.txt")] == [404, 404]
    assert _status(f"{address}/mine/run-1/inside.html") == 200


def _answered(address: str, *lines: str) -> tuple[int, bytes]:
    """Return status and response of a request sent line by line."""
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall("".join(f"{line.replace('PORT', str(port))}\r\n" for line in (*lines, "")).encode())
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    return int(answer.split()[1]), answer


@pytest.mark.parametrize("host", ["127.0.0.1:PORT", "localhost:PORT", "LOCALHOST:PORT"])
def test_the_hosts_of_this_machine_are_answered(address: str, host: str) -> None:
    """Requests for 127.0.0.1 and localhost are answered."""
    assert _answered(address, "GET /site/index.html HTTP/1.1", f"Host: {host}")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        ["Host: rebound.example:PORT"],
        ["Host: rebound.example"],
        ["Host: 127.0.0.1.rebound.example:PORT"],
        ["Host: 127.0.0.1:1"],
        ["Host: 127.0.0.1:PORT", "Host: rebound.example"],
        [],
    ],
)
def test_a_foreign_host_is_refused(address: str, headers: list[str]) -> None:
    """Requests for another host, or with two or no Host headers, are rejected without page content (DNS rebinding)."""
    status, answer = _answered(address, "GET / HTTP/1.1", *headers)

    assert status == 421
    assert b"site/index.html" not in answer


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_pages_are_only_read(address: str, method: str) -> None:
    """Only GET and HEAD are supported."""
    assert _answered(address, f"{method} /site/index.html HTTP/1.1", "Host: 127.0.0.1:PORT")[0] == 501
    assert _answered(address, "HEAD /site/index.html HTTP/1.1", "Host: 127.0.0.1:PORT")[0] == 200


@pytest.mark.parametrize(
    ("framed_by", "ancestors"), [(None, "'none'"), (8080, "http://127.0.0.1:8080 http://localhost:8080")]
)
def test_only_airflow_may_frame_the_pages(framed_by: int | None, ancestors: str, tmp_path: Path) -> None:
    """Only Airflow's pages may frame the pages, and without its port no page may."""
    with serve(0, tmp_path / "runs", framed_by) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        _, answer = _answered(address, "GET / HTTP/1.1", "Host: 127.0.0.1:PORT")
        server.shutdown()
    assert f"Content-Security-Policy: frame-ancestors {ancestors}\r\n".encode() in answer


def test_the_server_listens_on_the_loopback_alone(tmp_path: Path) -> None:
    """The server listens on the loopback only."""
    with serve(0, tmp_path / "runs") as server:
        assert server.server_address[0] == "127.0.0.1"
