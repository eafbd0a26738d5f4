"""What a capacity campaign's runs say: knees, the catch-up model and its check, and the plan that they support."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from campaigns import capacity_words as words
from campaigns.campaign import Campaign
from history.errors import BadInput
from spark import capacity
from spark.capacity import CatchUp, Interval, Knee, Measured, Point, Step, as_json
from spark.intervals import clopper_pearson

LEAST_ACHIEVED = 0.995
LEAST_WRITTEN = 0.9  # a failover costs a killed leader's records some seconds, and no more
CURVE_POINTS = 16
MEASURED_GROUPS = 1  # the load's own consumer
AWAY_PHASE = "away and back"
STATES = {"right": "pass", "over": "pass", "under": "fail", "unknown": "unknown"}
NOTHING_FOLLOWS: dict[str, Any] = {"plan": None, "recommendation": {"verdict": "unknown", "doubts": []}}
MB = 1e6
Row = Mapping[str, Any]


def phase_of(role: str, write_mb_per_s: float) -> str:
    """The phase of a load step; the campaign's plan and its result must agree on it."""
    return f"{write_mb_per_s:g} MB/s" + (", one away" if role == "degraded" else "")


class CaughtUp(NamedTuple):
    """A run with a broker away, and after how long leadership was balanced again, if that was seen.

    ``cold``: what it missed had left the page cache of its peers.
    """

    point: Point
    write: float
    asked_down_s: float
    role: str
    recovered_s: float | None
    cold: bool


@dataclass(frozen=True)
class Run:
    """A judged run of the campaign: its labels and its rows by metric and phase."""

    about: Row
    rows: Mapping[tuple[str, str], Row]

    @property
    def run_id(self) -> str:
        return str(self.about["run_id"])

    @property
    def role(self) -> str:
        return str(self.about["labels"].get("role", ""))

    @property
    def broken(self) -> str | None:
        """A run that broke a promise is neither slow nor fast."""
        return f"its verdict is fail: {self.about['sentence']}" if self.about["verdict"] == "fail" else None

    def found(self, metric: str, phase: str) -> Row | None:
        row = self.rows.get((metric, phase))
        return row if row and row["value"] is not None else None

    def of(self, metric: str) -> Iterator[Row]:
        """Every phase that has the metric."""
        return (row for (name, _), row in self.rows.items() if name == metric and row["value"] is not None)


def result(campaign: Campaign, rows: Sequence[Row]) -> dict[str, Any]:
    """Everything that the page and a machine need; null where something is unknown, and ``missing`` says why."""
    study = Study(campaign, runs_of(campaign, rows))
    told: dict[str, Any] = {
        "campaign_id": campaign.campaign_id,
        "created_at": campaign.created_at,
        "settings": campaign.settings,
        "runs": study.provenance(),
        "left_out": study.left_out,
        "knees": {role: study.knee_as_json(role) for role in ("knee", "degraded")},
        "catch_up": study.catch_up_as_json(),
        "model_check": study.model_check(),
        "missing": study.missing,
    }
    told |= Plan(study, study.measured).as_json() if study.measured else NOTHING_FOLLOWS
    state = STATES[told["recommendation"]["verdict"]]
    return {"sentence": words.sentence(told), "state": state, **told, **words.told(told)}


def runs_of(campaign: Campaign, rows: Iterable[Row]) -> list[Run]:
    """The campaign's runs in the order in which they were started."""
    by_run: dict[str, list[Row]] = {}
    for row in rows:
        if row["labels"].get("campaign") == campaign.campaign_id:
            by_run.setdefault(row["run_id"], []).append(row)
    found = [Run(own[0], {(row["metric"], row["phase"]): row for row in own}) for own in by_run.values()]
    return sorted(found, key=lambda run: str(run.about["started_at"]))


# --- what was measured -----------------------------------------------------------------------------


class Study:
    """The campaign's measurements: steps, catch-up runs, and the model that they determine."""

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

    @cached_property
    def measured(self) -> Measured | None:
        healthy, degraded = self.knees["knee"], self.knees["degraded"]
        if healthy is None or degraded is None or self.fitted is None or min(healthy.runs, degraded.runs) < 2:
            return None
        return Measured(self.brokers, self.question["replication_factor"], healthy, degraded, self.fitted)

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
        """What a run says of one load; None where it says nothing, which is then listed with its reason."""
        achieved, p99 = run.found("achieved_ratio", phase), run.found("latency_p99_ms", phase)
        if achieved is None:
            self._leave_out(run, phase, "the phase was not recorded")
        elif not achieved["trusted"]:
            self._leave_out(run, phase, achieved["note"])
        elif achieved["value"] < LEAST_ACHIEVED:
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
            row = next((row for row in run.of("catch_up_s") if row["phase"] == AWAY_PHASE), None)
            why = run.broken or (None if row else "no catch-up was seen to begin")
            if row is not None and not row["trusted"]:
                why = why or row["note"]
            if (written := _written(run)) < LEAST_WRITTEN:
                why = why or f"{100 * written:.0f} % of the load was written, so the load is not known"
            if why or row is None:
                self._leave_out(run, AWAY_PHASE, why)
                continue
            yield self._point(run, row)

    def _point(self, run: Run, row: Row) -> CaughtUp:
        write = float(run.about["labels"]["write_mb_per_s"]) * _written(run)
        load = capacity.load_of_a_broker(write, self.question["replication_factor"], self.brokers)
        down = run.found("down_s", AWAY_PHASE)  # the order to kill, its proof and the hold; about what was asked for
        down_s = float(down["value"]) if down else float(run.about["labels"]["down_s"])
        balanced = run.found("rebalanced_s", AWAY_PHASE)
        recovered = None if balanced is None or balanced["censored"] else max(balanced["value"], row["value"])
        point = Point(load, down_s, float(row["value"]), bool(row["censored"]), run.run_id)
        labels = run.about["labels"]
        asked_s = float(labels["down_s"])
        return CaughtUp(point, write, asked_s, run.role, recovered, labels.get("backlog") == "cold")

    def _fitted(self, *, cold: bool) -> CatchUp | None:
        """Two fits, for reads from the page cache and from the disk are two rates."""
        try:
            points = [run.point for run in self.caught_up if run.role == "catch_up" and run.cold == cold]
            return capacity.fit(points, self.most_shared)
        except BadInput as error:
            self.missing.append(f"Cold: {error}" if cold else str(error))
            return None

    @property
    def most_shared(self) -> float:
        """What a MB/s of load takes from catching up at most: as much as peers send of it, to the group as well."""
        return float(MEASURED_GROUPS + self.question["replication_factor"] - 1)

    @property
    def largest_load(self) -> float:
        """Into one broker, of the runs that the model is fitted on."""
        return max((run.point.load for run in self.caught_up if run.role == "catch_up"), default=0.0)

    def _predicted(self, run: CaughtUp) -> Interval | None:
        fitted = self.fitted_cold if run.cold else self.fitted
        return fitted.predict(run.point.load, run.point.down_s) if fitted else None

    @property
    def leadership_s(self) -> float:
        """The longest time that leadership took to be balanced after the ISR was full; 0 where it was never seen."""
        later = [run.recovered_s - run.point.took_s for run in self.caught_up if run.recovered_s is not None]
        return max(later, default=0.0)

    # --- as JSON ---

    def provenance(self) -> dict[str, Any]:
        """What was measured when, where and with what."""
        abouts = [run.about for run in self.runs]
        return {
            "count": len(self.runs),
            "planned": len(self.campaign.items),
            "first": min((str(about["started_at"]) for about in abouts), default=None),
            "last": max((str(about["started_at"]) for about in abouts), default=None),
            "kafka": sorted({str(about["kafka_version"]) for about in abouts}),
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
        """Predicted T over the load for each downtime that was measured."""
        to_write = self.brokers / self.question["replication_factor"]
        loads = [run.point.load for run in self.caught_up]
        for down_s in sorted({run.asked_down_s for run in self.caught_up if not run.cold}):
            rows = [
                {"write_mb_per_s": float(load) * to_write, **as_json(fitted.predict(float(load), down_s))}
                for load in np.linspace(min(loads), 1.05 * max(loads), CURVE_POINTS)
            ]
            yield {"down_s": down_s, "rows": rows}

    def model_check(self) -> dict[str, Any]:
        """Held-out runs inside their own prediction interval; one that was given up is inside if T may be longer."""
        held_out = [(run.point, self._predicted(run)) for run in self.caught_up if run.role == "held_out"]
        judged = [_inside(point, predicted) for point, predicted in held_out if predicted is not None]
        inside = sum(judged)
        low, high = clopper_pearson(inside, len(judged))
        planned = len(self.measurement["held_out"])
        return {"inside": inside, "of": len(judged), "planned": planned, "low": low, "high": high}


def _written(run: Run) -> float:
    """The share of the load that was acknowledged while a broker was away and back."""
    row = run.found("achieved_ratio", AWAY_PHASE)
    return min(1.0, float(row["value"])) if row else 1.0


def _inside(point: Point, predicted: Interval) -> bool:
    if point.censored:
        return predicted.high > point.took_s
    return predicted.low <= point.took_s <= predicted.high


def finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


# --- what follows ----------------------------------------------------------------------------------


class Plan:
    """The answer to the question, for the brokers that it names and for their alternatives."""

    def __init__(self, study: Study, measured: Measured) -> None:
        question = study.question
        self.study = study
        self.measured = measured
        self.question = question
        self.have: int = question["brokers"]
        self.today: float = question["write_mb_per_s"]
        self.peak = self.today * question["burst"]
        self.later = self.peak * (1 + question["growth_per_month"][1]) ** question["horizon_months"]
        self.down_s: float = question["downtime_s"]
        # The ISR must be full early enough for leadership to be balanced within the target, too.
        self.target_s = question["target_recovery_s"] - study.leadership_s
        self.needed_now = self._needed(self.peak)
        self.needed_later = self._needed(self.later)

    def _needed(self, write: float) -> int | None:
        return self.measured.brokers_for(write, self.down_s, self.target_s) if self.target_s > 0 else None

    def as_json(self) -> dict[str, Any]:
        fitted, load = self.measured.catch_up, self._load(self.peak, self.have)
        rate = fitted.rate(load)
        return {
            "plan": {
                "peak_mb_per_s": self.peak,
                "later_mb_per_s": self.later,
                "load_mb_per_s": load,
                "rate_mb_per_s": as_json(rate),
                "safe_latency_mb_per_s": self.measured.safe_latency_load(self.have),
                "safe_recovery_mb_per_s": self._safe_recovery(self.have),
                "safe_mb_per_s": self._safe(self.have),
                "target_catch_up_s": self.target_s,
                "catch_up_s": as_json(fitted.predict(load, self.down_s)),
                "cold_catch_up_s": self._cold(load),
                "window_s": as_json(Interval(*(self.down_s + took for took in fitted.predict(load, self.down_s)))),
                "longest_down_s": as_json(self._longest(self.have)),
                "headroom": finite(rate.estimate / load),
                "needed_headroom": finite(
                    capacity.needed_headroom(self.down_s, max(self.target_s, 0), fitted.start().estimate)
                ),
                "rebuild_s": finite(capacity.rebuild_s(self._stored_mb(load), load, rate.estimate)),
                "healthy_knee": as_json(self.measured.healthy_knee(self.have)),
                "degraded_knee": as_json(self.measured.degraded_knee(self.have)),
                "failure_factor": self.have / (self.have - 1),
                "peer_spare_mb_per_s": finite(max(rate.estimate - load, 0.0) / (self.have - 1)),
            },
            "options": [self._option(brokers) for brokers in self._considered()],
            "demands": self._demands(self.peak),
            "bottleneck": self._bottleneck(),
            "ledger": [line._asdict() for line in self._ledger()],
            "throttle": {name: finite(value) for name, value in self._throttle()._asdict().items()},
            "longest_down": list(self._longest_downs()),
            "exhaustion": self._exhaustion(),
            "recommendation": self._recommendation(),
        }

    def _load(self, write: float, brokers: int) -> float:
        return capacity.load_of_a_broker(write, self.question["replication_factor"], brokers)

    def _stored_mb(self, load: float) -> float:
        return load * 3600 * float(self.question["retention_hours"])

    def _cold(self, load: float) -> dict[str, Any] | None:
        fitted = self.study.fitted_cold
        return as_json(fitted.predict(load, self.down_s)) if fitted else None

    def _longest(self, brokers: int, write: float | None = None) -> Interval:
        if self.target_s <= 0:
            return Interval(0.0, 0.0, 0.0)
        load = self._load(self.peak if write is None else write, brokers)
        return self.measured.catch_up.longest_down_s(load, self.target_s)

    def _safe_recovery(self, brokers: int) -> float:
        if self.target_s <= 0:
            return 0.0
        return self.measured.safe_recovery_load(brokers, self.down_s, self.target_s)

    def _safe(self, brokers: int) -> float:
        return min(self.measured.safe_latency_load(brokers), self._safe_recovery(brokers))

    # --- alternatives ---

    def _considered(self) -> list[int]:
        least = max(self.question["replication_factor"], 2)
        named = {self.have, *(count for count in (self.needed_now, self.needed_later) if count)}
        around = {count + step for count in named for step in (-1, 0, 1)}
        return sorted(count for count in around if count >= least)

    def _option(self, brokers: int) -> dict[str, Any]:
        safe = self._safe(brokers)
        predicted = self.measured.catch_up.predict(self._load(self.peak, brokers), self.down_s)
        return {
            "brokers": brokers,
            "safe_latency_mb_per_s": self.measured.safe_latency_load(brokers),
            "safe_recovery_mb_per_s": self._safe_recovery(brokers),
            "safe_mb_per_s": safe,
            "catch_up_s": as_json(predicted),
            "longest_down_s": as_json(self._longest(brokers)),
            "chosen": brokers == self.needed_later,
            "why": self._why(brokers, safe),
        }

    def _why(self, brokers: int, safe: float) -> str:
        if brokers == self.needed_later:
            return "the fewest that carry the load at the end of the horizon"
        if safe >= self.later:
            return "more than the load at the end of the horizon asks for"
        what = "recovery" if self._safe_recovery(brokers) <= safe else "latency"
        load, when = (self.peak, "today") if safe < self.peak else (self.later, "at the end of the horizon")
        return f"{what} is safe up to {safe:.3g} MB/s only, below the {load:.3g} MB/s of the peak {when}"

    # --- resources ---

    def _at_steps(self, metric: str) -> list[tuple[float, float]]:
        """(load, value) of a metric of all brokers, at the healthy steps that kept the target."""
        within = self.measured.healthy.load.estimate
        return [
            (load, float(row["value"]))
            for run in self.study.runs
            if run.role == "knee" and not run.broken
            for load in self.study.measurement["load_steps"]
            if load <= within and (row := run.found(metric, phase_of("knee", load))) and row["trusted"]
        ]

    @cached_property
    def _cpu_s_per_mb(self) -> float | None:
        """The median over those steps."""
        found = [value / 1000 for _, value in self._at_steps("broker_cpu_s_per_gb")]
        return median(found) if found else None

    def _over_rule(self, resource: str) -> float | None:
        """How much more a resource was used than its rule says, at the median step."""
        outs = MEASURED_GROUPS + self.question["replication_factor"] - 1
        times = outs if resource == "network_out" else self.question["replication_factor"]
        found = [value / (load * times) for load, value in self._at_steps(f"{resource}_mb_per_s")]
        return median(found) if found else None

    @cached_property
    def _limits(self) -> dict[str, float]:
        allowed = self.study.measurement["allowance"]
        found = {
            "cpu": allowed.get("cpus"),
            "network_out": _in_mb(allowed.get("network")),
            "disk_read": _in_mb(allowed.get("disk_read")),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _rows(self, write: float, brokers: int) -> list[capacity.Demand]:
        rate = self.measured.catch_up.rate(self._load(write, brokers))
        return capacity.demands(
            write,
            brokers=brokers,
            replication_factor=self.question["replication_factor"],
            consumer_groups=self.question["consumer_groups"],
            cpu_s_per_mb=self._cpu_s_per_mb,
            catch_up=rate.estimate,
            limits=self._limits,
        )

    def _demands(self, write: float) -> list[dict[str, Any]]:
        return [
            {
                **row._asdict(),
                "words": words.RESOURCES[row.resource],
                "use": row.use,
                "measured_over_rule": self._over_rule(row.resource),
            }
            for row in self._rows(write, self.have)
        ]

    def _bottleneck(self) -> dict[str, Any] | None:
        """The resource nearest to its limit where latency leaves its target, with one broker away."""
        knee = self.measured.degraded.load.estimate
        if knee == 0:
            return None
        at = knee if math.isfinite(knee) else self.measured.degraded.offered
        live = [row for row in self._rows(at, self.study.brokers) if not row.resource.startswith("catch_up")]
        found = capacity.bottleneck(live)
        told = {"write_mb_per_s": at, "reached": math.isfinite(knee)}
        return None if found is None else {"resource": found.resource, "use": found.use, **told}

    # --- reserves ---

    def _ledger(self) -> list[capacity.Ledger]:
        healthy, degraded = self.measured.healthy_knee(self.have), self.measured.degraded_knee(self.have)
        top = min(healthy.estimate, self.measured.healthy.offered * self.have / self.study.brokers)
        failed = min(degraded.estimate, top)
        latency, safe = self.measured.safe_latency_load(self.have), self._safe(self.have)
        reserves = [
            ("failure: one broker away", top - failed),
            ("what the degraded knee leaves uncertain", max(failed - latency, 0.0)),
            ("recovery within its target", max(min(failed, latency) - safe, 0.0)),
            ("burst", self.peak - self.today),
            (f"growth in {self.question['horizon_months']} months", self.later - self.peak),
            ("load today", self.today),
        ]
        return capacity.ledger(top, reserves)

    def _throttle(self) -> capacity.Throttle:
        fitted, load = self.measured.catch_up, self._load(self.peak, self.have)
        outs = self.question["consumer_groups"] + self.question["replication_factor"] - 1
        return capacity.throttle(
            load,
            down_s=self.down_s,
            target_s=max(self.target_s, 0.0),
            start_s=fitted.start().estimate,
            spare_out=(self.measured.safe_latency_load(self.have) - self.peak) * outs,
            unthrottled=max(fitted.rate(load).estimate, 0.0),
        )

    def _longest_downs(self) -> Iterator[dict[str, Any]]:
        top = max(self.measured.healthy.offered * self.have / self.study.brokers, self.peak)
        for write in np.linspace(min(self.today, top / 2) / 2, top, CURVE_POINTS):
            yield {"write_mb_per_s": float(write), **as_json(self._longest(self.have, float(write)))}

    def _exhaustion(self) -> dict[str, Any]:
        recovery = self.measured.catch_up.largest_load(self.down_s, self.target_s) if self.target_s > 0 else None
        latency = self.measured.degraded_knee(self.have)
        to_write = self.have / self.question["replication_factor"]
        limit = Interval(*map(min, latency, recovery.scaled(to_write))) if recovery else Interval(0.0, 0.0, 0.0)
        limit = limit._replace(low=min(limit.low, self._safe(self.have)))
        today = date.fromisoformat(self.study.campaign.created_at[:10])
        growth = self.question["growth_per_month"]
        first, last = capacity.exhaustion(today, self.peak, limit, (growth[0], growth[1]))
        return {"limit": as_json(limit), "first": _iso(first), "last": _iso(last)}

    # --- the recommendation ---

    def _recommendation(self) -> dict[str, Any]:
        if self.needed_later is None or self.needed_later > self.have:
            verdict = "under"
        else:
            verdict = "over" if self.needed_later < self.have else "right"
        doubts = self._doubts()
        return {
            "verdict": verdict,
            "brokers": self.needed_later,
            "brokers_now": self.needed_now,
            "confidence": ("high", "medium", "low")[min(len(doubts), 2)],
            "doubts": doubts,
        }

    def _doubts(self) -> list[str]:
        return [text for holds, text in self._possible_doubts() if holds]

    def _possible_doubts(self) -> Iterator[tuple[bool, str]]:
        study, measured = self.study, self.measured
        check = study.model_check()
        fewest = min(measured.healthy.runs, measured.degraded.runs)
        groups = self.question["consumer_groups"]
        yield (
            {self.have, self.needed_later} != {study.brokers},
            f"{study.brokers} brokers were measured; every other number is scaled by each broker's share",
        )
        yield fewest < 3, f"a load step has {fewest} usable {'run' if fewest == 1 else 'runs'}; three give an interval"
        yield check["of"] == 0, "the catch-up model was not tried on a run that it was not fitted on"
        yield (
            check["of"] > 0 and check["inside"] < 0.8 * check["of"],
            f"only {check['inside']} of {check['of']} held-out runs lie inside their prediction interval",
        )
        yield (
            self.later > measured.healthy.offered * self.have / study.brokers,
            "the load at the end of the horizon is above every load that was offered",
        )
        yield (
            groups > MEASURED_GROUPS,
            f"one consumer group was measured; {groups} are accounted for by arithmetic alone",
        )
        runs, back = study.provenance(), [run for run in study.caught_up if not run.point.censored]
        balanced = sum(run.recovered_s is not None for run in back)
        yield 0 < balanced < len(back), f"leadership was seen to be balanced in {balanced} of {len(back)} runs only"
        yield runs["unknown"] != [], f"correctness is unknown in {len(runs['unknown'])} of {runs['count']} runs"
        yield len(runs["hosts"]) > 1, "the runs come from more than one host"
        yield study.left_out != [], f"{len(study.left_out)} measurements were left out"


def _in_mb(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else bytes_per_s / MB


def _iso(day: date | None) -> str | None:
    return None if day is None else day.isoformat()
