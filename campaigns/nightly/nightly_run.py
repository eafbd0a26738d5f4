"""A nightly run compared with earlier ones only, so that its result never changes."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from campaigns.campaign import Campaign
from campaigns.nightly.settings import Waiver, better, check
from campaigns.nightly.subject import CLUSTER, SUBJECT, by_name
from campaigns.statistics import changes
from campaigns.statistics.changes import Change, Key
from campaigns.statistics.effects import Effect, holm, log_ratio, paired_effect, percent, verdict_of
from history.metrics import metric_of
from history.results.nightly import Beside, Confirmation, Decision, Point

Row = Mapping[str, Any]
State = Literal["no figure", "missing data", "no basis", "steady", "better", "moved", "host", "waived", "candidate"]

ROLES = ("correctness", "matrix", "control", "candidate", "baseline")
SLACK = 2  # by which a change's estimated start may move
CONCLUSIVE = ("confirmed", "refuted")  # only an inconclusive result may have more reruns
ALPHA = 0.05  # shared by all candidates of a scenario and version


@dataclass(frozen=True)
class Watched:
    """A series' state, reason, and any change; ``visible`` is the log-ratio detected half the time."""

    key: Key
    role: str
    points: Sequence[Point]
    state: State
    why: str
    window: Sequence[Point] = ()
    change: Change | None = None
    visible: float | None = None
    waiver: Waiver | None = None

    @property
    def before(self) -> list[str]:
        """Return the nightly runs at the level before the change, or all before the newest."""
        first, until = (self.change.first, self.change.until) if self.change else (0, len(self.window) - 1)
        return [point.nightly_run for point in self.window[first : max(until, 0)]]

    @property
    def after(self) -> list[str]:
        return [point.nightly_run for point in self.window[self.change.since :]] if self.change else []


def rounded_percent(log: float | None) -> float | None:
    """Convert a log-ratio; None if not finite."""
    return None if log is None or not math.isfinite(log) else round(percent(log), 2)


def when(text: str) -> datetime:
    """Parse a time of the archive or a plan."""
    return datetime.fromisoformat(text)


class NightlyRun:
    """A nightly run, from archive rows and earlier decisions."""

    def __init__(self, campaign: Campaign, rows: Iterable[Row], decisions: Iterable[Decision] = ()) -> None:
        self.campaign = campaign
        self.name = campaign.campaign_id
        self.settings = check(campaign.settings)
        own = [row for row in rows if row["labels"].get("role") in ROLES]
        machines = {row["host"]: row["machine"] for row in own if row.get("machine")}
        nightly: list[Row] = [_by_machine(by_name(row, row["labels"]), machines) for row in own]
        self.decisions = {(each.nightly_run, _key_of(each, machines)): each.confirmation for each in decisions}
        began = {self.name: when(campaign.created_at)}
        for row in nightly:
            name, started = row["labels"]["campaign"], when(row["started_at"])
            began[name] = min(started, began.get(name, started))
        self.began = {
            name: began[name] for name in sorted(began, key=began.__getitem__) if began[name] <= began[self.name]
        }
        self._earlier: dict[str, NightlyRun] = {}
        self.rows = [row for row in nightly if row["labels"]["campaign"] in self.began]
        self.current = [row for row in self.rows if row["labels"]["campaign"] == self.name]

    # --- series ---

    @cached_property
    def matrix(self) -> dict[Key, list[Point]]:
        return self._series("matrix")

    @cached_property
    def control(self) -> dict[Key, list[Point]]:
        return self._series("control")

    def _series(self, role: str) -> dict[Key, list[Point]]:
        return changes.series(self._watched_rows(self.rows, role), self.settings.floors())

    def _watched_rows(self, rows: Iterable[Row], role: str) -> Iterator[Row]:
        for row in rows:
            if row["labels"]["role"] == role and self.settings.watches(row["metric"], row["phase"]):
                yield row

    @cached_property
    def watched(self) -> list[Watched]:
        found = []
        for role, points in (("control", self.control), ("matrix", self.matrix)):
            rows: dict[Key, list[Row]] = defaultdict(list)
            for row in self._watched_rows(self.current, role):
                rows[changes.key_of(row)].append(row)
            ran = {_conditions(row) for row in self.current if row["labels"]["role"] == role}
            had = {key for key in points if _conditions(key._asdict()) in ran and self._had_figures(points[key])}
            keys = sorted(rows.keys() | had)
            found += [self._screened(role, key, points.get(key, []), rows.get(key, [])) for key in keys]
        return found

    # --- the screen ---

    def _screened(self, role: str, key: Key, points: list[Point], rows: list[Row]) -> Watched:
        watched = Watched(key, role, points, "no figure", _why_no_figure(rows))
        if not points or points[-1].nightly_run != self.name:
            return self._without_figure(watched)
        window = changes.window(points, self.settings.baseline.nightly_runs, self.settings.baseline.pinned)
        missing = changes.missing_nightly_runs(window)
        if missing:
            had = f"{len(window)} of the {len(window) + missing} nightly runs that a comparison needs"
            return replace(watched, state="no basis", why=f"{had}, this one included")
        values = changes.logs(window)
        change = self._change(role, key, values, older=len(window) - 1 - self.settings.baseline.nightly_runs)
        level = values[change.since :] if change else values[:-1]
        watched = replace(watched, window=window, change=change, visible=changes.visible(level), state="steady")
        if change is None:
            return replace(watched, why="no change of level")
        if not changes.is_beyond(change, self.margin(key)):
            return replace(watched, why="a change below the margin")
        return self._explained(watched, change)

    def _change(self, role: str, key: Key, values: Sequence[float], older: int) -> Change | None:
        if role == "control":
            return changes.latest_change(values)
        return changes.screened(values, better(key.metric), margin=self.margin(key), pinned=max(older, 0))

    def _without_figure(self, watched: Watched) -> Watched:
        """Return missing data where earlier nightly runs had values: it may be too slow to measure."""
        own = [row for row in self.current if row["labels"]["role"] == watched.role]
        ran = [row for row in own if _conditions(row) == _conditions(watched.key._asdict())]
        if not any(row["verdict"] == "pass" for row in ran) or not self._had_figures(watched.points):
            return watched
        had = f"{len(self._recent(watched.points))} earlier nightly runs had a figure"
        why = f"{had}, and this one has none: {watched.why}"
        return replace(watched, state="missing data", why=why)

    def _had_figures(self, points: Sequence[Point]) -> bool:
        return len(self._recent(points)) >= changes.MIN_NIGHTLY_RUNS

    def _recent(self, points: Sequence[Point]) -> list[Point]:
        nightly_runs = set(list(self.began)[-self.settings.baseline.nightly_runs - 1 : -1])
        return [point for point in points if point.nightly_run in nightly_runs]

    def _explained(self, watched: Watched, change: Change) -> Watched:
        key = watched.key
        if watched.role == "control":
            return replace(watched, state="moved", why="the same release in every nightly run, so the host changed")
        if not changes.is_worse(change.log, better(key.metric)):
            return replace(watched, state="better", why="better than before; nothing is rerun for it")
        moved = self._control_moved(watched, change)
        if moved:
            return replace(
                watched,
                state="host",
                why="the control changed in the same nightly runs, so the host is the likely cause, not Kafka",
            )
        known = self.waiver(watched)
        size = abs(percent(change.log))
        if known and known.up_to is not None and size <= known.up_to:
            why = f"{known.why} ({known.who}, until {known.until})"
            return replace(watched, state="waived", why=why, waiver=known)
        with_it = [
            change for point in watched.points if point.nightly_run == watched.after[0] for change in point.changed
        ]
        since = watched.after[0]
        together = f", together with {', '.join(with_it)}" if with_it else ""
        unsure = "; no figure of the control shows whether the host changed" if moved is None else ""
        beyond = f", by {size:.3g} % where {known.up_to:g} % are waived" if known else ""
        return replace(watched, state="candidate", why=f"it looks worse since {since}{together}{beyond}{unsure}")

    def _control_moved(self, watched: Watched, change: Change) -> bool | None:
        """Compare with the same metric and phase, else metric, else better direction."""
        same_host = [other for other in self.control if other.host == watched.key.host]
        alike = [other for other in same_host if other.metric == watched.key.metric]
        exact = [other for other in alike if other.phase == watched.key.phase]
        chosen = exact or alike or [o for o in same_host if better(o.metric) == better(watched.key.metric)]
        moves = {
            changes.control_moved(self.control[other], watched.before, watched.after, change.log, among=len(chosen))
            for other in chosen
        }
        return True if True in moves else False if False in moves else None

    def waiver(self, watched: Watched) -> Waiver | None:
        key = (watched.key.scenario, watched.key.kafka_version, watched.key.metric, watched.key.phase)
        own = [entry for entry in self.live if entry.covers_series(*key)]
        return max(own, key=lambda entry: entry.up_to or 0.0, default=None)

    @cached_property
    def live(self) -> list[Waiver]:
        return [entry for entry in self.settings.waivers if self.began[self.name].date() <= entry.until]

    def margin(self, key: Key) -> float:
        return self.settings.watch[key.metric].margin

    # --- the subject beside a release ---

    @cached_property
    def beside(self) -> list[Beside]:
        """Compare the subject with the first pinned release, by this nightly run's own pairs."""
        if self.settings.subject is None:
            return []
        subject, release = self.settings.subject.name, self.settings.baseline.releases[0]
        rows = list(self._watched_rows(self.current, "matrix"))
        found: list[tuple[Key, Effect]] = []
        for key in sorted({changes.key_of(row) for row in rows if row["labels"].get(SUBJECT) == subject}):
            own = [row for row in rows if changes.key_of(row)._replace(kafka_version=subject) == key]
            roles = {subject: "candidate", release: "baseline"}
            both = [_in_role(row, roles) for row in own if row["kafka_version"] in roles]
            effect = paired_effect(self._ratios(both, key))
            if effect:
                found.append((key, effect))
        adjusted = holm([effect.p for _, effect in found])
        return [self._beside(key, effect, release, p) for (key, effect), p in zip(found, adjusted, strict=True)]

    def _beside(self, key: Key, effect: Effect, release: str, p_adjusted: float) -> Beside:
        return Beside(
            scenario=key.scenario,
            metric=key.metric,
            phase=key.phase,
            words=metric_of(key.metric).words,
            release=release,
            pairs=effect.n,
            percent=round(percent(effect.mean), 2),
            low_percent=round(percent(effect.low), 2),
            high_percent=round(percent(effect.high), 2),
            verdict=verdict_of(effect, margin=self.margin(key), better=better(key.metric), p_adjusted=p_adjusted),
        )

    # --- reruns ---

    @cached_property
    def candidates(self) -> dict[tuple[str, str], list[Watched]]:
        items = {item.name: (item.scenario, item.labels.get(CLUSTER, item.kafka)) for item in self.campaign.items}
        planned = {_cell(row): items[row["labels"]["item"]] for row in self.current if row["labels"]["item"] in items}
        waiting = [
            watched for watched in self.watched if watched.state == "candidate" and self.settled(watched) is None
        ]
        found: dict[tuple[str, str], list[Watched]] = defaultdict(list)
        for watched in sorted(waiting, key=self.margins, reverse=True):
            found[planned[watched.key.scenario, watched.key.kafka_version]].append(watched)
        return dict(found)

    def margins(self, watched: Watched) -> float:
        return abs(percent(watched.change.log)) / 100 / self.margin(watched.key) if watched.change else 0.0

    def settled(self, watched: Watched) -> Confirmation | None:
        """Return earlier reruns that decide this change; refutations hold for ``cool_down`` nightly runs.

        Reruns before the change can only confirm it, since its start is an estimate.
        """
        names = list(self.began)
        since = names.index(watched.after[0])
        for at in range(len(names) - 2, max(0, since - SLACK) - 1, -1):
            found = self.decided(watched.key, names[at])
            if found and found.verdict == "confirmed":
                return found
            rests = since <= at >= len(names) - 1 - self.settings.confirm.cool_down
            if found and found.verdict == "refuted" and rests:
                return found
        return None

    def decided(self, key: Key, nightly_run: str) -> Confirmation | None:
        """Return a decision on a series; stored ones are final, others use that nightly run's window."""
        stored = self.decisions.get((nightly_run, key))
        if stored and stored.verdict in CONCLUSIVE:
            return stored.model_copy(update={"is_current": nightly_run == self.name})
        then = self if nightly_run == self.name else self._on(nightly_run)
        watched = next((watched for watched in then.watched if watched.key == key), None)
        found = then.reruns(watched, nightly_run) if watched else None
        return found and found.model_copy(update={"is_current": nightly_run == self.name})

    def _on(self, nightly_run: str) -> NightlyRun:
        if nightly_run not in self._earlier:
            about = {"campaign_id": nightly_run, "created_at": self.began[nightly_run].isoformat()}
            self._earlier[nightly_run] = NightlyRun(self.campaign.model_copy(update=about), self.rows)
        return self._earlier[nightly_run]

    def reruns(self, watched: Watched, nightly_run: str) -> Confirmation | None:
        key = watched.key
        runs = [row for row in self.rows if row["labels"]["campaign"] == nightly_run and _is_rerun(row, key)]
        own = {row["labels"]["candidate"] for row in runs if _cell(row) == (key.scenario, key.kafka_version)
               and row["labels"]["role"] == "candidate"}  # fmt: skip
        runs = [row for row in runs if row["labels"]["candidate"] in own]
        releases = sorted({row["kafka_version"] for row in runs if row["labels"]["role"] == "baseline"})
        if not runs or not (releases or key.kafka_version in self.settings.clusters):
            return None
        release = next(iter(releases), "")
        logs = changes.confirm(
            self._ratios(runs, key) if release else self._logs(runs, key),
            self._ratios_before(watched, release) if release else changes.logs(_points_before(watched)),
            margin=self.margin(key),
            better=better(key.metric),
            alpha=ALPHA / self._candidates_beside(key),
        )
        return Confirmation(
            nightly_run=nightly_run,
            is_current=nightly_run == self.name,
            release=release,
            verdict=logs.verdict,
            why=logs.why,
            pairs=logs.pairs,
            nightly_runs=logs.nightly_runs,
            percent=rounded_percent(logs.log),
            low_percent=rounded_percent(logs.low),
            high_percent=rounded_percent(logs.high),
            runs=sorted({row["run_id"] for row in runs}),
        )

    def _candidates_beside(self, key: Key) -> int:
        candidates = [watched.key for watched in self.watched if watched.state == "candidate"]
        return max(1, sum(other[:3] == key[:3] for other in candidates))

    def _ratios(self, runs: list[Row], key: Key) -> list[float]:
        """Censored candidates are lower bounds; a censored release bounds nothing and is left out."""
        floor = self.settings.floors()[key.metric]
        pairs: dict[str, dict[str, float]] = defaultdict(dict)
        for row in runs:
            role = row["labels"]["role"]
            if changes.is_good(row) and not (role == "baseline" and row["censored"]):
                pairs[row["labels"]["pair"]][role] = max(row["value"], floor)
        whole = [pair for pair in pairs.values() if len(pair) == 2 and min(pair.values()) > 0]
        return [log_ratio(pair["baseline"], pair["candidate"]) for pair in whole]

    def _logs(self, runs: list[Row], key: Key) -> list[float]:
        floor = self.settings.floors()[key.metric]
        values = [max(row["value"], floor) for row in runs if changes.is_good(row)]
        return [math.log(value) for value in values if value > 0]

    def _ratios_before(self, watched: Watched, release: str) -> list[float]:
        reference = self.matrix.get(watched.key._replace(kafka_version=release), [])
        of_release = {point.nightly_run: point.value for point in reference if not point.censored}
        earlier = [point for point in _points_before(watched) if point.nightly_run in of_release]
        return [log_ratio(of_release[point.nightly_run], point.value) for point in earlier]


def _points_before(watched: Watched) -> list[Point]:
    return [point for point in watched.window if point.nightly_run in watched.before and not point.censored]


def _by_machine(row: Row, machines: Mapping[str, str]) -> Row:
    """A software patch starts no new series; old rows take the machine by digest."""
    return {**row, "host": row.get("machine") or machines.get(row["host"], row["host"])}


def _key_of(decision: Decision, machines: Mapping[str, str]) -> Key:
    key = Key(*(getattr(decision, name) for name in Key._fields))
    return key._replace(host=machines.get(key.host, key.host))


def _in_role(row: Row, roles: Mapping[str, str]) -> Row:
    return {**row, "labels": {**row["labels"], "role": roles.get(row["kafka_version"], "")}}


def _cell(row: Row) -> tuple[str, str]:
    return row["scenario"], row["kafka_version"]


def _conditions(row: Row) -> tuple[str, ...]:
    return row["scenario"], row["scenario_digest"], row["kafka_version"], row["host"]


def _is_rerun(row: Row, key: Key) -> bool:
    same = ("scenario_digest", "metric", "phase", "host")
    return row["labels"]["role"] in ("candidate", "baseline") and all(row[name] == getattr(key, name) for name in same)


def _why_no_figure(rows: list[Row]) -> str:
    if not rows:
        return "no run measured it"
    return "; ".join(why for why, _ in Counter(map(_why_bad, rows)).most_common())


def _why_bad(row: Row) -> str:
    if row["verdict"] != "pass":
        return f"the verdict is {row['verdict']}, and such a run is neither slow nor fast"
    return row["note"] or "nothing was seen"
