"""What a kernel lacks, with Docker's answers played."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clusters.run.leftovers import hold_trial
from clusters.runtimes import kernel
from clusters.runtimes.docker import daemon as docker_daemon
from clusters.runtimes.docker import image
from clusters.runtimes.kernel import lacking


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kernel that fails the trials whose numbers are in ``fails``; what was run is in ``ran``."""
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


def test_only_what_the_steps_need_is_tried_and_once(daemon: Any) -> None:
    """In one container, where it disturbs nobody; of a kernel that has all of it nothing is said."""
    assert lacking(["hold", "kill"], hold_trial) == {}
    assert daemon.ran == []

    assert lacking(["hold", "delay", "cut"], hold_trial) == {}
    assert lacking(["cut", "delay"], hold_trial) == {}
    ((script, settings),) = daemon.ran
    assert [word in script for word in ("iptables", "htb", "netem", "statistic")] == [True, True, True, False]
    assert settings["network_mode"] == "none"
    assert settings["labels"].keys() == {"plimsoll.run"}


@pytest.mark.parametrize(
    ("steps", "fails", "lacks"),
    [
        (["cut", "lose"], [1], {"lose": "xt_statistic"}),
        (["cut", "lose"], [0, 1], {"cut": "iptables", "lose": "iptables"}),
        (["shape", "delay"], [1], {"delay": "sch_netem"}),
        (["shape", "delay", "lag"], [0, 1], dict.fromkeys(("shape", "delay", "lag"), "sch_htb or cls_u32")),
        (["slow", "pause"], [0], {"slow": "sch_htb or cls_u32"}),
    ],
)
def test_each_step_has_the_first_thing_that_it_lacks(
    daemon: Any, steps: list[str], fails: list[int], lacks: dict[str, str]
) -> None:
    """Those beside it that need something else are not among them."""
    daemon.fails = fails

    assert {step: part.name for step, part in lacking(steps, hold_trial).items()} == lacks


@pytest.mark.parametrize(("quota", "lacks"), [(True, {}), (False, {"starve_cpu": "CFS_BANDWIDTH"})])
def test_docker_is_asked_for_cpu_quotas(daemon: Any, quota: bool, lacks: dict[str, str]) -> None:
    """No container is needed for that."""
    daemon.quota = quota

    assert {step: part.name for step, part in lacking(["starve_cpu"], hold_trial).items()} == lacks
    assert daemon.ran == []
