"""Keep the values of Airflow's connections out of ``os.environ``, which child processes inherit."""

from __future__ import annotations

import os
from collections.abc import Mapping

_connections: dict[str, str] = {}


def use(values: Mapping[str, str]) -> None:
    """Replace the connections' values."""
    _connections.clear()
    _connections.update(values)


def variables() -> dict[str, str]:
    """Return the environment with the connections' values."""
    return {**os.environ, **_connections}
