"""Write docs/dev/segments.md, how fast segments are read, from docs/data/segments.json."""

from __future__ import annotations

from bench.segments import RESULTS, page_of


def pages() -> dict[str, str]:
    """Return the page."""
    return {"dev/segments.md": page_of(RESULTS)}
