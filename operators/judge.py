"""Judge a collected run in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import psutil
from airflow.sdk.exceptions import AirflowFailException

from history.errors import HarnessError
from history.folder import RunFolder
from history.remote import path_of
from operators.hooks import ConnectedOperator, ObjectStoreHook, SparkHook
from operators.links import DataDocs, RunPage
from service.processes import kill_descendants
from service.progress import performed
from service.stages import JUDGE

if TYPE_CHECKING:
    from airflow.sdk import Context

_MEANING = {
    1: "fail: a guarantee of this run's configuration was violated",
    2: "unknown: the evidence is insufficient",
}


class Judge(ConnectedOperator):
    """Judge a run; red unless its verdict is pass, because an unknown verdict must not look green.

    :param run: the run folder, or its URL in an object store
    """

    template_fields = ("run",)
    hooks = (SparkHook, ObjectStoreHook)
    operator_extra_links = (RunPage(), DataDocs())

    def __init__(self, *, run: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def execute(self, context: Context) -> None:
        from clusters.run.host import sharing_host  # heavy for DAG parsing
        from spark.submit import judge

        run = RunFolder(path_of(self.run))
        if not context["params"]["judge"]:
            self.log.info("not judged, as asked: %s", run.path)
            return
        with sharing_host(f"judging {run.run_id}", self.log.info), performed(JUDGE, run, self.log.info):
            code = judge([run.path])
        if told := run.read_verdict():
            self.log.info("%s", told.get("sentence", ""))
            self.log.info("verdict: %s", told.get("verdict", "unknown"))
        if code:
            raise AirflowFailException(f"Verdict {_MEANING[code]}; see {run.verdict_file}.")

    def on_kill(self) -> NoReturn:
        kill_descendants(psutil.Process())  # a Python driver outlives its spark-submit
        # Airflow continues after this; only an exception ends the task.
        raise HarnessError(f"Task {self.task_id} was stopped before it reached a verdict.")
