"""A partition's name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from clusters.kafka import wire
from clusters.scenario import targets
from history.partition import TopicPartition

ROOT = Path(__file__).resolve().parents[2]


def test_it_prints_as_kafka_writes_it() -> None:
    """Kafka names the partition's folder so."""
    assert str(TopicPartition("orders", 0)) == "orders-0"
    assert f"{TopicPartition('a-b', 12)}" == "a-b-12"


def test_scenarios_and_probes_share_it() -> None:
    """A target's partition is the one that the probe is asked for, with no translation."""
    assert TopicPartition is wire.TopicPartition is targets.TopicPartition


def test_it_brings_no_library_along() -> None:
    """A client node imports it without pydantic, a scenario without kafka-python."""
    code = "import sys, history.partition; print({'kafka', 'pydantic'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
