"""Names and values as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Others lose underscores.
_NAMES = {
    "broker_id": "broker",
    "consumer_id": "consumer",
    "producer_id": "producer",
    "hw": "high watermark",
    "hw_read_first": "high watermark",
    "leader_hw": "leader's high watermark",
    "follower_hw": "follower's high watermark",
    "isr": "ISR",
    "isr_before": "ISR before",
    "elr": "ELR",
    "elr_before": "ELR before",
    "leo": "log end offset",
    "seq": "record",
}
# Other names in _ns are points in time.
_LENGTHS = {
    "pending_ns": "pending for",
    "quiet_ns": "nothing produced for",
    "still_ns": "nothing moved for",
    "waited_ns": "waited for",
}


def counted(count: int, what: str, many: str = "") -> str:
    """Return ``1 time``, ``1,200 times``; ``many`` is an irregular plural."""
    return f"{count:,} {what if count == 1 else many or f'{what}s'}"


def some_of(things: Sequence[object], most: int = 5) -> str:
    """Return ``orders-0, orders-1 and 3 more``."""
    first = ", ".join(map(str, things[:most]))
    return first if len(things) <= most else f"{first} and {len(things) - most:,} more"


def listed(names: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    return " and ".join([part for part in (", ".join(names[:-1]), *names[-1:]) if part])


def in_words(values: Mapping[str, Any], origin_ns: int | None = None) -> str:
    """Return ``broker 3, high watermark 90, at +12.300 s``.

    Times count from ``origin_ns``.
    """
    known = ((name, value) for name, value in values.items() if value is not None)
    return ", ".join(text for name, value in known if (text := _pair(name, value, origin_ns)))


def _pair(name: str, value: Any, origin_ns: int | None) -> str:
    if name in _LENGTHS:
        return f"{_LENGTHS[name]} {value / 1e9:.1f} s"
    if not name.endswith("_ns"):
        return f"{_called(name)} {_value(value, origin_ns)}"
    what = "" if name in ("t_ns", "at_ns") else f"{_called(name.removesuffix('_ns'))} "
    return "" if origin_ns is None else f"{what}at {_moments(value, origin_ns)}"


def _moments(value: Any, origin_ns: int) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_moments(one, origin_ns) for one in value)}]"
    return f"{(value - origin_ns) / 1e9:+,.3f} s"


def _called(name: str) -> str:
    return _NAMES.get(name, name.replace("_", " "))


def _value(value: Any, origin_ns: int | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return f"({in_words(value, origin_ns)})" if value else "none"
    if isinstance(value, list):
        each = ", ".join(_value(one, origin_ns) for one in value) or "none"
        return f"[{each}]" if len(value) > 1 else each
    return str(value)
