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
    "profiles": ("verdicts.md",),
    "requests": ("own-cluster-safety.md",),
    "segments": ("dev/segments.md",),
    "trust": ("trust.md",),
}
PARTLY = {"own-cluster-safety.md", "verdicts.md"}  # a writer makes only a part of these


def module(writer: str) -> ModuleType:
    """Return a writer; its ``pages()`` returns each page's text by name, ``add()`` takes in new results."""
    return import_module(f"tests.docs.writers.{writer}")


def names() -> set[str]:
    """Return the pages that a writer makes as a whole, as paths in docs/."""
    found = (page for patterns in WRITERS.values() for each in patterns for page in DOCS.glob(each))
    return {str(page.relative_to(DOCS)) for page in found} - PARTLY
