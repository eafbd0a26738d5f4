"""Wrap calls of ``campaigns.recording`` and ``campaigns.runner`` in Airflow steps.

A campaign's run is one task, because tasks for each stage would number hundreds. Functions import heavy modules,
because Airflow parses this file often.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import psutil
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from clusters.paths import runs_folder
from history.errors import BadInput, HarnessError
from history.events import stage_events
from operators.connections import ConnectedOperator
from operators.processes import kill_descendants
from operators.steps import asked_params

if TYPE_CHECKING:
    from airflow.sdk import Context

    from campaigns.campaign import CampaignFolder
    from campaigns.places import Places


def places() -> Places:
    """Return the folders of this Airflow's runs, archive and pages."""
    from campaigns.places import Places

    return Places.beside(runs_folder())


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

    def stage(self, item: str = "") -> AbstractContextManager[None]:
        """Record when this step begins and ends, for the progress display."""
        return stage_events(self.folder.stages, self.task_id, item)

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
        from campaigns import kinds, runner
        from campaigns.campaign import CampaignFolder

        params = asked_params(context)
        prepared = params.pop("campaign", None)
        if prepared is not None:
            folder = CampaignFolder(Path(prepared))
            if folder.read_plan().kind != self.kind:
                raise BadInput(f"{prepared} is not a campaign of kind {self.kind}; leave campaign empty to plan one.")
            return str(folder.path)
        name, seed, upload_to = (params.pop(key, None) for key in ("name", "seed", "upload"))
        settings = kinds.of(self.kind).settings(params, patch=params.pop("settings", None))
        folder = runner.plan(self.kind, settings, name=name, seed=seed, places=places(), upload_to=upload_to)
        return str(folder.path)


class CountItems(CampaignStep):
    """Return a number for each item to record; check the disk space first.

    :param follow_up: count the follow-up runs
    """

    def __init__(self, *, follow_up: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.follow_up = follow_up

    def execute(self, context: Context) -> list[int]:  # noqa: ARG002  # Airflow's signature
        from campaigns import recording

        with self.stage():
            items = recording.items_of(self.folder, places(), more=self.follow_up)
            left = recording.outstanding(self.folder, items, places())
            recording.check_room(self.folder.path.name, left, places())
            return list(range(len(left)))


class RecordItem(CampaignStep):
    """Record the plan's next run, and upload it if requested; return its folder.

    Airflow starts mapped tasks in any order, so ``number`` does not select the run.

    :param number: the mapped task's number
    :param follow_up: record the follow-up runs
    """

    def __init__(self, *, number: int, follow_up: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number
        self.follow_up = follow_up

    def execute(self, context: Context) -> str | None:
        from campaigns import recording, upload

        items = recording.items_of(self.folder, places(), more=self.follow_up)
        item = recording.next_item(self.folder, items, places())
        # The grid shows this; without it, a repeated task that finds no item fails.
        context["item"] = item.name if item else "nothing left"  # type: ignore[typeddict-unknown-key]
        if item is None:
            return None
        self.log.info("recording %s: %s on Kafka %s", item.name, item.scenario, item.kafka)
        with self.stage(item.name):
            run = recording.record_item(self.folder, item, places())
            upload.upload(self.folder, [run], places())
        self.log.info("run: %s", run)
        return str(run)


class JudgeItems(CampaignStep):
    """Judge, publish and archive recorded runs; return the run ids."""

    def execute(self, context: Context) -> list[str]:  # noqa: ARG002  # Airflow's signature
        from campaigns import runner

        with self.stage():
            judged = runner.judge_recorded(self.folder, places())
        self.log.info("judged: %s", ", ".join(judged) or "nothing new")
        return judged


class Conclude(CampaignStep):
    """Write the result, its page and the index; fail if the result's state is fail."""

    def execute(self, context: Context) -> str:  # noqa: ARG002  # Airflow's signature
        from campaigns import runner

        with self.stage():
            result = runner.conclude(self.folder, places())
        self.log.info("%s", result.sentence)
        self.log.info("page: %s", self.folder.page)
        if result.state == "fail":
            raise AirflowFailException(f"{result.sentence} See {self.folder.page}.")
        return str(self.folder.page)


class WriteIndex(BaseOperator):
    """Write the index of all runs and campaigns; return its path."""

    def execute(self, context: Context) -> str:  # noqa: ARG002  # Airflow's signature
        from campaigns.site import write_index

        return str(write_index(places()))
