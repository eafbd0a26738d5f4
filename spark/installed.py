"""Lets a Python that Spark started import the installed pyspark, not Spark's own copy.

Spark puts ``pyspark.zip`` in front of every path. An archive's modules are compiled anew in each process: seven seconds
of a small run, in the driver and its workers.
"""

from __future__ import annotations

import re
import sys
from importlib.machinery import PathFinder

_COPY = re.compile(r"/(pyspark|py4j-[^/]*)\.zip$")


def prefer_installed() -> None:
    """Take Spark's archives off ``sys.path`` where pyspark and py4j are also found beside them."""
    others = [place for place in sys.path if not _COPY.search(place)]
    if all(PathFinder.find_spec(library, others) for library in ("pyspark", "py4j")):
        sys.path[:] = others
