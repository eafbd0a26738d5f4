"""The copier of a scenario: it reads the load's topic and writes another one (consume, transform, produce)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusters.scenario.values import Model, Seconds


class Copier(Model):
    """``to`` is the topic that it writes; ``offsets`` says how it commits how far it has read.

    in_transaction: within the transaction that has the records (KIP-98, KIP-447), which promises exactly once. apart:
    every few seconds, as a consumer does by itself, which promises at least once. ``timeout`` is
    transaction.timeout.ms. It reads the topic of the load that ``load`` names, or of the only one.
    """

    to: str
    offsets: Literal["in_transaction", "apart"] = "in_transaction"
    records: int = Field(default=50, gt=0)  # of a transaction, at most
    timeout: Seconds = 20.0
    load: str | None = Field(default=None, exclude_if=lambda name: name is None)
