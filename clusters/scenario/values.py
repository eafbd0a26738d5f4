"""Basic values of scenarios and the base class of their models."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from history.anomalies import CONTROLS

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def _parser(pattern: str, what: str, convert: Callable[[re.Match[str]], float]) -> Callable[[object], object]:
    """Return a parser of texts; it passes other values on."""

    def parse(value: object) -> object:
        if not isinstance(value, str):
            return value
        match = re.fullmatch(pattern, value)
        if not match:
            raise ValueError(f"{value!r} is not {what}")
        return convert(match)

    return parse


seconds = _parser(
    r"(\d+(?:\.\d+)?)\s*(ms|s|m)",
    "a duration such as 500ms, 5s or 2m",
    lambda match: float(match[1]) * _UNITS[match[2]],
)
_long_seconds = _parser(
    r"(\d+(?:\.\d+)?)\s*(s|m|h)",
    "a duration such as 30s, 5m or 1h",
    lambda match: float(match[1]) * _UNITS[match[2]],
)
_per_second = _parser(r"(-?\d+(?:\.\d+)?)\s*/\s*s", "a rate such as 1000/s", lambda match: float(match[1]))
_bytes_per_second = _parser(
    r"(\d+(?:\.\d+)?)\s*([kMG]?)B\s*/\s*s",
    "a data rate such as 20MB/s",
    lambda match: float(match[1]) * _PREFIXES[match[2]],
)
_bytes = _parser(r"(\d+)\s*([kMG]?)B", "a size such as 64MB", lambda match: int(match[1]) * _PREFIXES[match[2]])
_share = _parser(r"(\d+(?:\.\d+)?)\s*%", "a share such as 50%", lambda match: float(match[1]) / 100)


def _setting(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _release(value: object) -> object:
    """Convert a release that YAML reads as a number."""
    return str(value) if isinstance(value, float) else value


def _acks(value: object) -> object:
    """Convert ``acks: 1``, a number in YAML, to text."""
    return str(value) if isinstance(value, int) else value


def is_none(value: object) -> bool:
    """Omit new fields, to keep old scenarios' digests."""
    return value is None


def without_none(mapping: dict[str, Any]) -> dict[str, Any]:
    """Return the mapping without its None values."""
    return {name: value for name, value in mapping.items() if value is not None}


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(seconds)]
LongSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(_long_seconds)]
PerSecond = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(_per_second)]
BytesPerSecond = Annotated[float, Field(ge=1000, allow_inf_nan=False), BeforeValidator(_bytes_per_second)]
Bytes = Annotated[int, Field(gt=0), BeforeValidator(_bytes)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_share)]
CpuSet = Annotated[str, Field(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")]


def _starts_nothing(flag: str) -> str:
    """Reject flags that run a command (OnError) or read flags from files."""
    if match := re.match(r"-XX:(OnError|OnOutOfMemoryError|Flags|VMOptionsFile)\b", flag):
        raise ValueError(f"jvm_flags: {match[0]} makes the JVM run a command or read flags elsewhere; leave it out")
    return flag


JvmFlag = Annotated[  # use ``heap`` for the heap
    str, Field(pattern=r"^-(server$|XX:\S+|Xss\S+|Xlog:\S+|D\S+)$"), AfterValidator(_starts_nothing)
]
JavaVersion = Annotated[str, BeforeValidator(str)]
MetadataVersion = Annotated[str, Field(pattern=r"^\d+\.\d+(-IV\d+)?$"), BeforeValidator(_release)]
KafkaRelease = Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
Acks = Annotated[Literal["0", "1", "all"], BeforeValidator(_acks)]
Rack = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]{0,39}$")]
Settings = dict[str, Annotated[str, BeforeValidator(_setting)]]


class Model(BaseModel):
    """A model that rejects an unknown field and names the known ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def names(cls) -> list[str]:
        return [field.alias or name for name, field in cls.model_fields.items()]

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, value: object) -> object:
        known = cls.names()
        if isinstance(value, dict) and (unknown := [name for name in value if name not in known]):
            raise ValueError(f"unknown field {unknown[0]!r}; known: {', '.join(known)}")
        return value


def _control(name: str) -> str:
    if name not in CONTROLS:
        raise ValueError(f"{name!r} is no control; one of {', '.join(CONTROLS)}")
    return name


Control = Annotated[str, AfterValidator(_control)]  # the anomaly that a sound judge must detect
