"""The process runtime, with small real processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.runtimes import process as module
from clusters.runtimes.nodes import Node
from clusters.runtimes.ports import PORTS
from clusters.runtimes.process import ProcessRuntime, processes_of
from clusters.runtimes.runtime import available
from clusters.waiting import wait_until
from history.errors import BadInput, HarnessError

SLEEPS = "import time; time.sleep(60)"
HAS_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPS!r}])"


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[ProcessRuntime]:
    """The runtime of a run; its processes are removed after the test."""
    opened = ProcessRuntime(tmp_path / "a-run")
    yield opened
    opened.remove_all()


def node(runtime: ProcessRuntime, name: str = "broker-1", code: str = SLEEPS) -> Node:
    """Return a node that runs a line of Python."""
    folder = runtime._run / "work" / name
    folder.mkdir(parents=True, exist_ok=True)
    return Node(name, "broker", "127.77.7.11", folder, "python", ("-c", code), environment={"COLOUR": "blue"})


def await_state(runtime: ProcessRuntime, name: str, state: str) -> None:
    """Wait for a node's state, since signals take time."""
    wait_until(lambda: runtime.state(name) == state, limit_s=10, what=f"{name} to be {state}", every_s=0.01)


def test_a_node_lives_through_its_states(runtime: ProcessRuntime) -> None:
    """A node is absent, running, paused, running again, and exited after a kill."""
    assert runtime.state("broker-1") == "absent"
    runtime.start(node(runtime))
    assert runtime.state("broker-1") == "running"

    runtime.pause("broker-1")
    await_state(runtime, "broker-1", "paused")
    runtime.resume("broker-1")
    await_state(runtime, "broker-1", "running")
    runtime.kill("broker-1", "SIGKILL")
    await_state(runtime, "broker-1", "exited")


def test_a_paused_node_can_be_killed(runtime: ProcessRuntime) -> None:
    """SIGKILL does not wait for SIGCONT."""
    runtime.start(node(runtime))
    runtime.pause("broker-1")
    runtime.kill("broker-1", "SIGKILL")

    await_state(runtime, "broker-1", "exited")


def test_a_killed_node_can_be_started_again(runtime: ProcessRuntime) -> None:
    """A killed node can be started again, and its log is appended to."""
    runtime.start(node(runtime, code="print('first')"))
    await_state(runtime, "broker-1", "exited")
    runtime.start(node(runtime, code="print('second')"))
    await_state(runtime, "broker-1", "exited")

    assert node(runtime).log.read_text() == "first\nsecond\n"


def test_no_secret_of_the_environment_reaches_a_node(runtime: ProcessRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's environment has a few named variables and none of the caller's secrets."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "{}")
    monkeypatch.setenv("PLIMSOLL_AIRFLOW_TOKEN", "s3cret")
    monkeypatch.setenv("TZ", "Europe/Zurich")
    runtime.start(node(runtime, code="import os; print(*sorted(os.environ))"))
    await_state(runtime, "broker-1", "exited")
    names = set(node(runtime).log.read_text().split())

    own = {"COLOUR", "LC_ALL", "PYTHONPATH", module.RUN_VARIABLE, module.NODE_VARIABLE}
    assert names - {"PATH", "LD_LIBRARY_PATH", "TMPDIR"} == own | {"TZ"}


def test_the_exit_status_of_a_node_is_known(runtime: ProcessRuntime) -> None:
    """The exit status is known to the runtime that started the node, once the node has exited."""
    runtime.start(node(runtime, code="raise SystemExit(3)"))
    runtime.start(node(runtime, "broker-2"))
    await_state(runtime, "broker-1", "exited")

    assert (runtime.exit_status("broker-1"), runtime.exit_status("broker-2")) == (3, None)
    assert ProcessRuntime(runtime._run).exit_status("broker-1") is None
    runtime.kill("broker-2", "SIGKILL")
    await_state(runtime, "broker-2", "exited")
    assert runtime.exit_status("broker-2") == -9


def test_a_node_has_its_environment_and_folder(runtime: ProcessRuntime) -> None:
    """A node has its environment and working folder, and can import the project."""
    runtime.start(node(runtime, code="import os, clusters.runtimes.nodes; print(os.environ['COLOUR'], os.getcwd())"))
    await_state(runtime, "broker-1", "exited")

    assert node(runtime).log.read_text() == f"blue {node(runtime).folder}\n"


def test_another_object_finds_the_nodes_again(runtime: ProcessRuntime) -> None:
    """Another runtime object, as in another task's process, finds the nodes; a zombie counts as exited."""
    runtime.start(node(runtime))
    other = ProcessRuntime(runtime._run)
    assert other.state("broker-1") == "running"

    other.kill("broker-1", "SIGKILL")
    await_state(other, "broker-1", "exited")
    assert runtime.state("broker-1") == "exited"


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM"])
def test_a_node_that_does_not_run_cannot_be_signalled(runtime: ProcessRuntime, signal: str) -> None:
    """Signals to a node that exited or never ran are errors."""
    runtime.start(node(runtime, code="pass"))
    await_state(runtime, "broker-1", "exited")

    for name in ("broker-1", "broker-2"):
        with pytest.raises(HarnessError, match=f"{name} cannot be sent {signal}: it does not run"):
            runtime.kill(name, signal)


def test_a_process_id_that_was_given_again_is_not_the_node(runtime: ProcessRuntime) -> None:
    """If a node's process id was reused by another process, the node has exited and that process gets no signal."""
    runtime.start(node(runtime, "broker-2"))
    for stranger in (str(os.getpid()), (runtime._run / "work" / "broker-2" / "pid").read_text()):
        (node(runtime).folder / "pid").write_text(stranger)
        assert runtime.state("broker-1") == "exited"
        with pytest.raises(HarnessError, match="broker-1 cannot be sent SIGKILL: it does not run"):
            runtime.kill("broker-1", "SIGKILL")
    assert runtime.state("broker-2") == "running"


def test_everything_of_the_run_is_removed_and_nothing_else(runtime: ProcessRuntime, tmp_path: Path) -> None:
    """Removal ends paused nodes and children of nodes, of this run only; a repeated call is no error."""
    neighbour = ProcessRuntime(tmp_path / "another-run")
    try:
        neighbour.start(node(neighbour))
        runtime.start(node(runtime))
        runtime.start(node(runtime, "broker-2", HAS_A_CHILD))
        runtime.pause("broker-1")
        wait_until(lambda: len(processes_of(runtime._run)) == 3, limit_s=10, what="a child of broker-2")

        removed = ProcessRuntime(runtime._run).remove_all()
        assert removed == [f"{runtime._run}/{name}" for name in ("broker-1", "broker-2", "broker-2")]
        assert runtime.remove_all() == []
        assert runtime.state("broker-1") == runtime.state("broker-2") == "exited"
        assert neighbour.state("broker-1") == "running"
    finally:
        neighbour.remove_all()


def test_processes_of_all_runs_are_found(runtime: ProcessRuntime) -> None:
    """Processes of all runs are found by the run's name in their environment."""
    runtime.start(node(runtime))

    assert f"{runtime._run}/broker-1" in processes_of().values()
    assert processes_of(runtime._run / "not-this-one") == {}


def test_there_is_nothing_between_local_processes(runtime: ProcessRuntime) -> None:
    """The process runtime has neither network, resource limits nor disks; using one of them is an error."""
    assert (runtime.network, runtime.resource_limits, runtime.disks) == (None, None, None)
    with pytest.raises(HarnessError, match="This cluster has no network between its nodes"):
        available(runtime.network, "network between its nodes")
    assert available(3, "three") == 3


# --- addresses ---------------------------------------------------------------------------------


@pytest.mark.parametrize("subnet", ["", "127.30", "127.30.7.0", "127.30.7.0/24", "127.300.1", "127.a.b", "172.30.7"])
def test_what_is_no_loopback_range_is_refused(runtime: ProcessRuntime, subnet: str) -> None:
    """A subnet that is no loopback range is rejected with the allowed form."""
    with pytest.raises(BadInput) as refused:
        runtime.reserve(subnet)
    assert str(refused.value) == f"--subnet={subnet} is no loopback range such as 127.30.7 (three numbers)."


def test_a_range_in_use_is_refused_when_asked_for(runtime: ProcessRuntime) -> None:
    """A requested range in use is rejected with the address and port; once free, it is accepted."""
    prefix = runtime.reserve(None)
    with socket.create_server((f"{prefix}.11", PORTS["CLIENT"])):
        said = f"--subnet={prefix}: the address {prefix}.11:9092 is in use; name another range or none"
        with pytest.raises(BadInput, match=said):
            runtime.reserve(prefix)

    assert runtime.reserve(prefix) == prefix


def test_without_a_wish_the_next_free_range_is_taken(runtime: ProcessRuntime) -> None:
    """Without a requested range, ranges in use are skipped."""
    prefix = runtime.reserve(None)
    with socket.create_server((f"{prefix}.10", PORTS["CONTROLLER"])):
        assert runtime.reserve(None) != prefix


def test_a_host_without_free_ranges_is_told(runtime: ProcessRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all 64 ranges are in use, reserving one is an error."""
    monkeypatch.setattr(module, "_busy_address", lambda prefix: f"{prefix}.10:9091")

    with pytest.raises(HarnessError, match="64 loopback ranges were tried and all are in use; run `make clean ALL=1`"):
        runtime.reserve(None)
