"""Pydantic errors as text; clients lack pydantic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

Place = Sequence[int | str]


def dotted(place: Place) -> str:
    """Return ``load.rate`` for ``("load", "rate")``."""
    return ".".join(map(str, place))


def first_wrong(error: ValidationError, named: Callable[[Place], str] = dotted) -> str:
    """Return the first error with place and value."""
    first = error.errors()[0]
    path = named(first["loc"])
    if first["type"] == "missing":
        return f"{path} is missing"
    # Ours include the value.
    own = first["type"] == "value_error"
    what = first["msg"].removeprefix("Value error, ") if own else f"{first['msg']} (got {first['input']!r:.80})"
    return f"{path}: {what}" if path else what


def nearest_key(model: type[BaseModel], place: Place, other_names: Callable[[str], str] = str) -> str:
    """Return the model's key nearest to an unknown one, or "".

    ``other_names`` maps keys to users' names.
    """
    models: list[type[BaseModel]] = [model]
    for part in place[:-1]:
        fields = [each.model_fields[part] for each in models if part in each.model_fields]
        models = [found for field in fields for found in _models_in(field.annotation)] or models
    keys = [other_names(key) if each is model else key for each in models for key in each.model_fields]
    near = get_close_matches(str(place[-1]).lower(), keys, n=1, cutoff=0.7)
    return near[0] if near else ""


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models_in(part)]
