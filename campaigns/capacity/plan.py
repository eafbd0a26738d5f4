"""Compute a capacity plan: the recommended number of brokers, the alternatives, and the confidence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from functools import cached_property, partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from campaigns.capacity import words
from campaigns.capacity.study import CURVE_POINTS, MEASURED_GROUPS, Study, finite, phase_of
from campaigns.statistics import capacity, catch_up
from campaigns.statistics.capacity import Measured
from campaigns.statistics.catch_up import Interval, as_json
from campaigns.statistics.disk import GB_PER_MB_HOUR, Disks
from history.results.capacity import Recommended, Reserve
from history.words import counted

MB = 1e6
MIN_INSIDE = 0.8  # of held-out runs; fewer refute intervals of 90 %


class Doubt(NamedTuple):
    """A reason for less confidence in the plan; if it ``forbids_a_pass``, the campaign is unknown instead of pass."""

    text: str
    forbids_a_pass: bool = False


class Plan:
    """The plan for the question's brokers, and for other numbers of brokers."""

    def __init__(self, study: Study, measured: Measured) -> None:
        question = study.question
        self.study = study
        self.measured = measured
        self.question = question
        self._copies: int = question["replication_factor"]
        self.have: int = question["brokers"]
        self.today: float = question["write_mb_per_s"]
        self.peak = self.today * question["burst"]
        self.growth = (1 + question["growth_per_month"][1]) ** question["horizon_months"]
        self.later = self.peak * self.growth
        self.racks: int | None = question.get("racks")
        self.disks = Disks(
            self._copies,
            question["partitions"],
            question["retention_hours"],
            question.get("retention_gb"),
            question.get("disk_gb"),
            self.racks,
        )
        self.down_s: float = question["downtime_s"]
        # balancing leadership after the ISR is full must also end within the target
        self.target_s = question["target_recovery_s"] - study.leadership_s
        self._possible_target_s = question["target_recovery_s"] - study.least_leadership_s
        self.needed_now = self._needed(self.today)
        self.needed_later = self._needed(self.today * self.growth)
        self.at_least = self._needed(self.today * self.growth, sure=False)

    def _needed(self, mean: float, *, sure: bool = True) -> int | None:
        """Return the fewest brokers for a mean load's peak and stored data, if any number suffices.

        ``sure``: by the safe load, else by the possible load.
        """
        target_s = self.target_s if sure else self._possible_target_s
        peak = mean * self.question["burst"]
        fits = partial(self.disks.fit, mean)
        return self.measured.brokers_for(peak, self.down_s, target_s, racks=self.racks, fits=fits, sure=sure)

    def as_json(self) -> dict[str, Any]:
        return {
            "plan": self._plan(),
            "options": [self._option(brokers) for brokers in self._considered()],
            "demands": self._demands(self.peak),
            "bottleneck": self._bottleneck(),
            "ledger": [line.model_dump() for line in self._ledger()],
            "throttle": {name: finite(value) for name, value in self._throttle()._asdict().items()},
            "longest_down": list(self._longest_downs()),
            "exhaustion": self._exhaustion(),
            "recommendation": self._recommendation(),
            "unsure": [doubt.text for doubt in self.doubts if doubt.forbids_a_pass],
        }

    def _plan(self) -> dict[str, Any]:
        fitted, load = self.measured.catch_up, self._load(self.peak, self.have)
        rate, took = fitted.rate(load), fitted.predict(load, self.down_s)
        headroom = catch_up.needed_headroom(self.down_s, max(self.target_s, 0), fitted.start().estimate)
        return {
            "peak_mb_per_s": self.peak,
            "later_mb_per_s": self.later,
            "load_mb_per_s": load,
            "rate_mb_per_s": as_json(rate),
            "safe_latency_mb_per_s": self._safe_latency(self.have),
            "safe_recovery_mb_per_s": self._safe_recovery(self.have),
            "safe_mb_per_s": self._safe(self.have),
            "possible_latency_mb_per_s": finite(self.measured.latency_load(self.have, self.racks, sure=False)),
            "possible_recovery_mb_per_s": finite(
                self.measured.recovery_load(self.have, self.down_s, self._possible_target_s, sure=False)
            ),
            "tried_mb_per_s": self._tried,
            "target_catch_up_s": self.target_s,
            "catch_up_s": as_json(took),
            "cold_catch_up_s": self._cold(load),
            "window_s": as_json(Interval(*(self.down_s + each for each in took))),
            "longest_down_s": as_json(self._longest(self.have)),
            "headroom": finite(rate.estimate / load),
            "needed_headroom": finite(headroom),
            "rebuild_s": finite(self._rebuild_s(load, rate.estimate)),
            "healthy_knee": as_json(self.measured.healthy_knee(self.have)),
            "degraded_knee": as_json(self.measured.degraded_knee(self.have)),
            "failure_factor": capacity.broker_away(self.have, self._copies, self.racks).load_factor(1, 0),
            "rack_factor": self.racks / (self.racks - 1) if self.racks else None,
            "peer_spare_mb_per_s": finite(max(rate.estimate - load, 0.0) / (self.have - 1)),
            "partitions_on_each": self.study.partitions_asked,
            "disk": self._disk(),
        }

    def _disk(self) -> dict[str, Any]:
        stored, full = self.disks.stored(self.today, self.have), self.disks.full_mb_per_s(self.have)
        first, last = self._exhausted(self.today, Interval(full, full, full))
        return {
            "disk_gb": self.disks.disk_gb,
            **stored._asdict(),
            "away_gb": self.disks.broker_away_gb(self.today, self.have),
            "rack_gb": self.disks.rack_away_gb(self.today, self.have),
            "later_gb": self.disks.needed_gb(self.today * self.growth, self.have),
            "kept_hours": stored.retained_gb / GB_PER_MB_HOUR / self._load(self.today, self.have),
            "full_mb_per_s": finite(full),
            "first": first,
            "last": last,
        }

    def _load(self, write: float, brokers: int) -> float:
        return capacity.load_of_a_broker(write, self._copies, brokers)

    def _rebuild_s(self, load: float, rate: float) -> float:
        stored_mb = 1000 * self.disks.stored(self.today, self.have).total_gb
        return catch_up.rebuild_s(stored_mb, load, min(rate, self.question.get("disk_mb_per_s") or math.inf))

    def _cold(self, load: float) -> dict[str, Any] | None:
        fitted = self.study.fitted_cold
        return as_json(fitted.predict(load, self.down_s)) if fitted else None

    def _longest(self, brokers: int, write: float | None = None) -> Interval:
        load = self._load(self.peak if write is None else write, brokers)
        return self.measured.catch_up.longest_down_s(load, self.target_s)

    def _safe_latency(self, brokers: int) -> float:
        return self.measured.latency_load(brokers, self.racks)

    def _safe_recovery(self, brokers: int) -> float:
        return self.measured.recovery_load(brokers, self.down_s, self.target_s)

    def _safe(self, brokers: int) -> float:
        return min(self._safe_latency(brokers), self._safe_recovery(brokers))

    @property
    def _tried(self) -> float:
        """Return the largest write load with a measured catch-up, scaled to the question's brokers."""
        return float(self.measured.tried * self.have / self._copies)

    # --- alternatives ---

    def _considered(self) -> list[int]:
        least, rack = max(self._copies, 2), self.racks or 1
        named = {self.have, *(count for count in (self.needed_now, self.needed_later) if count)}
        around = {count + step for count in named for step in (-rack, 0, rack)}
        return sorted(count for count in around if count >= least)

    def _option(self, brokers: int) -> dict[str, Any]:
        safe = self._safe(brokers)
        predicted = self.measured.catch_up.predict(self._load(self.peak, brokers), self.down_s)
        return {
            "brokers": brokers,
            "safe_latency_mb_per_s": self._safe_latency(brokers),
            "safe_recovery_mb_per_s": self._safe_recovery(brokers),
            "safe_mb_per_s": safe,
            "catch_up_s": as_json(predicted),
            "longest_down_s": as_json(self._longest(brokers)),
            "partitions_on_each": self.study.partitions_asked * self.have / brokers,
            "disk_gb": self.disks.needed_gb(self.today * self.growth, brokers),
            "chosen": brokers == self.needed_later,
            "why": self._why(brokers, safe),
        }

    def _why(self, brokers: int, safe: float) -> str:
        if brokers == self.needed_later:
            return "the fewest that carry the load at the end of the horizon"
        if safe >= self.later and not self.disks.fit(self.today * self.growth, brokers):
            needed = words.amount(self.disks.needed_gb(self.today * self.growth, brokers))
            has = words.amount(self.question["disk_gb"])
            return f"each would store {needed} GB at the end of the horizon with one away, and has {has} GB"
        if safe >= self.later:
            return "more than the load at the end of the horizon needs"
        what = "recovery" if self._safe_recovery(brokers) <= safe else "latency"
        load, when = (self.peak, "today") if safe < self.peak else (self.later, "at the end of the horizon")
        below = f"below the {words.amount(load)} MB/s of the peak {when}"
        return f"{what} is safe up to {words.amount(safe)} MB/s only, {below}"

    # --- resources ---

    def _at_steps(self, metric: str) -> list[tuple[float, float]]:
        """Return (load, value) of all brokers at healthy steps within the target."""
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
        found = [value / 1000 for _, value in self._at_steps("broker_cpu_s_per_gb")]
        return median(found) if found else None

    def _over_rule(self, resource: str) -> float | None:
        """Return the median ratio of a resource's measured use to the use that the rule computes."""
        outs = MEASURED_GROUPS + self._copies - 1
        times = outs if resource == "network_out" else self._copies
        found = [value / (load * times) for load, value in self._at_steps(f"{resource}_mb_per_s")]
        return median(found) if found else None

    @cached_property
    def _measured_limits(self) -> dict[str, float | None]:
        allowed = self.study.measurement["resource_limits"] or {}
        return {
            "cpu": allowed.get("cpus"),
            "network_out": _in_mb(allowed.get("network")),
            "disk_read": _in_mb(allowed.get("disk_read")),
        }

    def _rows(self, write: float) -> list[capacity.Demand]:
        disk = self.question.get("disk_mb_per_s")
        disks = {"disk_read": disk, "disk_write": disk} if disk else {}
        return self._demands_of(
            write,
            self.have,
            consumer_groups=self.question["consumer_groups"],
            limits={**self._measured_limits, **disks},
            old_reads=self.question.get("old_reads_share") or 0.0,
            racks=self.racks,
        )

    def _demands_of(
        self, write: float, brokers: int, *, limits: dict[str, float | None], **rule: Any
    ) -> list[capacity.Demand]:
        return capacity.demands(
            write,
            brokers=brokers,
            replication_factor=self._copies,
            cpu_s_per_mb=self._cpu_s_per_mb,
            catch_up=self.measured.catch_up.rate(self._load(write, brokers)).estimate,
            limits={name: value for name, value in limits.items() if value is not None},
            **rule,
        )

    def _demands(self, write: float) -> list[dict[str, Any]]:
        return [
            {
                **row._asdict(),
                "words": words.RESOURCES[row.resource],
                "use": row.use,
                "measured_over_rule": self._over_rule(row.resource),
            }
            for row in self._rows(write)
        ]

    def _bottleneck(self) -> dict[str, Any] | None:
        knee = self.measured.degraded.load.estimate
        if knee == 0:
            return None
        at = knee if math.isfinite(knee) else self.measured.degraded.offered
        rows = self._demands_of(at, self.study.brokers, consumer_groups=MEASURED_GROUPS, limits=self._measured_limits)
        live = [row for row in rows if not row.resource.startswith("catch_up")]
        found = capacity.bottleneck(live)
        use = {"write_mb_per_s": at, "reached": math.isfinite(knee)}
        return None if found is None else {"resource": found.resource, "use": found.use, **use}

    # --- reserves ---

    def _ledger(self) -> list[Reserve]:
        healthy, degraded = self.measured.healthy_knee(self.have), self.measured.degraded_knee(self.have)
        top = min(healthy.estimate, self.measured.healthy.offered * self.have / self.study.brokers)
        failed = min(degraded.estimate, top)
        latency, safe = self._safe_latency(self.have), self._safe(self.have)
        reserves = [
            ("failure: one broker away", top - failed),
            ("uncertainty of the degraded knee", max(failed - latency, 0.0)),
            ("recovery within its target", max(min(failed, latency) - safe, 0.0)),
            ("burst", self.peak - self.today),
            (f"growth in {self.question['horizon_months']} months", self.later - self.peak),
            ("load today", self.today),
        ]
        return capacity.ledger(top, reserves)

    def _throttle(self) -> capacity.Throttle:
        fitted, load = self.measured.catch_up, self._load(self.peak, self.have)
        outs = self.question["consumer_groups"] + self._copies - 1
        return capacity.throttle(
            load,
            down_s=self.down_s,
            target_s=max(self.target_s, 0.0),
            start_s=fitted.start().estimate,
            spare_out=(self._safe_latency(self.have) - self.peak) * outs,
            unthrottled=max(fitted.rate(load).estimate, 0.0),
        )

    def _longest_downs(self) -> Iterator[dict[str, Any]]:
        top = max(self.measured.healthy.offered * self.have / self.study.brokers, self.peak)
        for write in np.linspace(min(self.today, top / 2) / 2, top, CURVE_POINTS):
            yield {"write_mb_per_s": float(write), **as_json(self._longest(self.have, float(write)))}

    def _exhausted(self, load: float, limit: Interval) -> tuple[str | None, str | None]:
        """Return the first and last day on which the growing load may reach the limit."""
        today, growth = date.fromisoformat(self.study.campaign.created_at[:10]), self.question["growth_per_month"]
        ends = capacity.exhaustion(today, load, limit, (growth[0], growth[1]))
        first, last = (end.isoformat() if end else None for end in ends)
        return first, last

    def _exhaustion(self) -> dict[str, Any]:
        recovery = self.measured.catch_up.largest_load(self.down_s, self.target_s).scaled(self.have / self._copies)
        limit = Interval(*map(min, self.measured.degraded_knee(self.have), recovery))
        limit = limit._replace(low=min(limit.low, self._safe(self.have)))
        first, last = self._exhausted(self.peak, limit)
        return {"limit": as_json(limit), "first": first, "last": last}

    # --- the recommendation ---

    def _recommendation(self) -> dict[str, Any]:
        doubts = len(self.doubts)
        return {
            "verdict": self._verdict(),
            "undecided": list(self._undecided()),
            "at_least": self.at_least,
            "brokers": self.needed_later,
            "brokers_now": self.needed_now,
            "confidence": ("high", "medium", "low")[min(doubts, 2)],
            "doubts": [doubt.text for doubt in self.doubts],
        }

    def _verdict(self) -> Recommended:
        """Return ``under`` only if the possible load of these brokers, or their disks, are too small."""
        if self.needed_later is not None and self.needed_later <= self.have:
            return "over" if self.needed_later < self.have else "right"
        return "unknown" if self.at_least is not None and self.at_least <= self.have else "under"

    def _undecided(self) -> Iterator[str]:
        if self._verdict() != "unknown":
            return
        load = self.later * self.study.brokers / self.have
        yield from self._undecided_latency("degraded", "with one broker away", load)
        if self.racks:
            yield from self._undecided_latency("knee", "with a rack away", load * self.racks / (self.racks - 1))
        else:
            yield from self._undecided_latency("knee", "with all brokers", load)
        if self._safe_recovery(self.have) < self.later:
            yield self._undecided_recovery()

    def _undecided_latency(self, role: str, state: str, load: float) -> Iterator[str]:
        """Yield why p99 is undecided at ``load``, which is that of the measured cluster."""
        knee = self.measured.degraded if role == "degraded" else self.measured.healthy
        if load <= knee.safe:
            return
        target_ms, at = self.question["target_p99_ms"], capacity.p99_at(knee.curve, load)
        where = f"{state} at {words.amount(load)} MB/s on {self.study.brokers} brokers"
        if at is None:
            yield f"p99 {where} was not measured: add a load step of {words.amount(load)} MB/s or more"
            return
        spread = capacity.spread_of(self.study.steps[role])
        runs = None
        if spread is not None and math.isfinite(at["estimate"]):
            runs = capacity.runs_to_decide(at["estimate"], target_ms, spread)
        found = f"p99 {where} is {words.between(at['low'], at['high'], 'ms')} (90 %), the target {target_ms:g} ms"
        yield f"{found}; {words.runs_that_decide(runs, 'of each load step', knee.runs)}"

    def _undecided_recovery(self) -> str:
        fitted, load = self.measured.catch_up, self._load(self.later, self.have)
        write = words.amount(load * self.study.brokers / self._copies)
        where = f"catching up {self.down_s:g} s at {write} MB/s on {self.study.brokers} brokers"
        if load > self.measured.tried:
            return f"{where} was not measured: add a catch-up at {write} MB/s or more"
        took = fitted.predict(load, self.down_s)
        runs = None
        if math.isfinite(took.estimate) and self.target_s > 0:
            runs = capacity.runs_to_decide(took.estimate, self.target_s, fitted.noise(), of_one_run=True)
        found = (
            f"{where} takes {words.between(took.low, took.high, 's')} (90 %), the target leaves {self.target_s:.0f} s"
        )
        return f"{found}; {words.runs_that_decide(runs, 'with a broker away at such a load', fitted.runs)}"

    @cached_property
    def doubts(self) -> list[Doubt]:
        return [*self._doubts_of_the_scale(), *self._doubts_of_the_runs(), *self._doubts_of_the_model()]

    def _doubts_of_the_scale(self) -> Iterator[Doubt]:
        study, measured, groups = self.study, self.measured, self.question["consumer_groups"]
        for doubt in self.question.get("demand_doubts") or []:
            yield Doubt(f"demand: {doubt}")
        if {self.have, self.needed_later} != {study.brokers}:
            yield Doubt(f"{study.brokers} brokers were measured; every other number is scaled by each broker's share")
        if self.later > measured.healthy.offered * self.have / study.brokers:
            yield Doubt("the load at the end of the horizon is above every load that was offered")
        if self.later > self._tried:
            yield Doubt("the load at the end of the horizon is above every load under which a broker caught up")
        if groups > MEASURED_GROUPS:
            yield Doubt(f"one consumer group was measured; the load of {groups} is computed")

        yield from self._doubts_of_the_limits()
        cost = study.partitions_as_json()
        if cost and cost["above"]:
            most = max(study.measurement["partitions"])
            yield Doubt(
                f"each broker holds {cost['asked']:.0f} replicas, and at most {most} were measured", forbids_a_pass=True
            )

    def _doubts_of_the_limits(self) -> Iterator[Doubt]:
        for row in self._rows(self.peak):
            if row.use is not None and row.use > 1 and not row.resource.startswith("catch_up"):
                use = f"{words.RESOURCES[row.resource]} takes {100 * row.use:.0f} % of its limit at the peak load"
                yield Doubt(f"{use}, with one away", forbids_a_pass=True)

    def _doubts_of_the_runs(self) -> Iterator[Doubt]:
        study, runs = self.study, self.study.provenance()
        if runs["missing"]:
            yield Doubt(f"{len(runs['missing'])} of {runs['planned']} runs are missing", forbids_a_pass=True)
        if len(runs["hosts"]) > 1:
            yield Doubt(f"the runs come from {len(runs['hosts'])} hosts", forbids_a_pass=True)
        fewest = min(self.measured.healthy.runs, self.measured.degraded.runs)
        if fewest < 3:
            yield Doubt(f"a load step has {counted(fewest, 'usable run')}; three give an interval")
        back = [run for run in study.caught_up if not run.point.censored]
        balanced = sum(run.recovered_s is not None for run in back)
        if 0 < balanced < len(back):
            yield Doubt(f"only {balanced} of {len(back)} runs show that leadership was balanced again")
        if runs["unknown"]:
            yield Doubt(f"correctness is unknown in {len(runs['unknown'])} of {runs['count']} runs")
        if study.measurement.get("cluster"):
            low, high = study.others or (None, None)
            load = "an unknown number of" if high is None else f"{low:,.0f} to {high:,.0f}"
            yield Doubt(f"others wrote {load} records/s to the cluster meanwhile; their load is part of each figure")
        if study.left_out:
            yield Doubt(f"{len(study.left_out)} measurements were left out")

    def _doubts_of_the_model(self) -> Iterator[Doubt]:
        check = self.study.model_check()
        if check["of"] == 0:
            untried = "no held-out run tested the catch-up model"
            yield Doubt(untried, forbids_a_pass=check["planned"] > 0)
        elif check["inside"] < MIN_INSIDE * check["of"]:
            inside = f"only {check['inside']} of {check['of']} held-out runs lie inside their prediction interval"
            yield Doubt(inside, forbids_a_pass=True)


def _in_mb(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else bytes_per_s / MB
