"""The archive as OpenMetrics text: a gauge per metric, a sample per run and phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from history.folder import write_atomically
from history.metrics import metric_of

_RUN = ["run", "scenario", "kafka_version", "date"]


@dataclass(frozen=True)
class ArchiveMetrics(Collector):
    """Gauges of archive rows; rows without a value have no sample."""

    rows: Sequence[Mapping[str, Any]]

    def collect(self) -> Iterable[Metric]:
        verdict = GaugeMetricFamily("plimsoll_archive_verdict", "1: the verdict of a run", labels=[*_RUN, "verdict"])
        for run, verdict_of_run in {_run(row): row["verdict"] for row in self.rows}.items():
            verdict.add_metric([*run, verdict_of_run], 1)
        families: dict[str, GaugeMetricFamily] = {}
        for row in self.rows:
            if row["value"] is not None:
                name, of_row = row["metric"], [str(row[label]).lower() for label in ("trusted", "censored")]
                families.setdefault(name, _family(name)).add_metric([*_run(row), row["phase"], *of_row], row["value"])
        return [verdict, *(families[name] for name in sorted(families))]


def _family(name: str) -> GaugeMetricFamily:
    labels = [*_RUN, "phase", "trusted", "censored"]
    return GaugeMetricFamily(f"plimsoll_archive_{name}", metric_of(name).words.capitalize(), labels=labels)


def _run(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["run_id"], row["scenario"], row["kafka_version"], row["started_at"][:10]


def write_metrics(rows: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Write archive rows atomically, without timestamps, for older Prometheus parsers."""
    text: bytes = generate_latest(ArchiveMetrics(rows))  # type: ignore[no-untyped-call]
    write_atomically(file, text.decode())
