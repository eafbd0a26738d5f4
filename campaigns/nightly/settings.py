"""The settings in ``nightly.yaml`` and ``waivers.yaml``; see docs/nightly.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from campaigns.campaign import MAX_TIMES, Strict
from campaigns.nightly import KIND
from campaigns.statistics.effects import Better
from clusters.attached.named import CONNECTION, cluster_in, is_connection
from history.metrics import METRICS
from history.results import nightly as results
from history.yaml_files import read_mapping

RESOLUTION_S = 0.1  # the prober's resolution: shorter times are equal


class ControlScenario(Strict):
    """A fixed scenario and release that detects host changes."""

    scenario: str
    kafka: str


class Correctness(Strict):
    """Scenarios whose verdicts count, not their metrics; ``changes`` apply only to them."""

    scenarios: list[str] = Field(default_factory=list)
    repetitions: int = Field(default=1, ge=1, le=MAX_TIMES)
    changes: dict[str, Any] = Field(default_factory=dict)


class Subject(Strict):
    """The build under test: jars, an archive or an image, which ``command`` builds."""

    name: str = Field(default="subject", pattern=r"^[A-Za-z][\w.-]*$")
    kafka: str
    command: str = ""
    build_id: str = "BUILD_ID"
    link: str = ""


class Watch(Strict):
    """``margin`` is a ratio's distance from 1; values below ``floor`` are equal."""

    margin: float = Field(gt=0, lt=1)
    floor: float | None = Field(default=None, ge=0)
    phases: list[str] = Field(default_factory=list)


class Baseline(Strict):
    """The last ``nightly_runs`` good ones and ``pinned`` ones; reruns use the first other version in ``releases``."""

    nightly_runs: int = Field(default=30, ge=10)
    pinned: list[str] = Field(default_factory=list)
    releases: list[str] = Field(min_length=1)


class Confirm(Strict):
    """Reruns: ``pairs`` per candidate, ``candidates`` per nightly run, none for ``cool_down`` after a refutation."""

    pairs: int = Field(default=5, ge=3, le=MAX_TIMES)
    candidates: int = Field(default=2, ge=0)
    cool_down: int = Field(default=5, ge=0)


class Retention(Strict):
    """Run folders older than ``days``, and all but the newest ``runs``, may be deleted."""

    days: int = Field(default=30, ge=1)
    runs: int = Field(default=300, ge=1)


class Waiver(results.Waiver):
    """A checked waiver."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if bool(self.metric) == bool(self.found):
            raise ValueError("an entry names either a metric, or what was found, and not both")
        if self.metric and self.metric not in METRICS:
            raise ValueError(f"{self.metric!r} is no metric")
        if self.metric and self.up_to is None:
            raise ValueError(f"the entry on {self.metric} has no up_to: say by how many percent it may be worse")
        if self.found and self.up_to is not None:
            raise ValueError(f"up_to: {self.up_to:g} is a bound for a metric, and the entry is on what was found")
        return self

    def covers_series(self, scenario: str, kafka: str, metric: str, phase: str) -> bool:
        return self._is_of(scenario, kafka) and self.metric == metric and self.phase in (None, phase)

    def covers_failure(self, scenario: str, kafka: str, found: Collection[str]) -> bool:
        return self._is_of(scenario, kafka) and bool(found) and set(found) <= set(self.found)

    def _is_of(self, scenario: str, kafka: str) -> bool:
        return self.scenario == scenario and self.kafka in (None, kafka)


class Settings(Strict):
    """The settings: ``scenarios`` are benchmarks; those of ``correctness`` run first.

    ``clusters`` names clusters of others, as files or connections of Airflow; a name stands for a version anywhere.
    ``webhook`` names the environment variable with its address.
    """

    subject: Subject | None = None
    clusters: dict[Annotated[str, Field(pattern=r"^[A-Za-z][\w.-]*$")], str] = Field(default_factory=dict)
    correctness: Correctness = Correctness()
    scenarios: list[str] = Field(default_factory=list)
    versions: list[str] = Field(min_length=1)
    repetitions: int = Field(default=3, ge=1, le=MAX_TIMES)
    control: ControlScenario
    watch: dict[str, Watch]
    runtime: Literal["auto", "docker", "process"] = "auto"
    changes: dict[str, Any] = Field(default_factory=dict)
    baseline: Baseline
    confirm: Confirm = Confirm()
    alerts: int = Field(default=3, ge=0)
    retention: Retention = Retention()
    webhook: str = "PLIMSOLL_WEBHOOK"
    waivers: list[Waiver] = Field(default_factory=list)

    @field_validator("scenarios", "versions")
    @classmethod
    def _names_each_once(cls, names: list[str]) -> list[str]:
        if len(set(names)) < len(names):
            raise ValueError(f"one of {', '.join(names)} is named twice")
        return names

    @field_validator("clusters")
    @classmethod
    def _are_clusters(cls, clusters: dict[str, str]) -> dict[str, str]:
        for name, given in clusters.items():
            if not cluster_in(given):
                raise ValueError(
                    f"{name} is {given!r}, which is no cluster; name a file such as mine.yaml, or {CONNECTION}<name>"
                )
        return clusters

    @field_validator("watch")
    @classmethod
    def _can_be_watched(cls, watch: dict[str, Watch]) -> dict[str, Watch]:
        wrong = [name for name in watch if name not in METRICS or METRICS[name].better is None]
        if wrong:
            raise ValueError(f"{wrong[0]!r} cannot be watched: it is no metric, or neither way of it is better")
        counts = [name for name in watch if METRICS[name].kind == "count"]
        if counts:
            raise ValueError(f"{counts[0]!r} cannot be watched: it is what verdicts are about")
        return watch

    @model_validator(mode="after")
    def _subject_is_no_version(self) -> Self:
        if self.subject and self.subject.kafka in self.versions:
            raise ValueError(f"the subject is {self.subject.kafka}, which is also one of the versions to compare with")
        if self.subject and self.clusters.keys() & {self.subject.name, self.baseline.releases[0]}:
            raise ValueError("the subject is compared with a release on this host; name no cluster in its place")
        return self

    @model_validator(mode="after")
    def _runs_something(self) -> Self:
        if not self.every_scenario:
            raise ValueError("neither scenarios nor correctness.scenarios names any")
        return self

    @property
    def every_scenario(self) -> list[str]:
        return list(dict.fromkeys([*self.correctness.scenarios, *self.scenarios]))

    @model_validator(mode="after")
    def _releases_are_run(self) -> Self:
        strangers = [release for release in self.baseline.releases if release not in self.versions]
        if strangers:
            raise ValueError(f"baseline.releases has {strangers[0]}, which is none of the versions")
        return self

    def floors(self) -> dict[str, float]:
        usual = {name: RESOLUTION_S if METRICS[name].kind == "time" else 0.0 for name in self.watch}
        return {name: usual[name] if watch.floor is None else watch.floor for name, watch in self.watch.items()}

    def watches(self, metric: str, phase: str) -> bool:
        return metric in self.watch and (not self.watch[metric].phases or phase in self.watch[metric].phases)


def better(metric: str) -> Better:
    """Return the better direction of a watched metric."""
    return METRICS[metric].better or "lower"


def read_settings(path: Path) -> dict[str, Any]:
    """Read settings, and waivers and clusters relative to them; raise BadInput for a missing file or no YAML."""
    settings = read_mapping(path, "The settings")
    if isinstance(clusters := settings.get("clusters"), dict):
        files = {name: given for name, given in clusters.items() if isinstance(given, str) and not is_connection(given)}
        settings["clusters"] = clusters | {name: str(path.parent.absolute() / given) for name, given in files.items()}
    name = settings.get("waivers")
    if isinstance(name, str):
        settings["waivers"] = read_mapping(path.parent / name, "The waivers").get("waivers") or []
    return settings


def check(settings: Mapping[str, Any]) -> Settings:
    """Fill in defaults; raise BadInput with the first error and its place."""
    return KIND.check(Settings, settings)
