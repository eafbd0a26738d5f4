"""Define a scenario's copier, which consumes the load's topic and produces to another one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusters.scenario.values import Model, Seconds


class Copier(Model):
    """A copier; ``to`` is its output topic, ``offsets`` how it commits its input offsets.

    in_transaction: in the transaction of the records (KIP-98, KIP-447), for exactly once. apart: every few seconds, as
    a consumer does by default, for at least once. ``timeout`` is transaction.timeout.ms. ``load`` names the load whose
    topic it reads (default: the only one).
    """

    to: str
    offsets: Literal["in_transaction", "apart"] = "in_transaction"
    records: int = Field(default=50, gt=0)  # the maximum per transaction
    timeout: Seconds = 20.0
    load: str | None = Field(default=None, exclude_if=lambda name: name is None)
