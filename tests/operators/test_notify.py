"""The notifiers tell receivers on this machine of a nightly run, or say why they did not."""

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
from clusters.kafka.certificates import issue
from clusters.kafka.security import AUTHORITY
from history.errors import BadInput, HarnessError
from history.results.nightly import NightlyResult
from operators.notify import INCIDENT, RECEIVERS, NightlyNotifier, NightlyWebhook, post
from tests.campaigns.nightly_runs import campaign_of, history

Posted = list[tuple[str, str, dict[str, Any]]]


class Server(HTTPServer):
    """Keeps what it was sent; answers 500 below /broken and 400 below /refused."""

    posted: Posted


class Handler(BaseHTTPRequestHandler):
    """One POST at a time."""

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
        """Say nothing."""


@contextmanager
def serving(running: socketserver.TCPServer) -> Iterator[None]:
    """Let a server answer meanwhile."""
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
    """A server on loopback, on any free port."""
    running = Server(("127.0.0.1", 0), Handler)
    running.posted = []
    with serving(running):
        yield running


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


# --- Slack, mail, PagerDuty --------------------------------------------------------------------------

SECRET = "T0/B0/keep-this"


class MailHandler(socketserver.StreamRequestHandler):
    """SMTP as far as a client needs it: it asks for a password, and takes one."""

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
        """Answer in lines."""
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())


class MailServer(socketserver.ThreadingTCPServer):
    """Keeps the mails that it was sent."""

    daemon_threads = True
    open = True
    mails: list[bytes]


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """A mail server on loopback, on any free port."""
    running = MailServer(("127.0.0.1", 0), MailHandler)
    running.mails = []
    with serving(running):
        yield running


@pytest.fixture
def tls_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The same as ``server`` by TLS, which PagerDuty's client insists on, of an authority that clients here trust."""
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
    """Let Airflow have this connection and no other."""

    def get(conn_id: str) -> Connection:
        if conn_id != fields.get("conn_id"):
            raise AirflowNotFoundException(conn_id)
        return Connection(**fields)

    monkeypatch.setattr(BaseHook, "get_connection", staticmethod(get))


def connect_slack(monkeypatch: pytest.MonkeyPatch, server: Server, path: str = "/services/") -> None:
    """A connection whose secret is an address, as Slack hands it out."""
    kind = {"conn_id": "plimsoll_slack", "conn_type": "slackwebhook"}
    connected(monkeypatch, **kind, password=f"{address(server, path)}{SECRET}")


def connect_pagerduty(monkeypatch: pytest.MonkeyPatch, server: Server, path: str = "") -> None:
    """A connection with a key; PagerDuty's address is fixed in its client, which is led here."""
    import pagerduty

    connected(monkeypatch, conn_id="plimsoll_pagerduty", conn_type="pagerduty_events", password=SECRET)
    monkeypatch.setattr(
        pagerduty.EventsApiV2Client, "default_base_url", f"https://127.0.0.1:{server.server_port}{path}"
    )


def connect_mail(monkeypatch: pytest.MonkeyPatch, server: MailServer, **extra: Any) -> None:
    """A connection with a password, without TLS."""
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "kafka@example.com", **extra}
    told = {"host": "127.0.0.1", "port": server.server_address[1], "login": "ada", "password": SECRET}
    connected(monkeypatch, conn_id="plimsoll_mail", conn_type="smtp", extra=json.dumps(extra), **told)


def tell(receiver: str, campaign: object, **of_context: Any) -> None:
    """As Airflow calls a notifier, templates and all."""
    NightlyNotifier(receiver=receiver, campaign="{{ folder }}")({"folder": str(campaign), **context(**of_context)})


def end_as(folder: Path, state: str) -> None:
    """Let the nightly run have another state, and a text in which somebody wrote what is no template."""
    file = CampaignFolder(folder).result
    told = NightlyResult.read(file).model_copy(update={"state": state, "sentence": "<b> {{ folder }}"})
    told.write(file)


@pytest.mark.parametrize("receiver", RECEIVERS)
def test_nobody_is_told_without_a_connection(nightly_run: Path, receiver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is no error, and needs no package."""
    connected(monkeypatch)

    tell(receiver, nightly_run)


@pytest.mark.notify
def test_slack_is_told_red_or_green(nightly_run: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary's text as it is, and that there is no result."""
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
    """The state stands in the subject; the text is text, whatever letters it has."""
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
    """The sentence says where they belong."""
    connect_mail(monkeypatch, mail_server)

    with pytest.raises(BadInput, match="plimsoll_mail names no recipients; its extra takes"):
        tell("mail", nightly_run)


@pytest.mark.notify
def test_pagerduty_has_an_incident_until_a_nightly_run_passes(
    nightly_run: Path, tls_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot tell neither triggers nor resolves it; one without a result triggers it."""
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
    """It refuses summaries of more than 1,024 characters."""
    connect_pagerduty(monkeypatch, tls_server)
    file = CampaignFolder(nightly_run).result
    NightlyResult.read(file).model_copy(update={"state": "fail", "sentence": "x" * 2000}).write(file)
    tell("pagerduty", nightly_run)

    assert tls_server.posted[0][2]["payload"]["summary"] == "x" * 1024


@pytest.fixture
def refusing(
    request: pytest.FixtureRequest, server: Server, tls_server: Server, mail_server: MailServer
) -> Callable[[pytest.MonkeyPatch], str]:
    """Connects a receiver that refuses; returns what it says then."""

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
    """Neither the exception, with what it came from, nor anything that Airflow and the client libraries log."""
    says = refusing(monkeypatch)
    end_as(nightly_run, "fail")
    with pytest.raises(HarnessError, match="did not take the nightly run's summary") as refused:
        tell(receiver, nightly_run)

    written = capfd.readouterr()
    assert "keep-this" not in "".join(traceback.format_exception(refused.value)) + written.out + written.err
    assert says in str(refused.value)


def test_a_secret_in_an_error_is_left_out(nightly_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a client library says of what went wrong."""

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
    """Slack's own client would log it whole."""
    connected(monkeypatch, conn_id="plimsoll_slack", conn_type="slackwebhook", password=f"nonsense://{SECRET}")
    with pytest.raises(BadInput, match="The password of the connection plimsoll_slack must begin with http"):
        tell("slack", nightly_run)

    assert "keep-this" not in "".join(capfd.readouterr())
