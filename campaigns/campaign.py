"""A campaign's fixed list of runs, and the folder of its result."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from history.errors import BadInput
from history.events import EventLog
from history.folder import STAGES, write_atomically
from history.refusals import first_wrong

Row = Mapping[str, Any]
MAX_TIMES = 1_000  # repetitions; more is a typing error that takes hours to plan


def check_name(name: str) -> None:
    """Raise BadInput unless a name can be a folder's."""
    if not re.fullmatch(r"\w[\w.-]{0,99}", name, re.ASCII) or ".." in name:  # Airflow's rules, too
        raise BadInput(
            f"--name={name} is no name of a folder: a letter, digit or underscore comes first, then dots and dashes, "
            "too."
        )


class Strict(BaseModel):
    """An immutable model without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Item(Strict):
    """One run, on a version or build of Kafka, or on a cluster of others: a cluster file, or a connection of Airflow.

    ``changes`` is a JSON merge patch (RFC 7396) on the scenario; ``at_once``: others may run beside it.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    scenario: str
    kafka: str = ""
    cluster: str = ""
    changes: dict[str, Any] = Field(default_factory=dict)
    seed: int | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    at_once: bool = False

    @property
    def runs_on(self) -> str:
        return f"cluster {Path(self.cluster).name}" if self.cluster else f"Kafka {self.kafka}"


class When(TypedDict):
    """What identifies a plan, beside its question."""

    campaign_id: str
    created_at: str
    seed: int


class Campaign(Strict):
    """The immutable plan (``campaign.json``); ``settings`` are the question with defaults."""

    format: Literal[1] = 1
    campaign_id: str
    kind: str
    created_at: str
    seed: int
    settings: dict[str, Any]
    items: list[Item]

    @property
    def named(self) -> dict[str, Any]:
        return {"campaign_id": self.campaign_id, "created_at": self.created_at}

    def own(self, rows: Iterable[Row]) -> list[Row]:
        return [row for row in rows if row["labels"].get("campaign") == self.campaign_id]

    def missing(self, recorded: Container[str]) -> list[str]:
        return [item.name for item in self.items if item.name not in recorded]


def _recorded_alike(campaign: Campaign) -> Campaign:
    """Leave out what plans of earlier versions lack."""
    alone = [item.model_copy(update={"at_once": False}) for item in campaign.items]
    return campaign.model_copy(update={"items": alone, "settings": _without_clusters(campaign.settings)})


def _without_clusters(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_clusters(value) if isinstance(value, Mapping) else value
        for key, value in settings.items()
        if value or key not in ("cluster", "clusters")
    }


class CampaignFolder:
    """``site/<command>/<campaign id>/``: plan, rounds, stage times, result, page, CI reports."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan = path / "campaign.json"
        self.rounds = path / "rounds.json"
        self.result = path / "result.json"
        self.page = path / "index.html"
        self.junit = path / "junit.xml"
        self.summary = path / "summary.md"
        self.stages = path / STAGES

    @classmethod
    def of(cls, site: Path, command: str, campaign_id: str) -> CampaignFolder:
        return cls(site / command / campaign_id)

    def say_waiting(self, words: str) -> None:
        EventLog(self.stages).add("waiting", why=words)

    def write_plan(self, campaign: Campaign) -> None:
        """Write the plan; raise BadInput if the folder holds another one."""
        if self.plan.exists():
            if _recorded_alike(self.read_plan()) == _recorded_alike(campaign):
                return
            raise BadInput(f"{self.plan} holds another plan; a campaign's plan never changes, give a new name.")
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.plan, campaign.model_dump_json(indent=1))

    def read_plan(self) -> Campaign:
        """Read the plan; raise BadInput if it is missing or has another format."""
        try:
            return Campaign.model_validate_json(self.plan.read_bytes())
        except FileNotFoundError:
            raise BadInput(f"{self.path} is no campaign: {self.plan.name} is missing.") from None
        except ValidationError as error:
            raise BadInput(f"{self.plan} is no plan of this format: {first_wrong(error)}.") from error
