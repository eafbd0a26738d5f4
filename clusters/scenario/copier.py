"""A scenario's copier."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusters.scenario.values import Model, Seconds


class Copier(Model):
    """A copier from the load's topic to ``to``; ``offsets``: docs/scenarios.md."""

    to: str
    offsets: Literal["in_transaction", "apart"] = "in_transaction"
    records: int = Field(default=50, gt=0)  # per transaction
    timeout: Seconds = 20.0
    load: str | None = Field(default=None, exclude_if=lambda name: name is None)
