"""Wrap paragraphs, and write intervals."""

from __future__ import annotations

import textwrap

from campaigns.statistics.intervals import clopper_pearson


def prose(text: str, *, bullet: bool = False) -> list[str]:
    """Return a paragraph's lines."""
    start, more = ("- ", "  ") if bullet else ("", "")
    wide = textwrap.TextWrapper(118, initial_indent=start, subsequent_indent=more, break_on_hyphens=False)
    return wide.wrap(" ".join(text.split()))


def span(low: float, high: float, digits: int = 0) -> str:
    """Return an interval in percent."""
    return f"{100 * low:.{digits}f}–{high:.{digits}%}"


def share(events: int, of: int) -> str:
    """Return a share with its interval."""
    low, high = clopper_pearson(events, of)
    return f"{100 * events / of:.1f}% ({span(low, high, 1)})"
