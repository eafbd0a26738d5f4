"""The notifier posts a nightly run's summary to a server on this machine, or says why it did not."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from campaigns.campaign import CampaignFolder
from history.errors import BadInput, HarnessError
from operators.notify import NightlyWebhook, post
from tests.campaigns.nightly_runs import campaign_of, history

Posted = list[tuple[str, str, dict[str, Any]]]


class Server(HTTPServer):
    """Keeps what it was sent; answers 500 below /broken."""

    posted: Posted


class Handler(BaseHTTPRequestHandler):
    """One POST at a time."""

    server: Server

    def do_POST(self) -> None:  # http.server's name
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, self.headers["Content-Type"], json.loads(body)))
        self.send_response(500 if self.path == "/broken" else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on loopback, on any free port."""
    running = Server(("127.0.0.1", 0), Handler)
    running.posted = []
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def context(task: str = "conclude", after_s: float = -60) -> Any:
    """What Airflow hands over of a task that began so long after now."""
    return {"ti": SimpleNamespace(task_id=task, start_date=datetime.now(UTC) + timedelta(seconds=after_s))}


def address(server: Server, path: str = "/hook") -> str:
    """Where it listens."""
    return f"http://127.0.0.1:{server.server_port}{path}"


@pytest.fixture
def nightly_run(tmp_path: Path) -> Path:
    """The folder of a first nightly run that is done."""
    from campaigns.nightly import campaign as nightly

    campaign = campaign_of(0)
    folder = CampaignFolder.of(tmp_path, "nightly", campaign.campaign_id)
    folder.write_plan(campaign)
    nightly.result(campaign, history(1)).write(folder.result)
    return folder.path


def test_a_nightly_run_is_posted_as_airflow_would(
    nightly_run: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called with a context, it renders its templates and posts to the address in the variable of the settings."""
    monkeypatch.setenv("PLIMSOLL_WEBHOOK", address(server))

    NightlyWebhook(campaign="{{ folder }}")({"folder": str(nightly_run), **context()})

    [(path, kind, message)] = server.posted
    assert (path, kind) == ("/hook", "application/json")
    assert message["text"].startswith("4 runs of 1 scenario on 2 versions: 0 correctness failures")
    assert (message["campaign"], message["state"]) == ("nightly-00", "pass")


def test_an_address_that_is_given_comes_first(
    nightly_run: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wins over the variable."""
    monkeypatch.setenv("PLIMSOLL_WEBHOOK", address(server))

    NightlyWebhook(campaign=str(nightly_run), url=address(server, "/mine"))(context())

    assert [path for path, *_ in server.posted] == ["/mine"]


def test_nothing_is_posted_without_an_address(
    nightly_run: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is no error: a webhook is nobody's duty."""
    monkeypatch.delenv("PLIMSOLL_WEBHOOK", raising=False)
    NightlyWebhook(campaign=str(nightly_run))(context())

    assert server.posted == []


def test_a_nightly_run_without_a_result_is_told_of(
    nightly_run: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not be planned, or its last task broke; a result of an earlier time is not this nightly run's."""
    monkeypatch.setenv("PLIMSOLL_WEBHOOK", address(server))
    NightlyWebhook(campaign="{{ none }}")({"none": None, **context("plan")})
    NightlyWebhook(campaign=str(nightly_run))(context(after_s=60))
    (nightly_run / "result.json").unlink()
    NightlyWebhook(campaign=str(nightly_run))(context())

    assert [message["text"] for *_, message in server.posted] == [
        "This nightly run has no result: plan failed. Its log is in Airflow.",
        *2 * ["This nightly run has no result: conclude failed. Its log is in Airflow."],
    ]


def test_a_refusal_is_told_without_the_address(server: Server) -> None:
    """A webhook's address is often a secret, and task logs are read by many."""
    with pytest.raises(HarnessError, match="500") as refused:
        post(address(server, "/broken"), {"text": "x"})

    assert "/broken" not in str(refused.value)


def test_only_web_addresses_are_taken(tmp_path: Path) -> None:
    """A file is no webhook."""
    with pytest.raises(BadInput, match="must begin with http"):
        post(f"file://{tmp_path}", {})
