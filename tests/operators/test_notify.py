"""Notifiers send a nightly run's summary to receivers on this machine, or raise an error."""

import json
import socketserver
import ssl
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseHook, BaseNotifier, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from campaigns.campaign import CampaignFolder
from clusters.kafka.certificates import AUTHORITY, issue
from history.errors import BadInput, HarnessError
from history.results.nightly import NightlyResult
from operators.notify import INCIDENT, RECEIVERS, NightlyNotifier, NightlyWebhook, post
from tests.campaigns.nightly_runs import campaign_of, history

Posted = list[tuple[str, str, dict[str, Any]]]


class Server(HTTPServer):
    """Keeps its requests; answers 500 below /broken and 400 below /refused."""

    posted: Posted


class Handler(BaseHTTPRequestHandler):
    """Handles one POST at a time."""

    server: Server

    def do_POST(self) -> None:  # http.server's name
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, self.headers["Content-Type"], json.loads(body)))
        refusals = {"broken": 500, "refused": 400}
        self.send_response(refusals.get(self.path.split("/")[1], 200))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"dedup_key": "x"}')  # as PagerDuty answers

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@contextmanager
def serving(running: socketserver.TCPServer) -> Iterator[None]:
    """Run a server meanwhile."""
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    with running:
        thread.start()
        try:
            yield
        finally:
            running.shutdown()
            thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on the loopback, on any free port."""
    running = Server(("127.0.0.1", 0), Handler)
    running.posted = []
    with serving(running):
        yield running


def context(task: str = "conclude", after_s: float = -60) -> Any:
    """Return Airflow's context for a task that began this long after now."""
    return {"ti": SimpleNamespace(task_id=task, start_date=datetime.now(UTC) + timedelta(seconds=after_s))}


def address(server: Server, path: str = "/hook") -> str:
    """Return the server's address."""
    return f"http://127.0.0.1:{server.server_port}{path}"


@pytest.fixture
def nightly_run(tmp_path: Path) -> Path:
    """The folder of a finished first nightly run."""
    from campaigns.nightly import campaign as nightly

    campaign = campaign_of(0)
    folder = CampaignFolder.of(tmp_path, "nightly", campaign.campaign_id)
    folder.write_plan(campaign)
    nightly.result(campaign, history(1)).write(folder.result)
    return folder.path


def test_a_nightly_run_is_posted_as_airflow_would(
    nightly_run: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called by Airflow, the webhook renders its templates and posts to the address in the environment variable."""
    monkeypatch.setenv("PLIMSOLL_WEBHOOK", address(server))

    NightlyWebhook(campaign="{{ folder }}")({"folder": str(nightly_run), **context()})

    [(path, kind, message)] = server.posted
    assert (path, kind) == ("/hook", "application/json")
    assert message["text"].startswith("4 runs of 1 scenario on 2 versions: 0 correctness failures")
    assert (message["campaign"], message["state"]) == ("nightly-00", "pass")


def test_an_address_that_is_given_comes_first(
    nightly_run: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An explicit address has precedence over the variable."""
    monkeypatch.setenv("PLIMSOLL_WEBHOOK", address(server))

    NightlyWebhook(campaign=str(nightly_run), url=address(server, "/mine"))(context())

    assert [path for path, *_ in server.posted] == ["/mine"]


def test_nothing_is_posted_without_an_address(
    nightly_run: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an address nothing is posted, and that is no error."""
    monkeypatch.delenv("PLIMSOLL_WEBHOOK", raising=False)
    NightlyWebhook(campaign=str(nightly_run))(context())

    assert server.posted == []


def test_a_nightly_run_without_a_result_is_told_of(
    nightly_run: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nightly run without a current result is reported with the failed task."""
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
    """The error of a failed post does not contain the address, which is often a secret."""
    with pytest.raises(HarnessError, match="500") as refused:
        post(address(server, "/broken"), {"text": "x"})

    assert "/broken" not in str(refused.value)


def test_only_web_addresses_are_taken(tmp_path: Path) -> None:
    """Addresses other than http and https are rejected."""
    with pytest.raises(BadInput, match="must begin with http"):
        post(f"file://{tmp_path}", {})


# --- Slack, mail, PagerDuty --------------------------------------------------------------------------

SECRET = "T0/B0/keep-this"


class MailHandler(socketserver.StreamRequestHandler):
    """A minimal SMTP server that requires a password."""

    def handle(self) -> None:
        self.say("220 here")
        for line in self.rfile:
            command = line.split()[0].upper()
            if command == b"EHLO":
                self.say("250-here", "250 AUTH PLAIN")
            elif command == b"AUTH":
                self.say("235 come in" if self.server.open else "535 5.7.8 not you")
            elif command == b"DATA":
                self.say("354 go on")
                self.server.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                self.say("250 taken")
            else:
                self.say("250 fine")

    def say(self, *lines: str) -> None:
        """Answer with these lines."""
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())


class MailServer(socketserver.ThreadingTCPServer):
    """Keeps the mails that it received."""

    daemon_threads = True
    open = True
    mails: list[bytes]


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """A mail server on the loopback, on any free port."""
    running = MailServer(("127.0.0.1", 0), MailHandler)
    running.mails = []
    with serving(running):
        yield running


@pytest.fixture
def tls_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """``server`` with TLS, which PagerDuty's client requires, and a certificate that clients here trust."""
    issue(tmp_path, {"server": "127.0.0.1"})
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / AUTHORITY))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.pem")
    running = Server(("127.0.0.1", 0), Handler)
    running.socket = tls.wrap_socket(running.socket, server_side=True)
    running.posted = []
    with serving(running):
        yield running


def connected(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    """Let Airflow have exactly this connection."""

    def get(conn_id: str) -> Connection:
        if conn_id != fields.get("conn_id"):
            raise AirflowNotFoundException(conn_id)
        return Connection(**fields)

    monkeypatch.setattr(BaseHook, "get_connection", staticmethod(get))


def connect_slack(monkeypatch: pytest.MonkeyPatch, server: Server, path: str = "/services/") -> None:
    """Add a Slack connection whose secret is part of the address."""
    kind = {"conn_id": "plimsoll_slack", "conn_type": "slackwebhook"}
    connected(monkeypatch, **kind, password=f"{address(server, path)}{SECRET}")


def connect_pagerduty(monkeypatch: pytest.MonkeyPatch, server: Server, path: str = "") -> None:
    """Add a PagerDuty connection with a key, and redirect its client to this server."""
    import pagerduty

    connected(monkeypatch, conn_id="plimsoll_pagerduty", conn_type="pagerduty_events", password=SECRET)
    monkeypatch.setattr(
        pagerduty.EventsApiV2Client, "default_base_url", f"https://127.0.0.1:{server.server_port}{path}"
    )


def connect_mail(monkeypatch: pytest.MonkeyPatch, server: MailServer, **extra: Any) -> None:
    """Add a mail connection with a password and without TLS."""
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "kafka@example.com", **extra}
    told = {"host": "127.0.0.1", "port": server.server_address[1], "login": "ada", "password": SECRET}
    connected(monkeypatch, conn_id="plimsoll_mail", conn_type="smtp", extra=json.dumps(extra), **told)


def tell(receiver: str, campaign: object, **of_context: Any) -> None:
    """Call a notifier as Airflow does, with templates."""
    NightlyNotifier(receiver=receiver, campaign="{{ folder }}")({"folder": str(campaign), **context(**of_context)})


def end_as(folder: Path, state: str) -> None:
    """Change the nightly run's state, with template and HTML syntax in its sentence."""
    file = CampaignFolder(folder).result
    told = NightlyResult.read(file).model_copy(update={"state": state, "sentence": "<b> {{ folder }}"})
    told.write(file)


@pytest.mark.parametrize("receiver", RECEIVERS)
def test_nobody_is_told_without_a_connection(nightly_run: Path, receiver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a connection no message is sent, and that is no error."""
    connected(monkeypatch)

    tell(receiver, nightly_run)


@pytest.mark.notify
def test_slack_is_told_red_or_green(nightly_run: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slack gets the summary's text for each state, or that there is no result."""
    connect_slack(monkeypatch, server)
    tell("slack", nightly_run)
    end_as(nightly_run, "fail")
    tell("slack", nightly_run)
    tell("slack", None, task="plan")

    assert {path for path, *_ in server.posted} == {f"/services/{SECRET}"}
    first, second, third = [message["text"] for *_, message in server.posted]
    assert first.startswith("4 runs of 1 scenario on 2 versions: 0 correctness failures")
    assert second.startswith("<b> {{ folder }}")
    assert third == "This nightly run has no result: plan failed. Its log is in Airflow."


def test_mail_goes_to_the_recipients_of_the_connection(
    nightly_run: Path, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mail goes to the connection's recipients with the state in the subject and an escaped text."""
    connect_mail(monkeypatch, mail_server, to=["ada@example.com", "bob@example.com"])
    end_as(nightly_run, "fail")
    tell("mail", nightly_run)
    tell("mail", None, task="plan")

    mails = [message_from_bytes(mail, EmailMessage, policy=policy.default) for mail in mail_server.mails]
    assert [mail["Subject"] for mail in mails] == ["Plimsoll nightly run: fail", "Plimsoll nightly run: no result"]
    assert (mails[0]["From"], mails[0]["To"]) == ("kafka@example.com", "ada@example.com, bob@example.com")
    [part] = [part for part in mails[0].walk() if part.get_content_type() == "text/html"]
    assert "&lt;b&gt; {{ folder }}" in part.get_content()


def test_mail_needs_recipients(nightly_run: Path, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mail connection without recipients is rejected with the place where they belong."""
    connect_mail(monkeypatch, mail_server)

    with pytest.raises(BadInput, match="plimsoll_mail has no recipients; set them in its extra"):
        tell("mail", nightly_run)


@pytest.mark.notify
def test_pagerduty_has_an_incident_until_a_nightly_run_passes(
    nightly_run: Path, tls_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PagerDuty has an incident from a failure, or a missing result, until a nightly run passes."""
    connect_pagerduty(monkeypatch, tls_server)
    end_as(nightly_run, "fail")
    tell("pagerduty", nightly_run)
    end_as(nightly_run, "unknown")
    tell("pagerduty", nightly_run)
    tell("pagerduty", None, task="plan")
    end_as(nightly_run, "pass")
    tell("pagerduty", nightly_run)

    events = [event for *_, event in tls_server.posted]
    assert {path for path, *_ in tls_server.posted} == {"/v2/enqueue"}
    assert {(event["routing_key"], event["dedup_key"]) for event in events} == {(SECRET, INCIDENT)}
    assert [event["event_action"] for event in events] == ["trigger", "trigger", "resolve"]
    assert events[0]["payload"]["summary"].startswith("<b> {{ folder }}")
    assert events[0]["payload"]["severity"] == "error"
    assert events[0]["payload"]["custom_details"]["campaign"] == "nightly-00"
    assert events[1]["payload"]["summary"].startswith("This nightly run has no result: plan failed")


@pytest.mark.notify
def test_pagerduty_takes_a_long_text_in_part(
    nightly_run: Path, tls_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PagerDuty's summary is cut to 1,024 characters, its maximum."""
    connect_pagerduty(monkeypatch, tls_server)
    file = CampaignFolder(nightly_run).result
    NightlyResult.read(file).model_copy(update={"state": "fail", "sentence": "x" * 2000}).write(file)
    tell("pagerduty", nightly_run)

    assert tls_server.posted[0][2]["payload"]["summary"] == "x" * 1024


@pytest.fixture
def refusing(
    request: pytest.FixtureRequest, server: Server, tls_server: Server, mail_server: MailServer
) -> Callable[[pytest.MonkeyPatch], str]:
    """Connects a receiver that rejects the message; returns its error text."""

    def connect(monkeypatch: pytest.MonkeyPatch) -> str:
        if request.param == "slack":
            connect_slack(monkeypatch, server, "/refused/")
        elif request.param == "pagerduty":
            connect_pagerduty(monkeypatch, tls_server, "/refused")
        else:
            mail_server.open = False
            connect_mail(monkeypatch, mail_server, to=["ada@example.com"])
        return "535" if request.param == "mail" else "400"

    return connect


@pytest.mark.notify
@pytest.mark.parametrize(("receiver", "refusing"), [(name, name) for name in RECEIVERS], indirect=["refusing"])
def test_no_refusal_shows_a_secret(
    receiver: str,
    refusing: Callable[[pytest.MonkeyPatch], str],
    nightly_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A rejected message leaves no secret in the exception, its causes, or the logs."""
    says = refusing(monkeypatch)
    end_as(nightly_run, "fail")
    with pytest.raises(HarnessError, match="did not accept the nightly run's summary") as refused:
        tell(receiver, nightly_run)

    written = capfd.readouterr()
    assert "keep-this" not in "".join(traceback.format_exception(refused.value)) + written.out + written.err
    assert says in str(refused.value)


def test_a_secret_in_an_error_is_left_out(nightly_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret in a client library's error is masked."""

    class Talkative(BaseNotifier):
        def notify(self, context: Any) -> None:
            raise ValueError(f"what about {SECRET}")

    slack = RECEIVERS["slack"]._replace(notifier=lambda message, found: Talkative())
    monkeypatch.setitem(RECEIVERS, "slack", slack)
    connected(monkeypatch, conn_id="plimsoll_slack", conn_type="slackwebhook", password=SECRET)
    with pytest.raises(HarnessError, match=r"summary: ValueError: what about \*\*\*$") as refused:
        tell("slack", nightly_run)

    assert "keep-this" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.notify
def test_an_address_that_is_none_is_refused_without_it(
    nightly_run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An invalid Slack address is rejected before Slack's client could log it."""
    connected(monkeypatch, conn_id="plimsoll_slack", conn_type="slackwebhook", password=f"nonsense://{SECRET}")
    with pytest.raises(BadInput, match="The password of the connection plimsoll_slack must begin with http"):
        tell("slack", nightly_run)

    assert "keep-this" not in "".join(capfd.readouterr())
