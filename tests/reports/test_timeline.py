"""Phases and faults from the recorded events."""

from pathlib import Path
from typing import Any

from history.events import Event
from history.folder import RunFolder
from reports.run_data import RunData
from reports.timeline import faults, in_words, phases
from tests.reports.sample_run import _manifest, at


def _run(*events: tuple[float, str, str, str, dict[str, Any]]) -> RunData:
    events = [Event(at(t), "", kind, "chaos", step, target, detail) for t, kind, step, target, detail in events]
    return RunData(RunFolder(Path("run-1")), _manifest("run-1", acks1=False), events, {}, {}, [])


def test_times_count_from_the_first_phase() -> None:
    """Times count from the start of the first phase."""
    run = _run((2, "phase_started", "", "", {}), (9, "phase_ended", "", "", {}))

    assert [(phase.start_s, phase.end_s) for phase in phases(run)] == [(0.0, 7.0)]


def test_a_phase_that_never_ended_lasts_until_the_last_event() -> None:
    """A phase without an end, after a harness error, lasts until the last event."""
    run = _run((0, "phase_started", "", "", {}), (4, "error", "kill", "", {"why": "no such node"}))

    assert [phase.end_s for phase in phases(run)] == [4.0]


def test_a_fault_lasts_until_its_recovery_was_verified() -> None:
    """A fault lasts until its recovery is verified, not until its effect is verified or its clearing starts."""
    run = _run(
        (0, "phase_started", "", "", {}),
        (1, "inject", "kill", "broker-1", {"asked": "kill node leader of orders-0"}),
        (2, "injected", "kill", "broker-1", {"effect_verified": True, "probe": "connection refused"}),
        (5, "heal", "kill", "broker-1", {}),
        (6, "healed", "kill", "broker-1", {"recovery_verified": True}),
        (8, "phase_ended", "", "", {}),
    )

    (fault,) = faults(run)

    assert (fault.start_s, fault.end_s) == (1.0, 6.0)
    assert (fault.took_effect, fault.cleared, fault.proof) == (True, True, "its port refuses connections")


def test_a_fault_without_effect_is_not_taken_for_one_that_had_one() -> None:
    """A fault whose effect or recovery was not verified is shown as such, with the reason."""
    run = _run(
        (0, "phase_started", "", "", {}),
        (1, "inject", "pause", "broker-1", {}),
        (2, "injected", "pause", "broker-1", {"effect_verified": False, "why": "broker-1 still answers"}),
        (6, "healed", "pause", "broker-1", {"recovery_verified": False, "why": "no answer"}),
    )

    (fault,) = faults(run)

    assert (fault.took_effect, fault.cleared, fault.proof) == (False, False, "broker-1 still answers")


def test_healing_one_node_leaves_the_fault_on_another() -> None:
    """Healing one node ends its fault, and a fault on another node lasts until the phase ends."""
    run = _run(
        (0, "phase_started", "", "", {}),
        (1, "inject", "kill", "broker-1", {}),
        (2, "inject", "kill", "broker-2", {}),
        (3, "healed", "kill", "broker-1", {"recovery_verified": True}),
        (9, "phase_ended", "", "", {}),
    )

    assert [(fault.end_s, fault.cleared, fault.lane) for fault in faults(run)] == [(3.0, True, 0), (9.0, False, 1)]


def test_the_same_fault_again_is_another_fault() -> None:
    """A second kill of a node is a new fault, and both labels are on the same line."""
    run = _run(
        (0, "phase_started", "", "", {}),
        (1, "inject", "kill", "broker-1", {}),
        (2, "healed", "kill", "broker-1", {"recovery_verified": True}),
        (4, "inject", "kill", "broker-1", {}),
        (6, "healed", "kill", "broker-1", {"recovery_verified": True}),
    )

    assert [(f.number, f.start_s, f.end_s, f.lane) for f in faults(run)] == [(1, 1.0, 2.0, 0), (2, 4.0, 6.0, 0)]


def test_detail_is_put_in_words() -> None:
    """Details are put into words, without those that have a column; a proof is a phrase, others are name and value."""
    (proof, capture) = _run(
        (0, "injected", "kill", "broker-1", {"effect_verified": True, "probe": "connection refused", "isr": [1, 2]}),
        (1, "capture", "", "", {"probe": "connection refused", "in_isr": True}),
    ).events

    assert in_words(proof) == "its port refuses connections, ISR [1, 2]"
    assert in_words(capture) == "probe connection refused, in isr yes"
