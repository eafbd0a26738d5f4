"""The archive as metrics, read by strict parsers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from campaigns.archive_metrics import write_metrics
from history.metrics import METRICS
from tests.campaigns.archive_rows import row

RUN = {"run": "r1", "scenario": "steady", "kafka_version": "4.3.0", "date": "2026-11-02"}


def samples(tmp_path: Path, *rows: dict[str, Any]) -> list[tuple[str, dict[str, str], float]]:
    """Return the samples that a strict parser reads."""
    write_metrics(rows, tmp_path / "archive.prom")
    text = (tmp_path / "archive.prom").read_text()
    return [(s.name, dict(s.labels), s.value) for f in text_string_to_metric_families(text) for s in f.samples]


def test_a_run_has_its_scenario_version_and_date(tmp_path: Path) -> None:
    """Each run has a verdict sample with scenario, version and date, and a sample for each value."""
    rows = [row("r1", "elect_s", 2.5, censored=True, trusted=False), row("r1", "loss_ratio", 0.0, phase="")]

    assert samples(tmp_path, *rows) == [
        ("plimsoll_archive_verdict", {**RUN, "verdict": "pass"}, 1),
        ("plimsoll_archive_elect_s", {**RUN, "phase": "load", "trusted": "false", "censored": "true"}, 2.5),
        ("plimsoll_archive_loss_ratio", {**RUN, "phase": "", "trusted": "true", "censored": "false"}, 0),
    ]


def test_what_was_not_measured_has_no_sample(tmp_path: Path) -> None:
    """A metric without a value has no sample; a run without metrics has its verdict."""
    rows = [row("r1", "elect_s", None), row("r2", "", None, verdict="unknown")]

    assert [(name, labels["run"]) for name, labels, _ in samples(tmp_path, *rows)] == [
        ("plimsoll_archive_verdict", "r1"),
        ("plimsoll_archive_verdict", "r2"),
    ]


def test_samples_of_a_metric_stand_together(tmp_path: Path) -> None:
    """Samples of a metric are adjacent, as the format requires."""
    rows = [row(run, metric, 1.0) for run in ("r1", "r2") for metric in ("elect_s", "detect_s")]

    assert [(name, labels["run"]) for name, labels, _ in samples(tmp_path, *rows)][2:] == [
        ("plimsoll_archive_detect_s", "r1"),
        ("plimsoll_archive_detect_s", "r2"),
        ("plimsoll_archive_elect_s", "r1"),
        ("plimsoll_archive_elect_s", "r2"),
    ]


def test_readers_of_the_older_text_format_take_it(tmp_path: Path) -> None:
    """Parsers of the older text format read every metric, also with an escaped phase name."""
    expected = samples(tmp_path, *(row("r1", name, 1.0, phase='a "b"\\\n') for name in METRICS))
    text = (tmp_path / "archive.prom").read_text()
    older = [(s.name, dict(s.labels), s.value) for f in parser.text_string_to_metric_families(text) for s in f.samples]

    assert older == expected
    assert len(older) == len(METRICS) + 1


def test_an_empty_archive_is_a_file_without_samples(tmp_path: Path) -> None:
    """An empty archive is written as a file without samples."""
    assert samples(tmp_path) == []
