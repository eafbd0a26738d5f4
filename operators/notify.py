"""Tells others of a night: an Airflow notifier that posts its summary as JSON to a webhook."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from airflow.sdk import BaseNotifier

from history.errors import BadInput, HarnessError

if TYPE_CHECKING:
    from airflow.sdk import Context

LIMIT_S = 20


class NightlyWebhook(BaseNotifier):
    """Post the summary of a night when its task ends, red or green; ``text`` is what chat programs show.

    :param campaign: the night's folder
    :param url: where to; else the value of the environment variable that the night's settings name, else nowhere
    """

    template_fields = ("campaign", "url")

    def __init__(self, *, campaign: str, url: str = "") -> None:
        super().__init__()
        self.campaign = campaign
        self.url = url

    def notify(self, context: Context) -> None:  # noqa: ARG002  # Airflow's signature
        from campaigns.campaign import CampaignFolder  # heavy: not while a DAG file is parsed
        from campaigns.nightly.outputs import summary

        folder = CampaignFolder(Path(self.campaign))
        if not folder.result.is_file():
            self.log.warning("Nothing was posted: %s has no result.", folder.path)
            return
        variable = folder.read_plan().settings["webhook"]
        url = self.url or os.environ.get(variable, "")
        if not url:
            self.log.info("Nothing was posted: %s is not set.", variable)
            return
        post(url, summary(json.loads(folder.result.read_text())))


def post(url: str, message: dict[str, Any]) -> None:
    """Post a message as JSON.

    Raises:
        BadInput: the address is none of http or https.
        HarnessError: it was not taken. The address is not told, as it may be a secret.
    """
    if not url.startswith(("http://", "https://")):
        raise BadInput("The webhook's address must begin with http:// or https://.")
    body = json.dumps(message).encode()
    try:
        with urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=LIMIT_S):
            pass
    except (URLError, TimeoutError) as error:
        raise HarnessError(f"The webhook did not take the night's summary: {error}.") from None
