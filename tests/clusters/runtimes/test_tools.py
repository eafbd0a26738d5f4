"""Tools of a build, with small real processes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.runtimes.nodes import Node
from clusters.runtimes.process import ProcessRuntime
from clusters.runtimes.tools import run_tool
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[ProcessRuntime]:
    """The runtime of a run; its processes are removed after the test."""
    opened = ProcessRuntime(tmp_path)
    yield opened
    opened.remove_all()


def tool(tmp_path: Path, script: str) -> Node:
    """Return a tool that runs a line of shell."""
    folder = tmp_path / "work" / "tool"
    folder.mkdir(parents=True)
    return Node("tool", "tool", "127.77.7.11", folder, shutil.which("sh") or "sh", ("-c", script))


def test_a_tool_runs_to_its_end(runtime: ProcessRuntime, tmp_path: Path) -> None:
    """A tool runs to its end, and its files exist afterwards."""
    run_tool(runtime, tool(tmp_path, "echo fine; touch made"))

    assert (tmp_path / "work" / "tool" / "made").exists()


def test_a_tool_that_fails_is_told_with_its_last_words(runtime: ProcessRuntime, tmp_path: Path) -> None:
    """The error of a failed tool has its exit status and last output."""
    with pytest.raises(HarnessError, match=r"tool failed with exit status 3: no room$"):
        run_tool(runtime, tool(tmp_path, "echo no room; exit 3"))


def test_a_tool_that_does_not_end_is_killed(runtime: ProcessRuntime, tmp_path: Path) -> None:
    """A tool that exceeds its limit is killed, and the run does not wait for it."""
    with pytest.raises(WaitTimeout, match="tool to end"):
        run_tool(runtime, tool(tmp_path, "exec sleep 60"), limit_s=0.1)
    wait_until(lambda: runtime.state("tool") == "exited", limit_s=10, what="the tool to be gone")


def test_a_log_that_is_a_link_is_not_read(runtime: ProcessRuntime, tmp_path: Path) -> None:
    """A log that is a symbolic link is not read: the tool may point it at a file of the user's."""
    (tmp_path / "credentials").write_text("key")
    failing = tool(tmp_path, f"ln -sf {tmp_path}/credentials server.log; exit 1")

    with pytest.raises(HarnessError, match="links are not followed"):
        run_tool(runtime, failing)
