"""A comparison's archived runs by side and pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from campaigns.campaign import Campaign, Row
from campaigns.statistics.effects import log_ratio
from history.metrics import METRICS, metric_of
from history.results.compare import Arm, Arms, ComparedRun, Runs, Side

ARMS: tuple[Arm, Arm] = ("base", "head")


class Key(NamedTuple):
    """A metric and its phase; "" is the whole run."""

    scenario: str
    metric: str
    phase: str


@dataclass(frozen=True)
class Run:
    """A judged run: ``about`` is any of its rows, ``measured`` all by metric and phase."""

    about: Row
    measured: Mapping[tuple[str, str], Row]

    @property
    def run_id(self) -> str:
        return str(self.about["run_id"])

    @property
    def arm(self) -> Arm:
        return "head" if self.label("role") == "head" else "base"

    @property
    def started_at(self) -> str:
        return str(self.about["started_at"])

    @property
    def verdict(self) -> str:
        return str(self.about["verdict"])

    def label(self, name: str) -> str:
        return str(self.about["labels"][name])

    def value(self, metric: str, phase: str = "") -> float | None:
        row = self.measured.get((metric, phase))
        return None if row is None else row["value"]

    def achieved(self, phase: str) -> float | None:
        row = self.measured.get(("achieved_ratio", phase))
        return row["value"] if row and row["trusted"] and self.verdict != "unknown" else None

    def why_not(self, metric: str, phase: str) -> str | None:
        """Explain why a value cannot be compared, such as after a violation."""
        if self.verdict != "pass":
            return f"its verdict is {self.verdict}: {self.about['sentence']}"
        row = self.measured.get((metric, phase))
        if row is None or row["value"] is None:
            return "not measured" if row is None else row["note"] or "not measured"
        if not row["trusted"]:
            return str(row["note"] or "not trusted")
        if row["censored"] and metric_of(metric).kind != "time":
            return "at least this value: the observation ended first"
        return None


Kind = TypeVar("Kind", bound=Run)


class Pair(NamedTuple):
    """Neighbouring runs by role (None: not recorded); ``split``: another run came between, so unusable."""

    scenario: str
    number: str
    first: Run | None
    second: Run | None
    split: bool = False

    @property
    def runs(self) -> list[Run]:
        return [run for run in (self.first, self.second) if run]

    @property
    def ran_first(self) -> int:
        """Return 0 or 1 by time: aborted runs are repeated later."""
        began = [(run.started_at, run.label("order")) for run in self.runs]
        return began.index(min(began))


def runs_of(campaign: Campaign, rows: Iterable[Row]) -> list[Run]:
    """Return judged runs in the plan's order."""
    by_item = runs_by_item(campaign, rows)
    return [by_item[item.name] for item in campaign.items if item.name in by_item]


def runs_by_item(campaign: Campaign, rows: Iterable[Row]) -> dict[str, Run]:
    """Map items, planned or not, to judged runs."""
    return runs_by(lambda row: str(row["labels"]["item"]), campaign.own(rows), Run)


def runs_by(key: Callable[[Row], str], rows: Iterable[Row], kind: type[Kind]) -> dict[str, Kind]:
    """Group rows to judged runs."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return {
        name: kind(own[0], {(row["metric"], row["phase"]): row for row in own if row["metric"]})
        for name, own in found.items()
    }


def log_of(first: Run, second: Run, metric: str, phase: str) -> float | None:
    """Return a usable pair's log-ratio; None if a value is 0 or censored."""
    rows = [run.measured[metric, phase] for run in (first, second)]
    values = [row["value"] for row in rows]
    has_ratio = min(values) > 0 and not any(row["censored"] for row in rows)
    return log_ratio(*values) if has_ratio else None


def listed(campaign: Campaign, runs: Sequence[Run]) -> Runs:
    """List runs and missing items."""
    labels = ("item", "part", "role", "pair", "order")
    columns = ("run_id", "started_at", "scenario", "kafka_version", "verdict", "sentence")
    recorded = {run.label("item") for run in runs}
    each = [
        {**{name: run.label(name) for name in labels}, **{name: run.about[name] for name in columns}} for run in runs
    ]
    return Runs(
        planned=len(campaign.items),
        recorded=len(runs),
        missing=[item.name for item in campaign.items if item.name not in recorded],
        each=[ComparedRun.model_validate(run) for run in each],
    )


def pairs_of(campaign: Campaign, runs: Sequence[Run], part: str, roles: tuple[str, str]) -> list[Pair]:
    """Return a part's pairs ("calibration" or "comparison"), recorded or not."""
    by_item = {run.label("item"): run for run in runs}
    found: dict[tuple[str, str], dict[str, Run | None]] = {}
    for item in campaign.items:
        if item.labels["part"] == part:
            place = found.setdefault((item.scenario, item.labels["pair"]), {})
            place[item.labels["role"]] = by_item.get(item.name)
    pairs = [Pair(scenario, pair, of[roles[0]], of[roles[1]]) for (scenario, pair), of in found.items()]
    starts = [run.started_at for run in runs]
    return [pair._replace(split=_is_split(pair, starts)) for pair in pairs]


def _is_split(pair: Pair, starts: Sequence[str]) -> bool:
    own = sorted(run.started_at for run in pair.runs)
    return len(own) == 2 and any(own[0] < start < own[1] for start in starts)


def keys_of(pairs: Sequence[Pair], settings: Mapping[str, Any]) -> list[Key]:
    """Return everything measured outside warm-ups, in order of metrics, then phases."""
    phases, warm_ups = settings["phases"], settings.get("warm_ups", {})
    measured = {Key(pair.scenario, *place) for pair in pairs for run in pair.runs for place in run.measured}
    found = [key for key in measured if key.phase not in warm_ups.get(key.scenario, [])]
    metrics = {name: index for index, name in enumerate(METRICS)}

    def place(key: Key) -> tuple[int, str, str, int]:
        order = ["", *phases.get(key.scenario, [])]
        at = order.index(key.phase) if key.phase in order else len(order)
        return metrics.get(key.metric, len(metrics)), key.metric, key.scenario, at

    return sorted(found, key=place)


def refusals(runs: Sequence[Run]) -> list[str]:
    """Return each reason why runs cannot be compared."""
    found = []
    hosts = {run.about["host"] for run in runs}
    if len(hosts) > 1:
        found.append(f"The runs come from {len(hosts)} hosts; only runs of one host can be compared.")
    for arm in ARMS:
        own = [run for run in runs if run.arm == arm]
        if len({run.about["kafka_jars_digest"] for run in own}) > 1:
            found.append(f"The jars of {arm} changed between its runs; a version under comparison must stay the same.")
        digests = {(run.about["scenario"], run.about["scenario_digest"]) for run in own}
        if len(digests) > len({scenario for scenario, _ in digests}):
            found.append(f"A scenario of {arm} changed between its runs; compare again with an unchanged one.")
        if len({run.about.get("cluster") for run in own}) > 1:
            found.append(f"The runs of {arm} come from several clusters; compare again, with one.")
    for what, wanted in (("jvm", "production"), ("runtime", "docker")):
        if other := sorted({run.about[what] for run in runs if not run.about.get("cluster")} - {wanted}):
            found.append(f"Some runs have {what} {other[0]}; a comparison needs {what} {wanted}.")
    return found


def sides(settings: Mapping[str, Any], runs: Sequence[Run]) -> Arms[Side]:
    """Describe each side, with its mode if these differ."""
    differ = len({run.about["mode"] for run in runs}) > 1
    base, head = (_side(settings[arm], [run for run in runs if run.arm == arm], differ) for arm in ARMS)
    return Arms[Side](base=base, head=head)


def _side(settings: Mapping[str, Any], runs: Sequence[Run], modes_differ: bool) -> Side:
    def seen(what: str) -> list[str]:
        return sorted({str(run.about[what]) for run in runs})

    mode = ", ".join({"kraft": "KRaft", "zookeeper": "ZooKeeper"}.get(mode, mode) for mode in seen("mode"))
    return Side(
        name=f"{settings['name']} ({mode})" if modes_differ and mode else settings["name"],
        kafka=settings["kafka"],
        cluster=", ".join(sorted({str(run.about["cluster"]) for run in runs if run.about.get("cluster")})),
        changes=settings["changes"],
        versions=seen("kafka_version"),
        jars=seen("kafka_jars_digest"),
        mode=mode,
        jvm=seen("jvm"),
        runtime=seen("runtime"),
    )
