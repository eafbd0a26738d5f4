"""Wrap calls of ``campaigns.rounds`` and ``campaigns.runner`` in Airflow steps.

Functions import heavy modules, because Airflow parses this file often.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import psutil
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from clusters.paths import runs_folder
from history.errors import BadInput, HarnessError
from history.events import stage_events
from operators.hooks import ConnectedOperator
from operators.steps import asked_params
from service.processes import kill_descendants

if TYPE_CHECKING:
    from airflow.sdk import Context

    from campaigns.campaign import CampaignFolder
    from campaigns.places import Places


NEXT = "next_round"  # a task


def places(context: Context) -> Places:
    """Return the folders of runs, archive and pages that the DAG run names, or this Airflow's."""
    from campaigns.places import Places

    return Places.beside(Path(context["params"].get("runs") or runs_folder()))


class CampaignStep(ConnectedOperator):
    """Perform a step of a planned campaign.

    :param campaign: its folder
    """

    template_fields: tuple[str, ...] = ("campaign",)

    def __init__(self, *, campaign: str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.campaign = campaign

    @property
    def folder(self) -> CampaignFolder:
        from campaigns.campaign import CampaignFolder

        if self.campaign is None:
            raise AirflowSkipException("Skipped, because no campaign was planned.")
        return CampaignFolder(Path(self.campaign))

    def stage(self) -> AbstractContextManager[None]:
        """Record when this step begins and ends, for the progress display."""
        return stage_events(self.folder.stages, self.task_id)

    def on_kill(self) -> NoReturn:
        kill_descendants(psutil.Process())  # a Spark driver outlives its spark-submit
        # Airflow continues after this; only an exception ends the task, so that a run is collected and torn down.
        raise HarnessError(f"Task {self.task_id} was stopped before it completed.")


class PlanCampaign(ConnectedOperator):
    """Plan the runs; return the campaign's folder.

    :param kind: its name (``campaigns.kinds``)
    """

    def __init__(self, *, kind: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind = kind

    def execute(self, context: Context) -> str:
        from campaigns import kinds, rounds, runner
        from campaigns.campaign import CampaignFolder

        params = asked_params(context)
        prepared, number = params.pop("campaign", None), params.pop("round", 1)
        if prepared is not None:
            folder = CampaignFolder(Path(prepared))
            if folder.read_plan().kind != self.kind:
                raise BadInput(f"{prepared} is not a campaign of kind {self.kind}; leave campaign empty to plan one.")
            if number == 1:
                rounds.begin(folder)
            return str(folder.path)
        name, seed, upload_to, _ = (params.pop(key, None) for key in ("name", "seed", "upload", "runs"))
        name = name or f"{context['dag_run'].run_after:%Y%m%d-%H%M%S}"  # the same if the task is cleared
        settings = kinds.of(self.kind).settings(params, patch=params.pop("settings", None))
        folder = runner.plan(self.kind, settings, name=name, seed=seed, places=places(context), upload_to=upload_to)
        return str(folder.path)


class ListItems(CampaignStep):
    """Return the names of the items to record now; check the disk space first."""

    def execute(self, context: Context) -> list[str]:
        from campaigns import recording, rounds

        with self.stage():
            items = rounds.pending(self.folder, places(context))
            recording.check_room(self.folder.path.name, items, places(context))
            return rounds.begin_round(self.folder, items)


class RecordItem(CampaignStep):
    """Record an item; return its run folder, or None if it has one.

    :param item: its name
    """

    def __init__(self, *, item: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.item = item

    def execute(self, context: Context) -> str | None:
        from campaigns import recording, rounds, upload

        item = rounds.item_of(self.folder, self.item)
        context["item"] = item.name  # type: ignore[typeddict-unknown-key]  # the grid shows this
        if not rounds.outstanding(self.folder, [item], places(context)):
            self.log.info("%s has its run", item.name)
            return None
        self.log.info("recording %s: %s on Kafka %s", item.name, item.scenario, item.kafka)
        with stage_events(self.folder.stages, rounds.RECORD, item.name):
            run = recording.record_item(self.folder, item, places(context))
            upload.upload(self.folder, [run], places(context))
        self.log.info("run: %s", run)
        return str(run)


class JudgeItems(CampaignStep):
    """Judge, publish and archive recorded runs; return the run ids."""

    def execute(self, context: Context) -> list[str]:
        from campaigns import runner

        with self.stage():
            judged = runner.judge_recorded(self.folder, places(context))
        self.log.info("judged: %s", ", ".join(judged) or "nothing new")
        return judged


class NextRound(TriggerDagRunOperator):
    """Trigger this DAG again if the results make more runs necessary, else skip.

    :param campaign: its folder
    """

    template_fields = ("campaign",)

    def __init__(self, *, campaign: str, **kwargs: Any) -> None:
        super().__init__(trigger_dag_id="", reset_dag_run=True, **kwargs)
        self.campaign = campaign

    def execute(self, context: Context) -> None:
        from campaigns import rounds
        from campaigns.campaign import CampaignFolder

        folder = CampaignFolder(Path(self.campaign))
        with stage_events(folder.stages, self.task_id):
            items = rounds.decide(folder, places(context))
        if not items:
            raise AirflowSkipException("The results make no more runs necessary.")
        self.log.info("next: %s", ", ".join(item.name for item in items))
        asked = asked_params(context)
        number = asked["round"] + 1
        self.trigger_dag_id = context["dag"].dag_id
        first = context["run_id"].removesuffix(rounds.dag_run_id("", number - 1))
        self.trigger_run_id = rounds.dag_run_id(first, number)
        self.conf = {"campaign": str(folder.path), "round": number, "runs": asked["runs"]}
        super().execute(context)

    def on_kill(self) -> None:
        kill_descendants(psutil.Process())  # a bisection's command


class Conclude(CampaignStep):
    """Write result, page and index, unless another round follows; fail if the state is fail."""

    def execute(self, context: Context) -> str:
        from campaigns import runner

        states = context["ti"].get_task_states(dag_id=context["dag"].dag_id, run_ids=[context["run_id"]])
        if states[context["run_id"]].get(NEXT) == "success":
            raise AirflowSkipException("Another round follows; its end has the result.")
        with self.stage():
            result = runner.conclude(self.folder, places(context))
        self.log.info("%s", result.sentence)
        self.log.info("page: %s", self.folder.page)
        if result.state == "fail":
            raise AirflowFailException(f"{result.sentence} See {self.folder.page}.")
        return str(self.folder.page)


class WriteIndex(BaseOperator):
    """Write the index of all runs and campaigns; return its path."""

    def execute(self, context: Context) -> str:
        from campaigns.site import write_index

        return str(write_index(places(context)))
