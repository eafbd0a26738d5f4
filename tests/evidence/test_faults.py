"""The events of each fault, paired."""

from evidence.faults import FaultSpan, fault_spans
from history.events import Event


def _told(*events: tuple[int, str, str, str]) -> list[FaultSpan]:
    return fault_spans(Event(t_ns, "", kind, "p", step, target) for t_ns, kind, step, target in events)


def _times(*events: tuple[int, str, str, str]) -> list[list[int]]:
    return [[event.t_ns for event in fault.events.values()] for fault in _told(*events)]


def test_a_fault_has_the_events_of_its_step_and_target() -> None:
    """Events of another step, or of another target, belong to another fault."""
    found = _times(
        (1, "inject", "pause", "broker-1"),
        (2, "inject", "pause", "broker-2"),
        (3, "inject", "kill", "broker-1"),
        (4, "injected", "pause", "broker-1"),
        (5, "healed", "kill", "broker-1"),
        (6, "heal", "pause", "broker-1"),
        (7, "healed", "pause", "broker-1"),
    )

    assert found == [[1, 4, 6, 7], [2], [3, 5]]


def test_the_same_fault_after_its_recovery_is_another_fault() -> None:
    """A second kill has its own events; the second order to heal the first is a retry."""
    kill = ("kill", "broker-1")
    found = _times(
        (1, "inject", *kill), (2, "heal", *kill), (3, "heal", *kill), (4, "healed", *kill), (5, "inject", *kill)
    )

    assert found == [[1, 2, 4], [5]]


def test_healing_heals_every_fault_of_the_step_and_target() -> None:
    """Of two orders before the recovery, each has its own effect, and both have the recovery."""
    kill = ("kill", "broker-1")
    found = _times(
        (1, "inject", *kill), (2, "injected", *kill), (3, "inject", *kill), (4, "injected", *kill), (5, "healed", *kill)
    )

    assert found == [[1, 2, 5], [3, 4, 5]]


def test_a_fault_whose_order_is_missing_begins_with_its_effect() -> None:
    """A proven effect without an order is a fault; a recovery alone is none."""
    (fault,) = _told((2, "injected", "kill", "broker-1"), (3, "healed", "pause", "broker-1"))

    assert (fault.step, fault.from_ns, fault.at_ns("healed")) == ("kill", 2, 2**63 - 1)


def test_events_are_paired_by_time() -> None:
    """Several writers share the file, so that its lines may be out of order."""
    assert _times((5, "healed", "kill", "broker-1"), (1, "inject", "kill", "broker-1")) == [[1, 5]]


def test_an_effect_or_a_recovery_counts_if_it_was_verified() -> None:
    """An unverified one, and one without a result, does not."""

    def verified(**detail: object) -> tuple[bool, bool]:
        kinds = enumerate(("inject", "injected", "healed"))
        (fault,) = fault_spans(Event(t_ns, "", kind, "p", "kill", "broker-1, broker-2", detail) for t_ns, kind in kinds)
        assert (fault.nodes, fault.is_over) == (["broker-1", "broker-2"], True)
        return fault.took_effect, fault.recovered

    assert verified(effect_verified=True, recovery_verified=False) == (True, False)
    assert verified(effect_verified=False, recovery_verified=True) == (False, True)
    assert verified() == (False, False)
