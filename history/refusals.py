"""What a pydantic model refused, as part of a sentence. Apart from the errors, which clients without pydantic need."""

from __future__ import annotations

from pydantic import ValidationError


def first_wrong(error: ValidationError) -> str:
    """The first thing that a model refused, with its place and value, as the end of a sentence."""
    first = error.errors()[0]
    path = ".".join(map(str, first["loc"]))
    # Our own sentences name the value; pydantic's do not.
    own = first["type"] == "value_error"
    what = first["msg"].removeprefix("Value error, ") if own else f"{first['msg']} (got {first['input']!r:.80})"
    return f"{path}: {what}" if path else what
