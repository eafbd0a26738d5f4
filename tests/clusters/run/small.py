"""A small scenario, and runs of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusters.run.experiment import prepare

SCENARIO = """
name: small
why: A sound one.
cluster: {brokers: 2}
topics: {orders: {replicas: [A, B]}}
load: {topic: orders, rate: 500/s}
phases:
  - steady: [{hold: 4s}, {wait: {for: {isr_full: orders}, limit: 20s}}, {pause: A}]
"""


def prepared(told: str | Mapping[str, Any], tmp_path: Path, **change: Any) -> Path:
    """Prepare a run with these changes, under ``runs/``."""
    return prepare(told, **{"kafka": "3.9.1", "runs": tmp_path / "runs", **change})


def left_under_runs(tmp_path: Path) -> list[Path]:
    """Return the files under ``runs/``."""
    return list((tmp_path / "runs").rglob("*"))
