"""Wait for this host without a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from history.errors import BadInput


class HostTrigger(BaseTrigger):
    """Fire with the run folder's path once the host admits the run."""

    def __init__(self, run: str, at_once: int, name: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's
        self.run_folder = run
        self.at_once = at_once
        self.name = name

    def serialize(self) -> tuple[str, dict[str, Any]]:
        values = {"run": self.run_folder, "at_once": self.at_once, "name": self.name}
        return f"{__name__}.{type(self).__name__}", values

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from clusters.run.host import LOOK_S, admit  # heavy for DAG parsing

        if not Path(self.run_folder).is_dir():
            raise BadInput(f"{self.run_folder} is not on this triggerer's host; see queues in docs/airflow.md.")
        while await asyncio.to_thread(admit, Path(self.run_folder), self.at_once, self.name):
            await asyncio.sleep(LOOK_S)
        yield TriggerEvent(self.run_folder)  # type: ignore[no-untyped-call]  # Airflow's
