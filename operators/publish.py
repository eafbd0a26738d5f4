"""Publish a run: its page, and uploads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from history.folder import RunFolder
from history.remote import path_of
from operators.assets import PUBLISHED, RUNS
from operators.hooks import ConnectedOperator, ObjectStoreHook
from operators.links import DataDocs, RunPage, page_of
from service.progress import performed
from service.stages import PUBLISH

if TYPE_CHECKING:
    from airflow.sdk import Context


class Upload(ConnectedOperator):
    """Upload a recording to the URL of the parameter ``upload``; return where it is.

    :param run: the run folder
    """

    template_fields = ("run",)
    hooks = (ObjectStoreHook,)

    def __init__(self, *, run: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def execute(self, context: Context) -> str:
        from campaigns.upload import upload_run  # heavy for DAG parsing

        if not context["params"]["judge"]:
            return self.run  # its campaign uploads it
        return str(upload_run(RunFolder(Path(self.run)), context["params"]["upload"], self.log.info))


class Publish(ConnectedOperator):
    """Write the run's page and, if judged, its archive rows; return the page's path.

    :param run: the run folder, or its URL in an object store
    """

    template_fields = ("run",)
    hooks = (ObjectStoreHook,)
    operator_extra_links = (RunPage(), DataDocs())

    def __init__(self, *, run: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def execute(self, context: Context) -> str | None:
        from campaigns.site import publish  # heavy for DAG parsing
        from campaigns.upload import upload_run

        run, url = RunFolder(path_of(self.run)), context["params"]["upload"]
        if not context["params"]["judge"]:
            return None
        with performed(PUBLISH, run, self.log.info):
            page = publish(run.path)
        self.log.info("page: %s", page_of(run.path, "report", "index.html") or page)
        verdict = run.read_verdict().get("verdict", "unknown")
        extra = {"run": str(run.path), "verdict": verdict, "page": str(page)}
        context["outlet_events"][PUBLISHED].add(RUNS, extra=extra)
        if url and isinstance(run.path, Path) and run.is_sealed:
            self.log.info("uploaded: %s", upload_run(run, url, self.log.info))
        return str(page)
