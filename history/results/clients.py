"""Client releases tested against one broker version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from history.exit_codes import Verdict
from history.results.base import Model, Summary
from history.results.cases import Case


class ClientRun(Model):
    """A client release's run."""

    client: str
    run_id: str
    verdict: Verdict
    sentence: str


class ClientsResult(Summary):
    """One row per client."""

    kind: Literal["clients"] = "clients"
    seed: int
    settings: dict[str, Any]
    runs: list[ClientRun]

    def cases(self) -> Sequence[Case]:
        return [Case("clients", run.client, run.verdict, run.sentence, [run.run_id]) for run in self.runs]
