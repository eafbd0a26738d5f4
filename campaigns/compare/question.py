"""A comparison's question: two sides, the view, and what is judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from campaigns.campaign import MAX_TIMES, Strict
from campaigns.compare.effects import USUAL_PAIRS
from clusters.attached.named import Named, cluster_in
from history.errors import BadInput
from history.metrics import METRICS
from history.results.compare import View
from history.yaml_files import parse


class Side(Strict):
    """A version or a cluster of others, and a merge patch (RFC 7396) for this side only."""

    kafka: str = ""
    cluster: Named = ""
    name: str = ""
    changes: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if isinstance(value, str):
            return {"cluster": cluster} if (cluster := cluster_in(value)) else {"kafka": value}
        return value

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if bool(self.kafka) == bool(self.cluster):
            raise ValueError("name either kafka, a version or build, or cluster, a file such as mine.yaml")
        return self

    @property
    def place(self) -> dict[str, Any]:
        return {"kafka": self.kafka, "cluster": self.cluster}


class InjectedSlowdown(Strict):
    """``size`` is the intended worsening, such as 0.10; ``shows_in`` a metric that verifies it."""

    metric: str
    size: float | None = Field(default=None, gt=0, lt=1)
    changes: dict[str, Any]
    words: str
    shows_in: str | None = None


class Settings(Strict):
    """The question (docs/comparison.md); ``changes`` apply to both sides, ``change`` also to head."""

    base: Side
    head: Side
    scenarios: list[str] = Field(default=["benchmark"], min_length=1)
    pairs: int = Field(default=USUAL_PAIRS, ge=0, le=MAX_TIMES)
    of_knee: float | None = Field(default=None, gt=0, le=1)
    aa_pairs: int = Field(default=5, ge=2, le=MAX_TIMES)
    primary: dict[str, float] = Field(default_factory=dict)
    secondary_margin: float = Field(default=0.10, gt=0)
    view: View | None = None  # default: default_settings for two versions, else same_settings
    changes: dict[str, Any] = Field(default_factory=dict)
    change: dict[str, Any] = Field(default_factory=dict)
    resource_limits: dict[str, Any] | None = Field(default_factory=lambda: {"cpus": 1.0})
    injected_slowdown: InjectedSlowdown | None = None
    runtime: str = "docker"

    @model_validator(mode="before")
    @classmethod
    def _a_change_needs_no_head(cls, value: object) -> object:
        if not isinstance(value, Mapping) or not value.get("change") or value.get("head") or not value.get("base"):
            return value
        base = value["base"]
        place = {key: base[key] for key in ("kafka", "cluster") if key in base} if isinstance(base, Mapping) else base
        return {**value, "head": place}

    @field_validator("change", mode="before")
    @classmethod
    def _change_is_a_mapping(cls, value: object) -> object:
        try:
            read = parse(value, "it") if isinstance(value, str) else value
        except BadInput:
            read = None
        if not isinstance(read, dict):
            raise ValueError("it is no part of a scenario")  # noqa: TRY004 - pydantic reports it
        return read

    @field_validator("scenarios", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return value.split(",") if isinstance(value, str) else value

    @field_validator("pairs")
    @classmethod
    def _none_or_some(cls, value: int) -> int:
        if value == 1:
            raise ValueError("one pair has no interval; take two or more, or 0 to measure the noise of this host alone")
        return value

    @field_validator("primary")
    @classmethod
    def _primary_metrics_are_judged(cls, value: dict[str, float]) -> dict[str, float]:
        judged = [name for name, metric in METRICS.items() if metric.better and metric.kind != "count"]
        for key, margin in value.items():
            if key.partition("@")[0] not in judged:
                raise ValueError(f"primary names {key!r}; known: {', '.join(judged)}, each with @ and a phase's name")
            if not 0 < margin < 1:
                raise ValueError(f"the margin of {key} is {margin:g}; it is a share such as 0.05")
        return value

    @field_validator("runtime")
    @classmethod
    def _only_docker(cls, value: str) -> str:
        if value != "docker":
            raise ValueError(
                f"runtime {value} has no fixed resource limits for each broker; comparisons need the docker runtime"
            )
        return value

    @property
    def on_clusters(self) -> bool:
        return bool(self.base.cluster)

    @model_validator(mode="after")
    def _sides_are_alike(self) -> Self:
        if self.on_clusters != bool(self.head.cluster):
            raise ValueError(
                "one side is a version, which gets a cluster of its own on this host, and the other a cluster of "
                "others; compare two versions or two clusters"
            )
        if self.on_clusters and self.view not in (None, "same_settings"):
            raise ValueError(f"view {self.view} sets brokers' timers, which only a cluster's owner does; leave it out")
        if self.on_clusters and any("cluster" in patch for patch in self._patches):
            raise ValueError("the changes have cluster: only a cluster's owner changes brokers; leave it out")
        return self

    @property
    def _patches(self) -> list[dict[str, Any]]:
        injected = [self.injected_slowdown.changes] if self.injected_slowdown else []
        return [self.changes, self.change, self.base.changes, self.head.changes, *injected]

    @model_validator(mode="after")
    def _no_fast_start_jvm(self) -> Self:
        for patch in self._patches:
            cluster = patch.get("cluster")
            if isinstance(cluster, Mapping) and cluster.get("jvm", "production") != "production":
                raise ValueError(
                    "the fast_start JVM flags are for scenarios about correctness; comparisons need jvm: production"
                )
        return self
