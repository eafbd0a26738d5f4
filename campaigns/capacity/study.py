"""A capacity campaign's knees and checked catch-up model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from campaigns.campaign import Campaign, Row
from campaigns.compare.runs import Run as JudgedRun
from campaigns.compare.runs import runs_by
from campaigns.statistics import capacity, catch_up
from campaigns.statistics.capacity import Knee, Measured, Step
from campaigns.statistics.catch_up import CatchUp, Interval, Point, as_json
from campaigns.statistics.intervals import clopper_pearson
from history.errors import BadInput
from history.results.capacity import PartitionCost
from judge.measures.recovery import AT_MOST, NOT_SEEN

MIN_ACHIEVED = 0.995
MIN_WRITTEN = 0.9  # a failover costs only seconds of records
CURVE_POINTS = 16
MEASURED_GROUPS = 1  # the load's own consumer
AWAY_PHASE = "away and back"
STEADY_PHASE = "steady"  # of partition-cost runs


def phase_of(role: str, write_mb_per_s: float) -> str:
    """Name a load step's phase, for both plan and result."""
    return f"{write_mb_per_s:g} MB/s" + (", one away" if role == "degraded" else "")


class CaughtUp(NamedTuple):
    """A run with a broker away; ``cold``: its backlog was outside the page cache."""

    point: Point
    write: float
    asked_down_s: float
    role: str
    recovered_s: float | None
    cold: bool
    asked_write: float


class Run(JudgedRun):
    """A judged run of load steps or of a catch-up."""

    @property
    def role(self) -> str:
        return str(self.about["labels"].get("role", ""))

    @property
    def broken(self) -> str | None:
        """Exclude runs that violated a guarantee: they are neither slow nor fast."""
        return f"its verdict is fail: {self.about['sentence']}" if self.about["verdict"] == "fail" else None

    def found(self, metric: str, phase: str) -> Row | None:
        row = self.measured.get((metric, phase))
        return row if row and row["value"] is not None else None

    def of(self, metric: str) -> Iterator[Row]:
        return (row for (name, _), row in self.measured.items() if name == metric and row["value"] is not None)


def runs_of(campaign: Campaign, rows: Iterable[Row]) -> list[Run]:
    """Return the campaign's runs in starting order."""
    found = runs_by(lambda row: str(row["run_id"]), campaign.own(rows), Run)
    return sorted(found.values(), key=lambda run: run.started_at)


class Study:
    """Measured steps and catch-up runs, and the fitted model."""

    def __init__(self, campaign: Campaign, runs: Sequence[Run]) -> None:
        self.campaign = campaign
        self.runs = runs
        self.question: Mapping[str, Any] = campaign.settings["question"]
        self.measurement: Mapping[str, Any] = campaign.settings["measurement"]
        self.brokers: int = self.question["replication_factor"]  # of the measured cluster
        self.missing: list[str] = []
        self.left_out: list[dict[str, str]] = []
        self.steps = {role: list(self._steps(role)) for role in ("knee", "degraded")}
        self.caught_up = list(self._caught_up())
        self.knees = {role: self._knee(role) for role in self.steps}
        self.fitted = self._fitted(cold=False)
        self.fitted_cold = self._fitted(cold=True) if any(run.cold for run in self.caught_up) else None
        self.costs = list(self._costs())

    @cached_property
    def measured(self) -> Measured | None:
        healthy, degraded = self.knees["knee"], self.knees["degraded"]
        if healthy is None or degraded is None or self.fitted is None or min(healthy.runs, degraded.runs) < 2:
            return None
        copies = self.question["replication_factor"]
        return Measured(self.brokers, copies, healthy, degraded, self.fitted, self.tried)

    # --- load steps ---

    def _steps(self, role: str) -> Iterator[Step]:
        loads = self.measurement["load_steps" if role == "knee" else "degraded_steps"] or self.measurement["load_steps"]
        for run in self.runs:
            if run.role != role:
                continue
            if run.broken:
                self._leave_out(run, "", run.broken)
                continue
            for load in sorted(loads):
                if (step := self._step(run, phase_of(role, load), load)) is not None:
                    yield step

    def _step(self, run: Run, phase: str, load: float) -> Step | None:
        achieved, p99 = run.found("achieved_ratio", phase), run.found("latency_p99_ms", phase)
        if achieved is None:
            self._leave_out(run, phase, "the phase was not recorded")
        elif not achieved["trusted"]:
            self._leave_out(run, phase, achieved["note"])
        elif achieved["value"] < MIN_ACHIEVED:
            return Step(load, math.inf, run.run_id)
        elif p99 is None or not p99["trusted"]:
            self._leave_out(run, phase, p99["note"] if p99 else "nothing was acknowledged")
        else:
            return Step(load, float(p99["value"]), run.run_id)
        return None

    def _leave_out(self, run: Run, phase: str, why: str | None) -> None:
        self.left_out.append({"run_id": run.run_id, "phase": phase, "why": why or "it is not trusted"})

    def _knee(self, role: str) -> Knee | None:
        state = "healthy" if role == "knee" else "degraded"
        try:
            found = capacity.knee(self.steps[role], self.question["target_p99_ms"])
        except BadInput:
            self.missing.append(f"No {state} load step can be used.")
            return None
        if found.runs < 2:
            self.missing.append(
                f"A {state} load step has one usable run, which has no interval; it takes two at least."
            )
        return found

    # --- catching up ---

    def _caught_up(self) -> Iterator[CaughtUp]:
        for run in self.runs:
            if run.role not in {"catch_up", "held_out"}:
                continue
            row = run.found("catch_up_s", AWAY_PHASE) or self._given_up(run)
            why = run.broken or (None if row else "no catch-up was seen to begin")
            if row is not None and not self._is_usable(row):
                why = why or row["note"]
            if (written := _written(run)) < MIN_WRITTEN:
                why = why or f"{100 * written:.0f} % of the load was written, so the load is not known"
            if why or row is None:
                self._leave_out(run, AWAY_PHASE, why)
                continue
            yield self._point(run, row)

    def _given_up(self, run: Run) -> Row | None:
        """Return a time on a cluster of others that had not ended at the limit of the wait."""
        row = run.measured.get(("catch_up_s", AWAY_PHASE))
        if row is None or not self.measurement.get("cluster") or not str(row["note"]).startswith((AT_MOST, NOT_SEEN)):
            return None
        return {**row, "value": self.measurement["give_up_s"], "censored": True, "trusted": True}

    def _is_usable(self, row: Row) -> bool:
        """Return whether a time may be used: on a cluster of others, an upper bound, too."""
        on_others = bool(self.measurement.get("cluster"))
        return bool(row["trusted"] or (on_others and str(row["note"]).startswith(AT_MOST)))

    def _point(self, run: Run, row: Row) -> CaughtUp:
        write = float(run.about["labels"]["write_mb_per_s"]) * _written(run)
        load = capacity.load_of_a_broker(write, self.question["replication_factor"], self.brokers)
        down = run.found("down_s", AWAY_PHASE)  # includes kill command, verification and hold
        down_s = float(down["value"]) if down else float(run.about["labels"]["down_s"])
        balanced = run.found("rebalanced_s", AWAY_PHASE)
        recovered = None if balanced is None or balanced["censored"] else max(balanced["value"], row["value"])
        point = Point(load, down_s, float(row["value"]), bool(row["censored"]), run.run_id)
        labels = run.about["labels"]
        asked_s = float(labels["down_s"])
        cold = labels.get("backlog") == "cold"
        return CaughtUp(point, write, asked_s, run.role, recovered, cold, float(labels["write_mb_per_s"]))

    def _fitted(self, *, cold: bool) -> CatchUp | None:
        """Fit page cache and disk separately: they differ in rate."""
        try:
            points = [run.point for run in self.caught_up if run.role == "catch_up" and run.cold == cold]
            return catch_up.fit(points, self.most_shared)
        except BadInput as error:
            self.missing.append(f"Cold: {error}" if cold else str(error))
            return None

    @property
    def most_shared(self) -> float:
        """Return the most that a MB/s of load takes from catch-up: what peers send of it."""
        return float(MEASURED_GROUPS + self.question["replication_factor"] - 1)

    @property
    def largest_load(self) -> float:
        return max((run.point.load for run in self.caught_up if run.role == "catch_up"), default=0.0)

    @property
    def tried(self) -> float:
        """Return the largest offered load into a broker with a warm catch-up."""
        warm = (run.asked_write for run in self.caught_up if not run.cold)
        copies = self.question["replication_factor"]
        return capacity.load_of_a_broker(max(warm, default=0.0), copies, self.brokers)

    def _predicted(self, run: CaughtUp) -> Interval | None:
        fitted = self.fitted_cold if run.cold else self.fitted
        return fitted.predict(run.point.load, run.point.down_s) if fitted else None

    @property
    def leadership_s(self) -> float:
        """Return the longest time from full ISR to balanced leadership; 0 if never observed."""
        later = [run.recovered_s - run.point.took_s for run in self.caught_up if run.recovered_s is not None]
        return max(later, default=0.0)

    @property
    def least_leadership_s(self) -> float:
        later = [run.recovered_s - run.point.took_s for run in self.caught_up if run.recovered_s is not None]
        return min(later, default=0.0)

    # --- partitions ---

    def _costs(self) -> Iterator[PartitionCost]:
        for run in self.runs:
            if run.role != "partitions":
                continue
            cpu_s = self._trusted(run, "broker_cpu_s_per_gb", STEADY_PHASE)
            p99_ms = self._trusted(run, "latency_p99_ms", STEADY_PHASE)
            recovery_s = self._trusted(run, "catch_up_s", AWAY_PHASE)
            if run.broken or (cpu_s, p99_ms, recovery_s) == (None, None, None):
                self._leave_out(run, STEADY_PHASE, run.broken or "it has no usable cost of partitions")
                continue
            count = int(run.about["labels"]["partitions"])
            yield PartitionCost(
                partitions=count,
                cpu_s_per_mb=None if cpu_s is None else cpu_s / 1000,
                p99_ms=p99_ms,
                recovery_s=recovery_s,
                runs=1,
                run_id=run.run_id,
            )

    def _trusted(self, run: Run, metric: str, phase: str) -> float | None:
        """Return an exact value, or list why there is none."""
        row = run.found(metric, phase)
        if row is None:
            return None
        if row["censored"] or not self._is_usable(row):
            self._leave_out(run, phase, row["note"] or f"{metric} was given up at {row['value']:g}")
            return None
        return float(row["value"])

    @property
    def partitions_asked(self) -> float:
        question = self.question
        return float(question["partitions"] * question["replication_factor"] / question["brokers"])

    def partitions_as_json(self) -> dict[str, Any] | None:
        counts: Sequence[int] = self.measurement.get("partitions") or []
        if not counts:
            return None
        curve = capacity.partition_curve(self.costs)
        found = capacity.partition_cost_at(self.partitions_asked, curve)
        return {
            "write_mb_per_s": min(self.measurement["load_steps"]),
            "down_s": min(self.measurement["grid"]["down_s"]),
            "points": self.costs,
            "curve": curve,
            "asked": self.partitions_asked,
            "at_asked": found,
            "above": self.partitions_asked > max(counts),
        }

    @property
    def others(self) -> tuple[float, float] | None:
        """Return the least and the most records per second that others wrote in a phase, if known."""
        found = [float(row["value"]) for run in self.runs for row in run.of("others_per_s")]
        return (min(found), max(found)) if found else None

    # --- as JSON ---

    def provenance(self) -> dict[str, Any]:
        abouts = [run.about for run in self.runs]
        recorded = {about["labels"]["item"] for about in abouts}
        return {
            "count": len(self.runs),
            "planned": len(self.campaign.items),
            "missing": [item.name for item in self.campaign.items if item.name not in recorded],
            "first": min((str(about["started_at"]) for about in abouts), default=None),
            "last": max((str(about["started_at"]) for about in abouts), default=None),
            "kafka": sorted({place_of(about) for about in abouts}),
            "jvm": sorted({str(about["jvm"]) for about in abouts}),
            "hosts": sorted({str(about["host"]) for about in abouts}),
            "failed": [run.run_id for run in self.runs if run.broken],
            "unknown": [run.run_id for run in self.runs if run.about["verdict"] == "unknown"],
        }

    def knee_as_json(self, role: str) -> dict[str, Any] | None:
        found = self.knees[role]
        if found is None:
            return None
        return {
            "load": as_json(found.load),
            "safe": found.safe,
            "offered": found.offered,
            "runs": found.runs,
            "curve": [{name: finite(value) for name, value in row.items()} for row in found.curve],
            "points": [{**step._asdict(), "p99_ms": finite(step.p99_ms)} for step in self.steps[role]],
        }

    def catch_up_as_json(self) -> dict[str, Any]:
        fitted = self.fitted
        return {
            "points": [self._point_as_json(run) for run in self.caught_up],
            "largest_load_mb_per_s": self.largest_load,
            "rate": as_json(fitted.rate(self.largest_load)) if fitted else None,
            "shared": as_json(fitted.shared_with()) if fitted else None,
            "start_s": as_json(fitted.start()) if fitted else None,
            "noise": fitted.noise() if fitted else None,
            "cold_rate": as_json(self.fitted_cold.rate(self.largest_load)) if self.fitted_cold else None,
            "fitted_runs": fitted.runs if fitted else 0,
            "censored_runs": fitted.censored if fitted else 0,
            "leadership_s": self.leadership_s,
            "balanced_runs": sum(run.recovered_s is not None for run in self.caught_up),
            "curves": list(self._curves(fitted)) if fitted else [],
        }

    def _point_as_json(self, run: CaughtUp) -> dict[str, Any]:
        predicted = self._predicted(run)
        return {
            "run_id": run.point.run_id,
            "role": run.role,
            "cold": run.cold,
            "write_mb_per_s": run.write,
            "load_mb_per_s": run.point.load,
            "asked_down_s": run.asked_down_s,
            "down_s": run.point.down_s,
            "took_s": run.point.took_s,
            "censored": run.point.censored,
            "recovered_s": run.recovered_s,
            "predicted": as_json(predicted) if predicted else None,
            "inside": _inside(run.point, predicted) if predicted else None,
        }

    def _curves(self, fitted: CatchUp) -> Iterator[dict[str, Any]]:
        to_write = self.brokers / self.question["replication_factor"]
        loads = [run.point.load for run in self.caught_up]
        for down_s in sorted({run.asked_down_s for run in self.caught_up if not run.cold}):
            rows = [
                {"write_mb_per_s": float(load) * to_write, **as_json(fitted.predict(float(load), down_s))}
                for load in np.linspace(min(loads), 1.05 * max(loads), CURVE_POINTS)
            ]
            yield {"down_s": down_s, "rows": rows}

    def model_check(self) -> dict[str, Any]:
        """Count held-out runs inside their prediction interval; a censored one is, if T may be longer.

        Without an upper end, none is. ``width`` is the other intervals' median ratio of ends.
        """
        held_out = [(run.point, self._predicted(run)) for run in self.caught_up if run.role == "held_out"]
        judged = [(point, predicted) for point, predicted in held_out if predicted is not None]
        closed = [(point, predicted) for point, predicted in judged if math.isfinite(predicted.high)]
        inside = sum(_inside(point, predicted) for point, predicted in closed)
        low, high = clopper_pearson(inside, len(judged))
        return {
            "inside": inside,
            "of": len(judged),
            "planned": len(self.measurement["held_out"]),
            "open": len(judged) - len(closed),
            "width": finite(median(predicted.high / predicted.low for _, predicted in closed)) if closed else None,
            "low": low,
            "high": high,
        }


def place_of(about: Row) -> str:
    """Name what a run was on."""
    return f"cluster {about['cluster']}" if about.get("cluster") else f"Kafka {about['kafka_version']}"


def _written(run: Run) -> float:
    offered, acked = run.found("offered_per_s", AWAY_PHASE), run.found("acked_per_s", AWAY_PHASE)
    return min(1.0, float(acked["value"] / offered["value"])) if offered and acked else 1.0


def _inside(point: Point, predicted: Interval) -> bool:
    if point.censored:
        return predicted.high > point.took_s
    return predicted.low <= point.took_s <= predicted.high


def finite(value: float) -> float | None:
    """Return None for infinity, which JSON lacks."""
    return value if math.isfinite(value) else None
