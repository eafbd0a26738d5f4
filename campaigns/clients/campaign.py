"""Run several releases' clients against one version of the brokers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from pydantic import Field, field_validator

from campaigns.campaign import Campaign, Item, Row, Strict, When
from campaigns.clients import KIND
from campaigns.kinds import split_words
from clusters.scenario.scenario import load_scenario
from history.errors import BadInput
from history.kafka_versions import CLIENT_RELEASES
from history.results.base import State
from history.results.clients import ClientRun, ClientsResult
from history.words import counted


class Settings(Strict):
    """``clients`` is a number of latest releases, or a list."""

    kafka: str = CLIENT_RELEASES[0]
    clients: str = "5"
    scenario: str = "java_client"
    runtime: str = Field(default="auto")

    @field_validator("clients", mode="before")
    @classmethod
    def _text(cls, value: object) -> object:
        return str(value) if isinstance(value, int) else ",".join(map(str, value)) if isinstance(value, list) else value

    @field_validator("clients")
    @classmethod
    def _known(cls, value: str) -> str:
        if value.isdigit():
            if not 1 <= int(value) <= len(CLIENT_RELEASES):
                raise ValueError(f"there are 1 to {len(CLIENT_RELEASES)} releases to choose from")
        elif not split_words(value):
            raise ValueError("it names no release")
        elif wrong := [name for name in split_words(value) if not re.fullmatch(r"\d+\.\d+\.\d+", name)]:
            raise ValueError(f"{wrong[0]!r} is no release such as {CLIENT_RELEASES[0]}")
        return value

    @property
    def releases(self) -> list[str]:
        if self.clients.isdigit():
            return list(CLIENT_RELEASES[: int(self.clients)])
        return list(dict.fromkeys(split_words(self.clients)))


def plan(settings: Mapping[str, Any], **when: Unpack[When]) -> Campaign:
    """Plan a run per client with one seed; raise BadInput if the only load uses no Java client."""
    question = KIND.check(Settings, settings)
    scenario, given = load_scenario(question.scenario), f"--scenario={question.scenario}"
    if scenario.loads:
        raise BadInput(f"{given} has several loads; give one with a single load.")
    if scenario.load is None or scenario.load.engine != "java":
        raise BadInput(f"{given} has no load with engine: java, whose release could be exchanged.")
    items = [
        Item(
            name=f"client-{release}",
            scenario=question.scenario,
            kafka=question.kafka,
            changes={"load": {"client": release}},
            seed=when["seed"],
            labels={"role": release},
        )
        for release in question.releases
    ]
    return Campaign(kind=KIND.name, settings=question.model_dump(), items=items, **when)


def result(campaign: Campaign, rows: Sequence[Row]) -> ClientsResult:
    """Fail if a run failed, else unknown if one is unknown or missing."""
    own = {row["labels"]["item"]: row for row in campaign.own(rows)}
    runs = [_run(item, own.get(item.name)) for item in campaign.items]
    return ClientsResult(
        **campaign.named,
        state=_state(runs),
        sentence=_sentence(campaign.settings["kafka"], runs),
        lines=[f"{run.client:8} {run.verdict:8} {run.sentence}" for run in runs],
        seed=campaign.seed,
        settings=campaign.settings,
        runs=runs,
    )


def _run(item: Item, row: Row | None) -> ClientRun:
    client = item.labels["role"]
    if row is None:
        return ClientRun(client=client, run_id="", verdict="unknown", sentence="It was not recorded.")
    return ClientRun(client=client, run_id=row["run_id"], verdict=row["verdict"], sentence=row["sentence"])


def _state(runs: Sequence[ClientRun]) -> State:
    verdicts = {run.verdict for run in runs}
    return "fail" if "fail" in verdicts else "unknown" if "unknown" in verdicts else "pass"


def _sentence(kafka: str, runs: Sequence[ClientRun]) -> str:
    verdicts = Counter(run.verdict for run in runs)
    counts = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in ("pass", "fail", "unknown") if verdicts[verdict])
    return f"Java clients of {counted(len(runs), 'release')} against Kafka {kafka}: {counts}."
