"""The findings of ``doctor``, with fake checks."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator

import pytest

from clusters.scenario.scenario import scenario_names
from commands import doctor
from commands.doctor import Check
from commands.outcome import Outcome
from service.airflow import ADDRESS

OK = Check("CPUs", ok=True, found="2")
NO_NETEM = Check("sch_netem", ok=False, found="the kernel lacks it", cost="no delays", get="modprobe sch_netem")
NO_JAVA = Check("Java", ok=False, found="none", cost="no judge", get="install openjdk-17-jre", required=True)


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Return the doctor's outcome for these checks."""

    def examine(*checks: Check) -> Outcome:
        def found(_port: int) -> Iterator[Check]:
            yield from checks

        monkeypatch.setattr(doctor, "_checks", found)
        monkeypatch.setenv("COLUMNS", "80")
        return doctor.examine(8080)

    return examine


def test_what_is_missing_is_told_with_its_cost_and_its_remedy(examined: Callable[..., Outcome]) -> None:
    """A missing optional part is shown with its effect and remedy, and the machine is still ready."""
    outcome = examined(OK, NO_NETEM)

    assert outcome.code == 0
    assert outcome.lines == [
        "ok      CPUs                  2",
        "MISSING sch_netem             the kernel lacks it",
        "                              costs: no delays",
        "                              get it: modprobe sch_netem",
        "",
        "Ready, without sch_netem.",
    ]
    assert outcome.facts["checks"][1]["get"] == "modprobe sch_netem"


def test_a_machine_that_can_run_nothing_fails(examined: Callable[..., Outcome]) -> None:
    """A machine on which no scenario can run fails, with the first remedy."""
    outcome = examined(NO_NETEM, NO_JAVA)

    assert (outcome.code, outcome.facts["ready"]) == (1, False)
    assert outcome.lines[-1] == "No scenario can run here yet; the first thing to get: install openjdk-17-jre"
    assert examined(OK).lines[-1] == "Ready for everything."


def test_without_docker_the_scenarios_that_are_left_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Docker, the number of remaining scenarios follows from what the process runtime can do."""
    monkeypatch.setattr("clusters.runtimes.docker.daemon.daemon_answers", lambda: False)
    check = doctor._docker()

    assert not check.ok
    assert not check.required
    left = re.match(r"brokers run as processes of this host: (\d+) of (\d+) scenarios, ", check.cost)
    assert left
    assert 0 < int(left[1]) < int(left[2]) == len(scenario_names())


def test_a_part_of_the_kernel_costs_its_steps_or_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel feature is listed, present or missing, with the steps or runs that need it."""
    monkeypatch.setattr("clusters.runtimes.kernel.lacking", lambda parts, _: {"freezer": parts["freezer"]})
    costs = {check.name: (check.ok, check.cost) for check in doctor._kernel()}

    assert costs["CGROUP_FREEZER"] == (False, "every run on docker is refused; use --runtime=process instead")
    assert costs["CFS_BANDWIDTH"] == (True, "the steps limit_cpu are refused; use lag instead")


def test_a_port_in_use_is_seen() -> None:
    """A port is tested on the address that Airflow would listen on."""
    with socket.socket() as taken:
        taken.bind((ADDRESS, 0))
        taken.listen()
        port = taken.getsockname()[1]
        in_use = doctor._port(port)
    free = doctor._port(port)

    assert (in_use.ok, free.ok) == (False, True)
    assert not doctor._port(70000).ok
