"""Run programs of a build under test to their end, in their own nodes without more rights."""

from __future__ import annotations

import os
from contextlib import suppress

from clusters.runtimes.nodes import Node, opened
from clusters.runtimes.runtime import Runtime
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout

LIMIT_S = 120.0
PRINTED_BYTES = 4000


def run_tool(runtime: Runtime, tool: Node, limit_s: float = LIMIT_S) -> None:
    """Start a tool and wait for its end.

    Raises:
        HarnessError: it failed, with the last of what it printed.
        WaitTimeout: it did not end in time, and was killed.
    """
    runtime.start(tool)
    try:
        wait_until(lambda: runtime.state(tool.name) == "exited", limit_s=limit_s, what=f"{tool.name} to end")
    except WaitTimeout:
        with suppress(HarnessError):  # it ended at this moment
            runtime.kill(tool.name, "SIGKILL")
        raise
    if status := runtime.exit_status(tool.name):
        raise HarnessError(f"{tool.name} failed with exit status {status}: {_printed(tool)}")


def _printed(tool: Node) -> str:
    with suppress(FileNotFoundError), opened(tool, tool.log, os.O_RDONLY) as log:
        size = os.fstat(log).st_size
        return os.pread(log, PRINTED_BYTES, max(0, size - PRINTED_BYTES)).decode(errors="replace").strip()
    return "nothing printed"
