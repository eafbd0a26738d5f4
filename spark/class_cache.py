"""Keep a JVM's loaded classes for the next judgements, which then need a third less CPU (JEP 483, 514, 515)."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from history.java import Java

FOLDER = Path(__file__).parents[1] / ".cache" / "java"
_SINCE = 25  # the Java with one-step caches
_SILENT = "-Xlog:disable"  # what does not fit is loaded anew, with warnings


@contextmanager
def class_cache(java: Java, options: str) -> Iterator[str]:
    """Yield ``options`` with the cache of a JVM that has them; the first JVM writes the cache when it ends."""
    if java.feature < _SINCE:
        yield options
        return
    made_of = hashlib.sha256(repr((str(java), pyspark.__version__, options)).encode()).hexdigest()[:12]
    cache = FOLDER / f"spark-{made_of}.aot"
    if cache.is_file():
        yield f'{options} {_SILENT} "-XX:AOTCache={cache}"'
        return
    told = "Keeping Spark's loaded classes for later judgements, once (about half a minute) …"
    print(told, file=sys.stderr, flush=True)  # noqa: T201  # a person waits for it
    FOLDER.mkdir(parents=True, exist_ok=True)
    new = cache.with_suffix(f".new-{os.getpid()}")
    try:
        yield f'{options} {_SILENT} "-XX:AOTCacheOutput={new}"'
        if new.is_file():
            new.replace(cache)
    finally:
        new.unlink(missing_ok=True)
