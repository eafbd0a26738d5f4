"""Describe how the effect or the recovery of a fault was verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from history import words

_PROBE = {
    "connection refused": "its port refuses connections",
    "timeout": "its port accepts connections and nothing answers",
    "answers": "it answers",
}
# Observations of ``clusters/faults``; others are shown by name and value.
_CLAUSES: dict[str, Callable[[Any], str]] = {
    "probe": lambda value: _PROBE.get(value, value),
    "registered": lambda _: "other brokers list it",
    "killed": lambda nodes: f"{_all(nodes)} did not end by itself and got SIGKILL",
    "member": lambda value: f"it {value}",
    "assigned": lambda _: "its group gave it partitions",
    "process": lambda value: f"its process has {value}",
    "copies": lambda _: "it commits transactions again",
    "packets": lambda number: f"the kernel dropped {words.counted(number, 'packet')}",
    "rules": lambda number: f"{words.counted(number, 'rule')} in place" if number else "no rules left",
    "passed_bytes": lambda number: f"{words.counted(number, 'byte')} passed the limit",
    "classes": lambda number: f"{words.counted(number, 'limit')} in place" if number else "no limits left",
    "held_back": lambda number: f"it held something back {words.counted(number, 'time')}",
    "died_coming_back": lambda nodes: f"{_all(nodes)} ended by itself on its way back and was started again",
    "round_trip_ms": lambda value: "; ".join(
        f"round trips {when}: {_all(f'{ms:g} ms to {name}' for name, ms in each.items())}"
        for when, each in value.items()
    ),
    "near": lambda share: f"{share:.0%} of its samples trailed by half to twice the configured lag",
    "lag": lambda records: f"it trails by {words.counted(records, 'record')}",
    "throttled_periods": lambda numbers: f"the kernel held it back in {_all(numbers)} periods",
    "free_bytes": lambda numbers: f"{_all(numbers)} bytes are free",
    "log": lambda value: f"its log says: {value if isinstance(value, str) else '; '.join(value)}",
    "replicas": lambda value: _placed(value) if isinstance(value, Mapping) else f"the assignment is {_all(value)}",
    "led": lambda brokers: f"brokers {_all(brokers)} led in turn",
    "epochs": lambda epochs: f"the leader epoch went from {epochs[0]} to {epochs[1]}",
    "in_sync": lambda value: f"in sync: {value if isinstance(value, str) else _all(value)}",
    "log_starts": lambda starts: "logs start at " + _all(f"{at} on broker {broker}" for broker, at in starts.items()),
    "set": lambda changes: "; ".join(_setting(*change) for change in changes),
    "deleted": lambda name: f"{name} is gone",
    "written": lambda name: f"it wrote {name} again",
    "fits_checksum": lambda fits: f"the batch {'fits' if fits else 'does not fit'} its checksum",
}
_LAGS = ("lag_min", "lag_median", "lag_max", "samples")


def sentence(seen: Mapping[str, Any]) -> str:
    """Describe the observations, such as ``its port refuses connections``."""
    clauses = [_clause(name, value) for name, value in seen.items() if name in _CLAUSES and value is not None]
    rest = {name: value for name, value in seen.items() if name not in _CLAUSES}
    if all(name in rest for name in _LAGS):
        least, middle, most, samples = (rest.pop(name) for name in _LAGS)
        clauses.append(
            f"in the ISR it trailed by {least:,} to {most:,} records, median {middle:,} ({samples:,} samples)"
        )
    return ", ".join(filter(None, [*clauses, words.in_words(rest)]))


def _clause(name: str, value: Any) -> str:
    try:
        return _CLAUSES[name](value)
    except (AttributeError, IndexError, TypeError, ValueError):  # another version's record may have another shape
        return words.in_words({name: value})


def _all(values: Iterable[Any]) -> str:
    each = [f"{value:,}" if isinstance(value, int) else str(value) for value in values]
    return " and ".join(filter(None, [", ".join(each[:-1]), *each[-1:]])) or "none"


def _placed(replicas: Mapping[str, Iterable[int]]) -> str:
    return "; ".join(f"{partition} is on brokers {_all(brokers)}" for partition, brokers in replicas.items())


def _setting(resource: str, name: str, values: Mapping[str, Any]) -> str:
    clauses = _all(f"{key} {'as it was' if value is None else value}" for key, value in values.items())
    return f"{resource} {name} has {clauses}"
