"""A small valid scenario."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from clusters.scenario.scenario import (
    parse_scenario,
)
from history.errors import BadInput


def plain(**change: Any) -> dict[str, Any]:
    """Return a small valid scenario as YAML gives it, with these fields changed."""
    sound: dict[str, Any] = {
        "name": "small",
        "why": "A sound one.",
        "cluster": {"brokers": 3},
        "topics": {"orders": {"replicas": ["A", "B", "C"]}},
        "load": {"topic": "orders"},
        "phases": [{"steady": [{"hold": "1s"}]}],
    }
    return {**sound, **change}


def one_phase(*steps: object) -> dict[str, Any]:
    """Return a scenario with these steps in one phase."""
    return plain(phases=[{"one": list(steps)}])


def refusal(told: object) -> str:
    """Return the message with which a scenario is rejected."""
    with pytest.raises(BadInput) as refused:
        parse_scenario(yaml.safe_dump(told), "x.yaml")
    return str(refused.value)


ORDERS = {"replicas": ["A", "B", "C"]}
TRANSACTIONAL = {"topic": "orders", "engine": "confluent-kafka", "transaction": {"records": 5, "abort_every": 2}}
COPIED = {
    "topics": {"orders": ORDERS, "copies": ORDERS},
    "load": TRANSACTIONAL,
    "copier": {"to": "copies"},
}
