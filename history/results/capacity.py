"""A capacity plan: what was measured, what follows, and both in words.

Loads and rates are MB/s (10^6 bytes), times are in seconds unless a name says ms; None is "not known" or "no end".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from history.results.base import Model, Summary
from history.results.cases import Case

Recommended = Literal["right", "under", "over", "unknown"]


class Interval(Model):
    """An estimate with its bounds; None where it is not finite."""

    estimate: float | None
    low: float | None
    high: float | None


class At(Interval):
    """The interval at a write load."""

    write_mb_per_s: float


class Question(Model):
    """What is to be carried, and how well. ``burst`` is the peak over the mean, growth a share from low to high;
    ``demand`` names the file that they come from, of so many whole weeks; its doubts say what the file lacks.
    """

    demand: str = ""
    demand_weeks: int = 0
    demand_doubts: list[str] = Field(default_factory=list)
    write_mb_per_s: float
    brokers: int
    replication_factor: int
    partitions: int
    consumer_groups: int
    record_bytes: int
    compression: str
    compresses_to: float | None = None
    tls: bool
    target_p99_ms: float
    target_recovery_s: float
    downtime_s: float
    burst: float
    growth_per_month: tuple[float, float]
    horizon_months: int
    retention_hours: float
    retention_gb: float | None = None
    disk_gb: float | None = None
    disk_mb_per_s: float | None = None
    old_reads_share: float = 0.0
    racks: int | None = None


class Provenance(Model):
    """What was measured when, where and with what."""

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
    """A measurement that cannot be used, and why."""

    run_id: str
    phase: str
    why: str


class CurvePoint(Interval):
    """The mean p99 (ms) of a load over so many runs, with its interval."""

    load: float
    runs: int


class StepOfRun(Model):
    """The p99 of one run at one load; None where the load was missed."""

    load: float
    p99_ms: float | None
    run_id: str


class Knee(Model):
    """The largest offered load whose p99 stays within the target; ``offered`` is the largest load that was tried."""

    load: Interval
    safe: float
    offered: float
    runs: int
    curve: list[CurvePoint]
    points: list[StepOfRun]


class Knees(Model):
    """With all brokers, and with one of them away."""

    knee: Knee | None
    degraded: Knee | None


class CatchUpPoint(Model):
    """A run with a broker away. One that was given up is censored: it takes at least ``took_s``."""

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
    """Predicted times over the load, after one downtime."""

    down_s: float
    rows: list[At]


class CatchUp(Model):
    """The runs with a broker away, and the model that was fitted on them."""

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
    """How many held-out runs lie inside their prediction interval, and that rate's interval at 95 %."""

    inside: int
    of: int
    planned: int
    open: int
    width: float | None
    low: float
    high: float


class PartitionCost(Model):
    """What so many replicas on each broker cost: the median of some runs, one of them (then it is named), or a value
    between two such. None where no run tells.
    """

    partitions: float
    cpu_s_per_mb: float | None
    p99_ms: float | None
    recovery_s: float | None
    runs: int
    run_id: str = ""


class Partitions(Model):
    """The cost of partitions at one load, and at the question's number of them on a broker (``asked``).

    ``above``: the question has more than were run; ``at_asked`` is None there, and below the fewest.
    """

    write_mb_per_s: float
    down_s: float
    points: list[PartitionCost]
    curve: list[PartitionCost]
    asked: float
    at_asked: PartitionCost | None
    above: bool


# --- what follows --------------------------------------------------------------------------------


class Disk(Model):
    """GB on the disk of each broker. ``away_gb`` is with another one away whose replicas were made again, ``rack_gb``
    with a whole rack away (None: no racks), ``later_gb`` the larger of both at the end of the horizon, ``kept_hours``
    what retention keeps.

    ``by_size``: retention by size decides; ``full_mb_per_s`` is the mean load that fills the disks with one away, and
    ``first`` and ``last`` are the days between which growth reaches it. What needs ``disk_gb`` is None without it.
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
        """Today, with whatever may be away."""
        return max(self.away_gb, self.rack_gb or 0.0)


class Plan(Model):
    """The figures of the plan for the brokers that the question names.

    Up to a safe load the runs say that a target is met, above a possible one that it is missed (None: no such load was
    seen), and between them nothing.
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
    """A number of brokers that was considered."""

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
    """What each broker needs of a resource; ``use`` is the share of its limit with another one away."""

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
    """The resource nearest to its limit, at the load at which latency leaves its target if that was ``reached``."""

    resource: str
    use: float | None
    write_mb_per_s: float
    reached: bool


class Reserve(Model):
    """A line of the headroom: what it takes, and what is left after it."""

    item: str
    amount: float
    left: float


class Throttle(Model):
    """Bounds of the replication throttle: for any progress, for the target recovery, for the target latency."""

    progress: float | None
    target: float | None
    latency: float | None


class Exhaustion(Model):
    """The days between which growth uses up what is safe."""

    limit: Interval
    first: str | None
    last: str | None


class Recommendation(Model):
    """How many brokers, and what keeps the confidence down. ``brokers`` are enough for sure; None: no number is.

    ``at_least`` brokers may be enough; None: both targets are missed with any number. ``undecided`` says what the runs
    leave open about the brokers of the question, and what would decide it.
    """

    verdict: Recommended
    at_least: int | None = None
    undecided: list[str] = Field(default_factory=list)
    brokers: int | None = None
    brokers_now: int | None = None
    confidence: str = ""
    doubts: list[str]


class PlanLine(Model):
    """A figure of the plan with its interval, and what it was taken from."""

    what: str
    value: str
    interval: str
    source: str


class Spoken(Model):
    """The plan in sentences; empty where nothing follows."""

    model_check: str = ""
    recommendation: str = ""
    bottleneck: str = ""
    exhaustion: str = ""
    throttle: str = ""
    disk: str = ""
    partitions: str = ""


class CapacityResult(Summary):
    """``plan`` and what belongs to it is there once enough was measured; ``missing`` says what was not."""

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
        """A case for each thing that keeps the plan from being known."""
        open_questions = [*self.missing, *self.recommendation.undecided, *self.unsure]
        return [Case("capacity", sentence, "unknown", sentence) for sentence in open_questions]
