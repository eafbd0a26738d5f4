"""Write a judged run's page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from history.events import stage_events
from history.folder import RunFolder
from operators.links import DataDocs, RunPage, page_of
from service.progress import logged
from service.stages import PUBLISH

if TYPE_CHECKING:
    from airflow.sdk import Context


class Publish(BaseOperator):
    """Write the run's page and, if judged, its archive rows; return the page's path.

    :param run: the run folder
    """

    template_fields = ("run",)
    operator_extra_links = (RunPage(), DataDocs())

    def __init__(self, *, run: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def execute(self, context: Context) -> str | None:
        from campaigns.site import publish  # heavy for DAG parsing

        run = RunFolder(Path(self.run))
        if not context["params"]["judge"]:
            return None
        with logged(PUBLISH, run, self.log.info), stage_events(run.stages, PUBLISH.name):
            page = publish(run.path)
        self.log.info("page: %s", page_of(run.path, "report", "index.html") or page)
        return str(page)
