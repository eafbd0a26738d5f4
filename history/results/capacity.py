"""A capacity plan. Loads are MB/s (10^6 bytes), times seconds; None: unknown or unlimited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from history.results.base import Model, Summary
from history.results.cases import Case

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Recommended = Literal["right", "under", "over", "unknown"]


class Interval(Model):
    """An estimate with bounds; None if not finite."""

    estimate: float | None
    low: float | None
    high: float | None


class At(Interval):
    """An interval at a write load."""

    write_mb_per_s: float


class Question(Model):
    """The load and its targets (docs/capacity.md). MB are 10^6 bytes after compression.

    ``demand`` is a file of a cluster's metrics over ``demand_weeks``, ``demand_doubts`` are its gaps.
    """

    demand: str = ""
    demand_weeks: int = 0
    demand_doubts: tuple[str, ...] = ()
    write_mb_per_s: Positive
    brokers: int = Field(ge=2)
    replication_factor: int = Field(default=3, ge=2)
    partitions: int = Field(default=6, ge=1)
    consumer_groups: int = Field(default=1, ge=0)
    record_bytes: int = Field(default=1000, ge=64)
    compression: str = "none"
    compresses_to: float | None = None
    tls: bool = False
    target_p99_ms: Positive
    target_recovery_s: Positive
    downtime_s: Positive = 30.0
    burst: float = Field(default=1.0, ge=1)
    growth_per_month: tuple[float, float] = (0.0, 0.0)
    horizon_months: int = Field(default=6, ge=0)
    retention_hours: Positive = 24.0
    retention_gb: Positive | None = None
    disk_gb: Positive | None = None
    disk_mb_per_s: Positive | None = None
    old_reads_share: float = 0.0
    racks: Annotated[int, Field(ge=2)] | None = None


class Provenance(Model):
    """What was measured, when and where."""

    count: int
    planned: int
    missing: list[str]
    first: str | None
    last: str | None
    kafka: list[str]
    jvm: list[str]
    hosts: list[str]
    failed: list[str]
    unknown: list[str]


class LeftOut(Model):
    """An unusable measurement."""

    run_id: str
    phase: str
    why: str


class CurvePoint(Interval):
    """A load's mean p99 (ms)."""

    load: float
    runs: int


class StepOfRun(Model):
    """One run's p99; None: the load was missed."""

    load: float
    p99_ms: float | None
    run_id: str


class Knee(Model):
    """The largest load whose p99 meets the target."""

    load: Interval
    safe: float
    offered: float
    runs: int
    curve: list[CurvePoint]
    points: list[StepOfRun]


class Knees(Model):
    """The knees with all brokers, and one down."""

    knee: Knee | None
    degraded: Knee | None


class CatchUpPoint(Model):
    """A run with a broker down, censored if abandoned."""

    run_id: str
    role: str
    cold: bool
    write_mb_per_s: float
    load_mb_per_s: float
    asked_down_s: float
    down_s: float
    took_s: float
    censored: bool
    recovered_s: float | None
    predicted: Interval | None
    inside: bool | None


class CatchUpCurve(Model):
    """Predicted times by load, after one downtime."""

    down_s: float
    rows: list[At]


class CatchUp(Model):
    """Runs with a broker down, and their model."""

    points: list[CatchUpPoint]
    largest_load_mb_per_s: float
    rate: Interval | None
    shared: Interval | None
    start_s: Interval | None
    noise: float | None
    cold_rate: Interval | None
    fitted_runs: int
    censored_runs: int
    leadership_s: float
    balanced_runs: int
    curves: list[CatchUpCurve]


class ModelCheck(Model):
    """Held-out runs in their prediction interval."""

    inside: int
    of: int
    planned: int
    open: int
    width: float | None
    low: float
    high: float


class PartitionCost(Model):
    """Replicas' cost: a median, one run, or an interpolation."""

    partitions: float
    cpu_s_per_mb: float | None
    p99_ms: float | None
    recovery_s: float | None
    runs: int
    run_id: str = ""


class Partitions(Model):
    """The cost of partitions at one load; ``at_asked``: at the requested number, if measured."""

    write_mb_per_s: float
    down_s: float
    points: list[PartitionCost]
    curve: list[PartitionCost]
    asked: float
    at_asked: PartitionCost | None
    above: bool


class Disk(Model):
    """GB on each broker's disk.

    ``away_gb``: one broker down, replicas rebuilt; ``rack_gb``: a rack down; ``later_gb``: the larger at the horizon's
    end. Growth reaches ``full_mb_per_s``, which fills the disks with one broker down, between ``first`` and ``last``.
    """

    disk_gb: float | None
    retained_gb: float
    segments_gb: float
    away_gb: float
    rack_gb: float | None
    later_gb: float
    by_size: bool
    kept_hours: float
    full_mb_per_s: float | None
    first: str | None
    last: str | None

    @property
    def needed_gb(self) -> float:
        return max(self.away_gb, self.rack_gb or 0.0)


class Plan(Model):
    """The plan for the requested brokers.

    Up to a safe load a target is met, above a possible load missed.
    """

    peak_mb_per_s: float
    later_mb_per_s: float
    load_mb_per_s: float
    rate_mb_per_s: Interval
    safe_latency_mb_per_s: float
    safe_recovery_mb_per_s: float
    safe_mb_per_s: float
    possible_latency_mb_per_s: float | None = None
    possible_recovery_mb_per_s: float | None = None
    tried_mb_per_s: float
    target_catch_up_s: float
    catch_up_s: Interval
    cold_catch_up_s: Interval | None
    window_s: Interval
    longest_down_s: Interval
    headroom: float | None
    needed_headroom: float | None
    rebuild_s: float | None
    healthy_knee: Interval
    degraded_knee: Interval
    failure_factor: float
    rack_factor: float | None = None
    peer_spare_mb_per_s: float | None
    partitions_on_each: float
    disk: Disk


class Option(Model):
    """A considered number of brokers."""

    brokers: int
    safe_latency_mb_per_s: float
    safe_recovery_mb_per_s: float
    safe_mb_per_s: float
    catch_up_s: Interval
    longest_down_s: Interval
    partitions_on_each: float
    disk_gb: float
    chosen: bool
    why: str


class Demand(Model):
    """A broker's need of a resource; ``use``: share of its limit with one broker down."""

    resource: str
    words: str
    unit: str
    healthy: float
    degraded: float
    rack_away: float | None = None
    limit: float | None
    rule: str
    use: float | None
    measured_over_rule: float | None


class Bottleneck(Model):
    """The resource nearest to its limit, where the latency target is missed if ``reached``."""

    resource: str
    use: float | None
    write_mb_per_s: float
    reached: bool


class Reserve(Model):
    """A line of the headroom."""

    item: str
    amount: float
    left: float


class Throttle(Model):
    """Replication throttles."""

    progress: float | None
    target: float | None
    latency: float | None


class Exhaustion(Model):
    """When growth reaches the safe load."""

    limit: Interval
    first: str | None
    last: str | None


class Recommendation(Model):
    """``brokers`` suffice, ``at_least`` may; None: no number does."""

    verdict: Recommended
    at_least: int | None = None
    undecided: list[str] = Field(default_factory=list)
    brokers: int | None = None
    brokers_now: int | None = None
    confidence: str = ""
    doubts: list[str]


class PlanLine(Model):
    """A figure with its interval and source."""

    what: str
    value: str
    interval: str
    source: str


class Spoken(Model):
    """The plan in sentences."""

    model_check: str = ""
    recommendation: str = ""
    bottleneck: str = ""
    exhaustion: str = ""
    throttle: str = ""
    disk: str = ""
    partitions: str = ""


class CapacityResult(Summary):
    """``plan`` exists once enough was measured."""

    kind: Literal["capacity"] = "capacity"
    settings: dict[str, Any]
    question: Question
    resource_limits: dict[str, float | None]
    kafka: str
    runs: Provenance
    left_out: list[LeftOut]
    knees: Knees
    catch_up: CatchUp
    model_check: ModelCheck
    missing: list[str]
    partitions: Partitions | None = None
    plan: Plan | None = None
    options: list[Option] = Field(default_factory=list)
    demands: list[Demand] = Field(default_factory=list)
    bottleneck: Bottleneck | None = None
    ledger: list[Reserve] = Field(default_factory=list)
    throttle: Throttle | None = None
    longest_down: list[At] = Field(default_factory=list)
    exhaustion: Exhaustion | None = None
    recommendation: Recommendation
    unsure: list[str]
    words: Spoken = Spoken()
    plan_table: list[PlanLine] = Field(default_factory=list)
    limits: list[str] = Field(default_factory=list)

    def cases(self) -> Sequence[Case]:
        open_questions = [*self.missing, *self.recommendation.undecided, *self.unsure]
        return [Case("capacity", sentence, "unknown", sentence) for sentence in open_questions]
