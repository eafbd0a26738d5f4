"""Tells others of a nightly run: an Airflow notifier that posts its summary as JSON to a webhook."""

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
NO_RESULT = "This nightly run has no result"


class NightlyWebhook(BaseNotifier):
    """Post what a nightly run's task came to, red or green; ``text`` is what chat programs show.

    That is the nightly run's summary, or that there is none: it could not be planned, or the task ended without a
    result.

    :param campaign: the nightly run's folder; "None" where the nightly run could not be planned
    :param url: where to; else the value of the environment variable that the nightly run's settings name, else nowhere
    """

    template_fields = ("campaign", "url")

    def __init__(self, *, campaign: str, url: str = "") -> None:
        super().__init__()
        self.campaign = campaign
        self.url = url

    def notify(self, context: Context) -> None:
        from campaigns.campaign import CampaignFolder  # heavy: not while a DAG file is parsed
        from campaigns.nightly.outputs import summary
        from campaigns.nightly.settings import Settings
        from history.results.nightly import NightlyResult

        folder = CampaignFolder(Path(self.campaign)) if self.campaign != str(None) else None
        variable = folder.read_plan().settings["webhook"] if folder else Settings.model_fields["webhook"].default
        url = self.url or os.environ.get(variable, "")
        if not url:
            self.log.info("Nothing was posted: %s is not set.", variable)
            return
        began = context["ti"].start_date
        if folder and began and folder.result.is_file() and folder.result.stat().st_mtime >= began.timestamp():
            post(url, summary(NightlyResult.read(folder.result)))
        else:
            post(url, {"text": f"{NO_RESULT}: {context['ti'].task_id} failed. Its log is in Airflow.", "state": None})


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
        raise HarnessError(f"The webhook did not take the nightly run's summary: {error}.") from None
