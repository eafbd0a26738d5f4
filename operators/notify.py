"""Report nightly runs to a webhook, and by Airflow's providers to Slack, mail and PagerDuty."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import URLError
from urllib.request import Request, urlopen

from airflow.sdk import BaseNotifier

from history import extras
from history.errors import BadInput, HarnessError
from operators.hooks import connection

if TYPE_CHECKING:
    from airflow.sdk import Connection, Context

    from campaigns.campaign import CampaignFolder

LIMIT_S = 20
NO_RESULT = "This nightly run has no result"
INCIDENT = "plimsoll-nightly"  # PagerDuty's key, by which a run that passes resolves an earlier incident
_SUMMARY_CHARACTERS = 1024  # PagerDuty's limit

Message = dict[str, Any]


def message_of(campaign: str, context: Context) -> Message:
    """Return a nightly run's summary, or why it is missing; ``state`` is None without a result."""
    from campaigns.nightly.outputs import summary  # heavy for DAG parsing
    from history.results.nightly import NightlyResult

    folder, began = _folder(campaign), context["ti"].start_date
    if folder and began and folder.result.is_file() and folder.result.stat().st_mtime >= began.timestamp():
        return summary(NightlyResult.read(folder.result))
    return {"text": f"{NO_RESULT}: {context['ti'].task_id} failed. Its log is in Airflow.", "state": None}


def _folder(campaign: str) -> CampaignFolder | None:
    from campaigns.campaign import CampaignFolder

    return CampaignFolder(Path(campaign)) if campaign != str(None) else None


# --- a webhook ---------------------------------------------------------------------------------------


class NightlyWebhook(BaseNotifier):
    """Post the result of a nightly run's task; chat programs show ``text``.

    :param campaign: the nightly run's folder; "None" if it could not be planned
    :param url: the address; default: the environment variable that the settings name
    """

    template_fields = ("campaign", "url")

    def __init__(self, *, campaign: str, url: str = "") -> None:
        super().__init__()
        self.campaign = campaign
        self.url = url

    def notify(self, context: Context) -> None:
        from campaigns.nightly.settings import Settings  # heavy for DAG parsing

        folder = _folder(self.campaign)
        variable = folder.read_plan().settings["webhook"] if folder else Settings.model_fields["webhook"].default
        if url := self.url or os.environ.get(variable, ""):
            post(url, message_of(self.campaign, context))
        else:
            self.log.info("No message was posted, because %s is not set.", variable)


def post(url: str, message: Message) -> None:
    """Post a message as JSON.

    Raises:
        BadInput: the address is not http or https.
        HarnessError: it was not accepted; the message omits the address, which may be a secret.
    """
    _check_address(url, "The webhook's address")
    body = json.dumps(message).encode()
    try:
        with urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=LIMIT_S):
            pass
    except (URLError, TimeoutError) as error:
        raise HarnessError(f"The webhook did not accept the nightly run's summary: {error}.") from None


def _check_address(url: str, words: str) -> None:
    """Reject a wrong address here, because the libraries' errors would show it."""
    if not url.startswith(("http://", "https://")):
        raise BadInput(f"{words} must begin with http:// or https://.")


# --- Slack, mail, PagerDuty --------------------------------------------------------------------------


def _slack(message: Message, found: Connection) -> BaseNotifier:
    extras.require("notify", "slack_sdk", f"The connection {found.conn_id}")
    if found.password and "://" in found.password:
        _check_address(found.password, f"The password of the connection {found.conn_id}")
    from airflow.providers.slack.notifications.slack_webhook import SlackWebhookNotifier

    slack: BaseNotifier = SlackWebhookNotifier(
        slack_webhook_conn_id=found.conn_id, text=message["text"], timeout=LIMIT_S
    )
    return slack


def _mail(message: Message, found: Connection) -> BaseNotifier:
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier

    to = found.extra_dejson.get("to")
    if not to:
        raise BadInput(f'The connection {found.conn_id} has no recipients; set them in its extra, as {{"to": ["…"]}}.')
    return SmtpNotifier(
        smtp_conn_id=found.conn_id,
        to=to,
        subject=f"Plimsoll nightly run: {message['state'] or 'no result'}",
        html_content=f"<pre>{escape(message['text'])}</pre>",
    )


def _pagerduty(message: Message, found: Connection) -> BaseNotifier | None:
    """Return the incident's notifier; None for an unknown run, which neither triggers nor resolves."""
    if message["state"] == "unknown":
        return None
    extras.require("notify", "pagerduty", f"The connection {found.conn_id}")
    from airflow.providers.pagerduty.notifications.pagerduty import PagerdutyNotifier

    pagerduty: BaseNotifier = PagerdutyNotifier(
        pagerduty_events_conn_id=found.conn_id,
        action="resolve" if message["state"] == "pass" else "trigger",
        dedup_key=INCIDENT,
        summary=message["text"][:_SUMMARY_CHARACTERS],
        severity="error",
        source=socket.gethostname(),
        custom_details={name: value for name, value in message.items() if name != "text"},
    )
    return pagerduty


class Receiver(NamedTuple):
    """A receiver's Airflow connection and notifier."""

    words: str
    connection: str
    notifier: Callable[[Message, Connection], BaseNotifier | None]


RECEIVERS = {
    "slack": Receiver("Slack", "plimsoll_slack", _slack),
    "mail": Receiver("The mail server", "plimsoll_mail", _mail),
    "pagerduty": Receiver("PagerDuty", "plimsoll_pagerduty", _pagerduty),
}


class NightlyNotifier(BaseNotifier):
    """Report a nightly run's task to a receiver, if Airflow has its connection.

    :param receiver: a key of ``RECEIVERS``
    :param campaign: the nightly run's folder; "None" if it could not be planned
    """

    template_fields = ("campaign",)

    def __init__(self, *, receiver: str, campaign: str) -> None:
        super().__init__()
        self.receiver = receiver
        self.campaign = campaign

    def notify(self, context: Context) -> None:
        """Report to the receiver.

        Raises:
            BadInput: the connection is incomplete, or packages are missing.
            HarnessError: the receiver failed; without the connection's secret.
        """
        words, name, notifier_for = RECEIVERS[self.receiver]
        found = connection(name)
        if found is None:
            self.log.info("%s was not notified, because there is no connection %s.", words, name)
            return
        notifier = notifier_for(message_of(self.campaign, context), found)
        if notifier is None:
            return
        try:
            notifier.notify(context)
        except Exception as error:  # noqa: BLE001  # of any client library
            why = f"{type(error).__name__}: {error}"
            told = why.replace(found.password, "***") if found.password else why
            raise HarnessError(f"{words} did not accept the nightly run's summary: {told}") from None
