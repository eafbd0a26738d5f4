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
    r"Most recent failure reason: (?:\S+\.)?(?:Metadata)?FetchFailed\w*: ([^\n]+)": (
        "Spark lost the executors that judged, as often as it tries again: {0}"
    ),
    r"Python worker exited unexpectedly": (
        "A Python worker was killed while it judged; the kernel does this if memory runs out."
    ),
    r"thrown from the Python worker:\s+Traceback .*\n(?: +.*\n)+([^ ].*)": "The judge itself failed: {0}",
    r"Job aborted due to stage failure: (.+)": "Spark could not finish the application: {0}",
}


def reason_of(error: Exception) -> str:
    """Return the reason in one sentence."""
    if isinstance(error, EvidenceError):
        return str(error)
    if isinstance(error, ConnectionError):
        return f"Spark's driver ended while it judged: {error}"
    if isinstance(error, OSError):
        return f"The run folder could not be read or written: {error}"
    for pattern, reason in _REASONS.items():
        if found := re.search(pattern, str(error)):
            return reason.format(*(group.strip()[:300] for group in found.groups()))
    return f"The judge itself failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
