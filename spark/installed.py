"""Make Spark's Python processes import the installed pyspark, not Spark's copy.

Spark puts ``pyspark.zip`` first. Each process compiles an archive's modules again, 7 s of a small run.
"""

from __future__ import annotations

import re
import sys
from importlib.machinery import PathFinder

_COPY = re.compile(r"/(pyspark|py4j-[^/]*)\.zip$")


def prefer_installed() -> None:
    """Remove Spark's archives from ``sys.path`` if pyspark and py4j are installed."""
    others = [place for place in sys.path if not _COPY.search(place)]
    if all(PathFinder.find_spec(library, others) for library in ("pyspark", "py4j")):
        sys.path[:] = others
