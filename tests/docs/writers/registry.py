"""Which page of docs/ comes from which writer: the module of that name in this folder."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from tests.rows import ROOT

DOCS = ROOT / "docs"
WRITERS: Mapping[str, tuple[str, ...]] = {  # patterns of pages
    "checks": ("checks.md", "metrics.md"),
    "claims": ("claims.md",),
    "known_bugs": ("known-bugs.md",),
    "load_matrix": ("load-matrix.md",),
    "segments": ("dev/segments.md",),
    "trust": ("trust.md",),
}


def module(writer: str) -> ModuleType:
    """Return a writer; its ``pages()`` returns each page's text by name, ``add()`` takes in new results."""
    return import_module(f"tests.docs.writers.{writer}")


def names() -> set[str]:
    """Return the pages that a writer makes, as paths in docs/."""
    return {
        str(page.relative_to(DOCS)) for patterns in WRITERS.values() for each in patterns for page in DOCS.glob(each)
    }
