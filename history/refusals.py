"""Pydantic errors as text. Separate, because clients lack pydantic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import ValidationError

Place = Sequence[int | str]


def dotted(place: Place) -> str:
    """Return ``load.rate`` for ``("load", "rate")``."""
    return ".".join(map(str, place))


def first_wrong(error: ValidationError, named: Callable[[Place], str] = dotted) -> str:
    """Return the first validation error with place (by ``named``) and value."""
    first = error.errors()[0]
    path = named(first["loc"])
    if first["type"] == "missing":
        return f"{path} is missing"
    # Our messages include the value; pydantic's do not.
    own = first["type"] == "value_error"
    what = first["msg"].removeprefix("Value error, ") if own else f"{first['msg']} (got {first['input']!r:.80})"
    return f"{path}: {what}" if path else what
