"""What a pydantic model refused, as part of a sentence. Apart from the errors, which clients without pydantic need."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import ValidationError

Place = Sequence[int | str]


def dotted(place: Place) -> str:
    """``("load", "rate")`` → load.rate."""
    return ".".join(map(str, place))


def first_wrong(error: ValidationError, named: Callable[[Place], str] = dotted) -> str:
    """The first thing that a model refused, with its place in the words of ``named`` and its value."""
    first = error.errors()[0]
    path = named(first["loc"])
    if first["type"] == "missing":
        return f"{path} is missing"
    # Our own sentences name the value; pydantic's do not.
    own = first["type"] == "value_error"
    what = first["msg"].removeprefix("Value error, ") if own else f"{first['msg']} (got {first['input']!r:.80})"
    return f"{path}: {what}" if path else what
