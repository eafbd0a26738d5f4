"""Name the reason why a run could not be judged."""

from __future__ import annotations

import re

from history.errors import EvidenceError

# What a message of Spark has → the reason; the first match counts. Groups are named in the reason.
_REASONS = {
    r"(?:OSError|MemoryError): (The recorded tables could not be read .+|A Python worker had too little memory .+)": (
        "{0}"
    ),
    r"Total size of serialized results of \d+ tasks \((.+?)\) is bigger than spark.driver.maxResultSize \((.+?)\)": (
        "The partitions' results ({0}) exceed spark.driver.maxResultSize ({1}); raise it in the conf of spark_default."
    ),
    r"(java\.lang\.OutOfMemoryError[^\n]*)": (
        "Spark's JVM had too little memory ({0}); raise driver-memory or executor-memory in spark_default."
    ),
    r"ExecutorLostFailure \(executor (\S+) [^\n]*?Reason: ([^\n]+)": "Spark lost executor {0}: {1}",
    r"(Python worker exited unexpectedly[^\n]*|Python worker .*?crashed[^\n]*)": (
        "A Python worker was killed while it judged, as the kernel does if memory runs out ({0})."
    ),
}


def reason_of(error: Exception) -> str | None:
    """Return the reason in one sentence; None if the judge itself is wrong."""
    if isinstance(error, EvidenceError):
        return str(error)
    if isinstance(error, OSError):
        return f"The run folder could not be read or written: {error}"
    text = str(error)
    for pattern, reason in _REASONS.items():
        if found := re.search(pattern, text):
            return reason.format(*(group.strip()[:300] for group in found.groups()))
    return None
