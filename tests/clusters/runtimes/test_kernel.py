"""Missing kernel features, with a fake Docker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clusters.run.leftovers import hold_scratch_run
from clusters.runtimes import kernel
from clusters.runtimes.docker import daemon as docker_daemon
from clusters.runtimes.docker import image
from clusters.runtimes.kernel import lacking
from clusters.scenario.steps.catalog import STEPS


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kernel that fails the trials numbered in ``fails``; ``ran`` has the containers run."""
    played = SimpleNamespace(fails=[], quota=True, ran=[])

    def run(_image: str, command: list[str], **settings: Any) -> bytes:
        played.ran.append((command[-1], settings))
        return b"".join(b"%d\n" % number for number in played.fails)

    client = SimpleNamespace(
        containers=SimpleNamespace(run=run), info=lambda: {"CpuCfsQuota": played.quota}, close=lambda: None
    )
    monkeypatch.setattr(docker_daemon.docker, "from_env", lambda **_: client)
    monkeypatch.setattr(image, "node_image", lambda _: "x")
    for cached in (kernel._missing, kernel._has_quota):
        cached.cache_clear()
    return played


def test_only_what_is_needed_is_tried_and_once(daemon: Any) -> None:
    """Only required features are tried, once, in one container without a network."""
    assert lacking([], hold_scratch_run) == {}
    assert daemon.ran == []

    assert lacking(["netem", "htb", "iptables"], hold_scratch_run) == {}
    assert lacking(["iptables", "htb", "netem", "htb"], hold_scratch_run) == {}
    ((script, settings),) = daemon.ran
    assert [word in script for word in ("iptables", "htb", "netem", "statistic")] == [True, True, True, False]
    assert settings["network_mode"] == "none"
    assert settings["labels"].keys() == {"plimsoll.run"}


@pytest.mark.parametrize(
    ("parts", "fails", "missing"),
    [
        (["iptables", "xt_statistic"], [1], ["xt_statistic"]),
        (["iptables", "xt_statistic"], [0, 1], ["iptables", "xt_statistic"]),
        (["netem", "htb"], [1], ["sch_netem"]),
        (["htb", "tbf"], [0], ["sch_htb or cls_u32"]),
        (["htb", "tbf"], [1], ["sch_tbf"]),
    ],
)
def test_what_fails_its_trial_is_missing(daemon: Any, parts: list[str], fails: list[int], missing: list[str]) -> None:
    """Features whose trial fails are missing, in the table's order; others are not."""
    daemon.fails = fails

    assert [part.name for part in lacking(parts, hold_scratch_run).values()] == missing


@pytest.mark.parametrize(("quota", "missing"), [(True, set()), (False, {"cfs_bandwidth"})])
def test_docker_is_asked_for_cpu_quotas(daemon: Any, quota: bool, missing: set[str]) -> None:
    """CPU quotas are read from Docker's info, without a container."""
    daemon.quota = quota

    assert lacking(["cfs_bandwidth"], hold_scratch_run).keys() == missing
    assert daemon.ran == []


@pytest.mark.parametrize(("part", "asked"), [("blk_throttle", "throttles_disks"), ("freezer", "pauses_processes")])
@pytest.mark.parametrize("has", [True, False])
def test_the_control_groups_say_whether_disks_can_be_limited_and_processes_paused(
    daemon: Any, monkeypatch: pytest.MonkeyPatch, part: str, asked: str, has: bool
) -> None:
    """Disk limits and pauses are read from the control groups, and only if a step needs them."""
    monkeypatch.setattr(kernel.cgroups, asked, lambda: has)

    assert lacking([part], hold_scratch_run).keys() == (set() if has else {part})
    assert lacking(["cfs_bandwidth"], hold_scratch_run) == {}


def test_every_part_that_a_step_or_every_run_needs_is_in_the_table() -> None:
    """The table has exactly the features that some step or every run needs."""
    of_steps = {part for step in STEPS.values() for part in step.kernel}
    assert of_steps.union(kernel.OF_EVERY_RUN) == kernel.PARTS.keys()
