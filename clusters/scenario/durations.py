"""Estimate how long a scenario's steps take, and set the limits after which steps and phases are aborted."""

from __future__ import annotations

from clusters.scenario.groups import Group, ShareGroup
from clusters.scenario.scenario import Load, Phase, Scenario
from clusters.scenario.steps.flow import STEADY_STATE_S, SetRate, Wait, Write
from clusters.scenario.steps.step import Step
from history.readers import patience_s
from history.share_groups import still_s

_STEP_S = 2.0
_RESTART_S = 8.0
_SLOWEST = 4  # factor for a busy host
_MARGIN_S = 120.0  # binding targets, healing and the capture at a phase's end, on a busy host
_WRITE_S = 30.0  # a disconnected leader answers each request after 10 s
_REQUEST_S = 0.02  # an answered request, on a busy host
_LAST_REQUEST_S = 15.0  # the last request of an aborted write
_DRAINED_PER_S = 5000.0  # records, on a busy host: less than half of the possible rate
_MIN_DRAIN_S, MAX_DRAIN_S = 120.0, 3600.0


def expected_phase_s(phase: Phase) -> float:
    """Return a phase's expected seconds if a tenth of its wait limits is used, as in an hour of faults."""
    return sum(map(_expected_s, phase.steps))


def longest_phase_s(phase: Phase) -> float:
    """Return the seconds after which a phase hangs: all holds, full limits, slow steps, and a margin."""
    longest = (_held_s(step) + _limit_s(step) + _gives_up_s(step) + _SLOWEST * _works_s(step) for step in phase.steps)
    return _MARGIN_S + sum(longest)


def drain_limit_s(scenario: Scenario) -> float:
    """Return the seconds after which the final drain stops, from the largest possible number of records."""
    return min(max(expected_records(scenario) / _DRAINED_PER_S, _MIN_DRAIN_S), MAX_DRAIN_S)


def expected_records(scenario: Scenario) -> float:
    """Return the records that a run writes at the highest rate of each load."""
    highest = {name: load.peak_rate for name, load in scenario.named_loads.items()}
    for step in (step for phase in scenario.phases for step in phase.steps if isinstance(step, SetRate)):
        name = scenario.load_name(step.load)
        highest[name] = max(highest[name], step.rate)
    return sum(highest.values()) * sum(map(expected_phase_s, scenario.phases))


def expected_bytes(scenario: Scenario) -> float:
    """Return the bytes of the loads' records in the logs of all replicas."""
    loads = scenario.named_loads
    rates = {name: load.usual_rate for name, load in loads.items()}
    of_record = {name: _kept_bytes(load) * len(scenario.topics[load.topic].replicas) for name, load in loads.items()}
    total = 0.0
    for step in (step for phase in scenario.phases for step in phase.steps):
        if isinstance(step, SetRate):
            rates[scenario.load_name(step.load)] = step.rate
        total += _expected_s(step) * sum(rate * of_record[name] for name, rate in rates.items())
    return total


def _kept_bytes(load: Load) -> float:
    """Return the mean stored bytes of a record; repetitive padding compresses to almost nothing."""
    if load.compression == "none":
        return load.sizes.mean
    return load.sizes.mean * ((load.payload.compresses_to or 1.0) if load.payload else 0.0)


def answers_s(scenario: Scenario) -> float:
    """Return the longest delivery timeout of the loads in seconds; 0.0 without a load."""
    return max((load.delivery_timeout for load in scenario.named_loads.values()), default=0.0)


def settle_s(scenario: Scenario) -> float:
    """Return the seconds without a delivery after which a share group is idle; 0.0 without one."""
    return still_s(scenario.group.lock) + 1 if isinstance(scenario.group, ShareGroup) else 0.0


def catch_up_s(scenario: Scenario) -> float:
    """Return the seconds without progress after which a reader that is not at the end is stuck; 0.0 without a load."""
    if not scenario.named_loads:
        return 0.0
    return patience_s(scenario.group.session_timeout if isinstance(scenario.group, Group) else 0.0)


def open_transaction_s(scenario: Scenario) -> float:
    """Return the longest transaction timeout of the loads in seconds; 0.0 without transactions."""
    transactions = (load.transaction for load in scenario.named_loads.values())
    return max((each.timeout for each in transactions if each), default=0.0)


def write_limit_s(step: Write) -> float:
    """Return the seconds after which a write sends no more records."""
    return _WRITE_S + _REQUEST_S * step.records / step.batch


def _gives_up_s(step: Step) -> float:
    return write_limit_s(step) + _LAST_REQUEST_S if isinstance(step, Write) else 0.0


def _expected_s(step: Step) -> float:
    return _held_s(step) + _limit_s(step) / 10 + _works_s(step)


def _held_s(step: Step) -> float:
    """Return the step's required seconds; ``after`` is between the deaths of a crash loop."""
    watched_s = STEADY_STATE_S if isinstance(step, Wait) and step.condition.steady_state else 0.0
    return float(getattr(step, "seconds", 0.0)) + float(getattr(step, "after", 0.0)) * len(step.breaks) + watched_s


def _limit_s(step: Step) -> float:
    return float(getattr(step, "limit", 0.0))


def _works_s(step: Step) -> float:
    """Return the seconds of a step's work without hold or wait; a step that is not a fault also heals what it
    breaks.
    """
    if hasattr(step, "seconds") or hasattr(step, "limit"):
        return 0.0
    restarts = 0 if step.fault else len(step.breaks)
    return _STEP_S * getattr(step, "times", 1) + _RESTART_S * restarts
