"""Export metrics of this host's list of runs and of recent campaigns."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily as Gauge
from prometheus_client.metrics_core import InfoMetricFamily as Info
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from campaigns import kinds
from campaigns.campaign import CampaignFolder
from campaigns.rounds import Progress, progress
from clusters.run.host import ALONE, AT_ONCE, Guest, guests
from history.errors import PlimsollError
from history.results.base import Summary
from service.live_metrics import families

RECENT_S = 7 * 86_400.0  # since a campaign's last event
_KINDS, _STATES = ("benchmark", "run", "other"), ("admitted", "waiting")
_ITEM_STATES = ("pending", "recording", "recorded", "failed")
_FAMILIES: tuple[tuple[Any, str, str, list[str]], ...] = (
    (Gauge, "plimsoll_host_runs", "Runs and other work on this host's list", ["kind", "state"]),
    (Gauge, "plimsoll_host_slots", "How many runs the host may have at once now", []),
    (Info, "plimsoll_host_run", "A run or other work on this host's list", ["run"]),
    (Gauge, "plimsoll_host_run_waiting_seconds", "How long a run has waited for the host", ["run"]),
    (Info, "plimsoll_campaign", "A campaign with an event in the last 7 days", ["campaign"]),
    (Gauge, "plimsoll_campaign_items", "Runs of a campaign, by the state of their last try", ["campaign", "state"]),
    (Gauge, "plimsoll_campaign_round", "Rounds that a campaign has decided on", ["campaign"]),
    (Gauge, "plimsoll_campaign_last_event_timestamp_seconds", "A campaign's last event", ["campaign"]),
)


class HostMetrics(Collector):
    """Collect gauges of the host and of a site's campaigns."""

    def __init__(self, site: Path) -> None:
        self._site = site

    def collect(self) -> Iterable[Metric]:
        metrics = families(_FAMILIES)
        _add_guests(metrics, guests())
        for kind in map(kinds.of, kinds.names()):
            for plan in sorted((self._site / kind.command).glob("*/campaign.json")):
                with suppress(PlimsollError, OSError, LookupError, ValueError):  # unreadable
                    _add_campaign(metrics, kind.name, CampaignFolder(plan.parent))
        return metrics.values()


def _add_guests(metrics: Mapping[str, Any], present: list[Guest]) -> None:
    counts = Counter(map(_labels, present))
    for labels in product(_KINDS, _STATES):
        metrics["plimsoll_host_runs"].add_metric(labels, counts[labels])
    limits = [guest.at_once for guest in present if guest.is_admitted and guest.at_once]
    metrics["plimsoll_host_slots"].add_metric([], min(limits, default=AT_ONCE))
    for name, guest in {guest.who: guest for guest in present}.items():
        kind, state = _labels(guest)
        about = {"kind": kind, "state": state, "at_once": str(guest.at_once)}
        metrics["plimsoll_host_run"].add_metric([name], about)
        if not guest.is_admitted:
            waited_s = (time.monotonic_ns() - guest.asked_ns) / 1e9
            metrics["plimsoll_host_run_waiting_seconds"].add_metric([name], waited_s)


def _labels(guest: Guest) -> tuple[str, str]:
    kind = {ALONE: "benchmark", 0: "other"}.get(guest.at_once, "run")
    return kind, "admitted" if guest.is_admitted else "waiting"


def _add_campaign(metrics: Mapping[str, Any], kind: str, folder: CampaignFolder) -> None:
    stages, name = folder.stages.stat(), folder.path.name
    if time.time() - stages.st_mtime > RECENT_S:
        return
    now, result = _read(folder.path, (stages.st_mtime_ns, stages.st_size))
    about = {"kind": kind, "state": now.state, "result": result}
    last_s = datetime.fromisoformat(now.last.wall).timestamp()
    metrics["plimsoll_campaign"].add_metric([name], about)
    for state in _ITEM_STATES:
        metrics["plimsoll_campaign_items"].add_metric([name, state], now.items.get(state, 0))
    metrics["plimsoll_campaign_round"].add_metric([name], now.round)
    metrics["plimsoll_campaign_last_event_timestamp_seconds"].add_metric([name], last_s)


@lru_cache(maxsize=1_000)
def _read(path: Path, changed: tuple[int, int]) -> tuple[Progress, str]:  # noqa: ARG001  # a cache key
    folder = CampaignFolder(path)
    return progress(folder), Summary.read(folder.result).state if folder.result.is_file() else ""
