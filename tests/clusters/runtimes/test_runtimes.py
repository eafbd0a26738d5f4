"""The choice of a runtime, and the address ranges that runtimes try."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.runtimes import capabilities, choose_runtime, open_runtime
from clusters.runtimes.addresses import candidate_prefixes
from clusters.runtimes.docker import daemon
from clusters.runtimes.runtime import CAPABILITIES, OF_OTHERS
from clusters.scenario.steps.catalog import STEPS
from history.errors import BadInput


@pytest.mark.parametrize(
    ("wanted", "answers", "chosen"),
    [
        ("auto", True, "docker"),
        ("auto", False, "process"),
        ("docker", True, "docker"),
        ("process", True, "process"),
        ("process", False, "process"),
    ],
)
def test_auto_is_docker_where_a_daemon_answers(
    wanted: str, answers: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``auto`` is docker if a daemon answers, otherwise process; a named runtime is used unchanged."""
    monkeypatch.setattr(daemon, "daemon_answers", lambda: answers)

    assert choose_runtime(wanted) == chosen


def test_docker_without_a_daemon_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """--runtime=docker without a daemon is rejected and not replaced by the process runtime."""
    monkeypatch.setattr(daemon, "daemon_answers", lambda: False)

    with pytest.raises(BadInput, match="--runtime=docker, but no Docker daemon answers; start it, or use --runtime=p"):
        choose_runtime("docker")


@pytest.mark.parametrize("wanted", ["podman", "", "Docker"])
def test_an_unknown_runtime_is_refused(wanted: str) -> None:
    """An unknown runtime is rejected with the list of runtimes."""
    with pytest.raises(BadInput, match=f"--runtime={wanted} is unknown; it is auto, docker or process"):
        choose_runtime(wanted)


@pytest.mark.parametrize("name", ["docker", "process"])
def test_a_runtime_is_opened_by_its_name(name: str) -> None:
    """Opening a runtime by name does not contact the daemon."""
    assert open_runtime(name, Path("/runs/a")).name == name


def test_capabilities_are_the_parts_that_are_there() -> None:
    """A runtime's capabilities have the names that scenario steps use for their needs."""
    assert capabilities("docker") == CAPABILITIES
    assert capabilities("docker") - capabilities("process") == {"network", "disconnect", "resource_limits", "disks"}
    assert frozenset({"controllers"}).union(*(step.needs for step in STEPS.values())) == CAPABILITIES | OF_OTHERS


@given(st.text("abc-123", min_size=1), st.sampled_from([(127, 200), (172, 12)]))
def test_a_run_tries_64_ranges_of_its_network(run_name: str, network: tuple[int, int]) -> None:
    """A run tries 64 different /24 ranges, always the same ones."""
    first, seconds = network
    found = list(candidate_prefixes(Path("/runs") / run_name, first, seconds))
    parts = [[int(part) for part in prefix.split(".")] for prefix in found]

    assert len(set(found)) == 64
    assert all(a == first and 20 <= b < 20 + seconds and 1 <= c <= 254 for a, b, c in parts)
    assert found == list(candidate_prefixes(Path("/elsewhere") / run_name, first, seconds))


def test_two_runs_begin_elsewhere() -> None:
    """Different runs start with different ranges, so that parallel runs seldom collide."""
    one, other = (next(candidate_prefixes(Path(name), 127, 200)) for name in ("run-a", "run-b"))

    assert one != other
