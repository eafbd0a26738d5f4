"""Estimate how long phases and runs take, and limit them."""

from __future__ import annotations

from clusters.scenario.groups import Group, ShareGroup
from clusters.scenario.load import Load
from clusters.scenario.scenario import Phase, Scenario
from history.readers import patience_s
from history.share_groups import still_s

_MARGIN_S = 120.0  # phase start and end, on a busy host
_DRAINED_PER_S = 5000.0  # on a busy host
_MIN_DRAIN_S, MAX_DRAIN_S = 120.0, 3600.0


def expected_phase_s(phase: Phase) -> float:
    """Return a phase's expected seconds if it uses a tenth of its wait limits."""
    return sum(step.duration.expected_s for step in phase.steps)


def longest_phase_s(phase: Phase) -> float:
    """Return the seconds after which a phase hangs."""
    return _MARGIN_S + sum(step.duration.longest_s for step in phase.steps)


def drain_limit_s(scenario: Scenario) -> float:
    """Return the final drain's limit in seconds."""
    return min(max(expected_records(scenario) / _DRAINED_PER_S, _MIN_DRAIN_S), MAX_DRAIN_S)


def expected_records(scenario: Scenario) -> float:
    """Return a run's records at each load's highest rate."""
    return sum(_peak_rates(scenario).values()) * sum(map(expected_phase_s, scenario.phases))


def peak_bytes_per_s(scenario: Scenario) -> float:
    """Return the bytes per second of all loads' records at their highest rates."""
    return sum(rate * scenario.named_loads[name].sizes.mean for name, rate in _peak_rates(scenario).items())


def _peak_rates(scenario: Scenario) -> dict[str, float]:
    """Return load → its highest records per second."""
    highest = {name: load.peak_rate for name, load in scenario.named_loads.items()}
    for load, rate in (step.new_rate for step in scenario.steps if step.new_rate):
        name = scenario.load_name(load)
        highest[name] = max(highest[name], rate)
    return highest


def expected_bytes(scenario: Scenario) -> float:
    """Return the bytes of all loads' records in all replicas."""
    loads = scenario.named_loads
    rates = {name: load.usual_rate for name, load in loads.items()}
    of_record = {name: _stored_bytes(load) * len(scenario.topics[load.topic].replicas) for name, load in loads.items()}
    total = 0.0
    for step in scenario.steps:
        if step.new_rate:
            load, rate = step.new_rate
            rates[scenario.load_name(load)] = rate
        total += step.duration.expected_s * sum(rate * of_record[name] for name, rate in rates.items())
    return total


def _stored_bytes(load: Load) -> float:
    """Return a record's stored bytes; repetitive padding compresses to almost nothing."""
    if load.compression == "none":
        return load.sizes.mean
    return load.sizes.mean * ((load.payload.compresses_to or 1.0) if load.payload else 0.0)


def answers_s(scenario: Scenario) -> float:
    """Return the loads' longest delivery timeout in seconds."""
    return max((load.delivery_timeout for load in scenario.named_loads.values()), default=0.0)


def settle_s(scenario: Scenario) -> float:
    """Return the seconds without a delivery after which a share group is idle."""
    return still_s(scenario.group.lock) + 1 if isinstance(scenario.group, ShareGroup) else 0.0


def catch_up_s(scenario: Scenario) -> float:
    """Return the seconds without progress after which a reader is stuck."""
    if not scenario.named_loads:
        return 0.0
    return patience_s(scenario.group.session_timeout if isinstance(scenario.group, Group) else 0.0)


def open_transaction_s(scenario: Scenario) -> float:
    """Return the loads' longest transaction timeout in seconds."""
    transactions = (load.transaction for load in scenario.named_loads.values())
    return max((each.timeout for each in transactions if each), default=0.0)
