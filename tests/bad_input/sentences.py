"""What a message of a rejection must be."""

from __future__ import annotations

from collections.abc import Sequence

from history.errors import MAX_SENTENCE


def wrong_with(sentence: str, says: Sequence[str] = ()) -> str | None:
    """Return why a message is not one sentence on one line with the expected words."""
    if not sentence.strip() or sentence.rstrip()[-1] not in ".…!?)":
        return "ends without a full stop"
    if len(sentence) > MAX_SENTENCE + 3:
        return f"has {len(sentence)} characters"
    if odd := next((char for char in sentence if not char.isprintable()), None):
        return f"has {odd!r} in it"
    return None if not says or any(part in sentence for part in says) else f"does not say {says[0]!r}"
