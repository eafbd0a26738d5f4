"""The project's exceptions.

PlimsollError
├── BadInput          the caller asked for something that cannot be done; exit code 3
├── HarnessError      the harness itself failed: a node did not start, a tool is missing
│   ├── WaitTimeout   a wait ran out; carries what was awaited and what was last seen
│   ├── NoController  the brokers know of no controller now
│   ├── NotRemoved    some of what was to be removed is still there; carries what was removed
│   └── Refused       the cluster's answer to an operator is an error
└── EvidenceError     a run folder is truncated, foreign or changed after it was sealed
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence

from history.exit_codes import BAD_INPUT

MAX_SENTENCE = 2_000  # characters of a refusal; some list every scenario, step or metric that there is


class PlimsollError(Exception):
    """Root of everything that this project raises on purpose."""


def one_line(sentence: str) -> str:
    """A sentence that quotes what others wrote: control characters escaped, the middle of a long one left out."""
    plain = "".join(char if char.isprintable() else repr(char)[1:-1] for char in sentence)
    if len(plain) <= MAX_SENTENCE:
        return plain
    return f"{plain[: MAX_SENTENCE * 2 // 3]} … {plain[-MAX_SENTENCE // 4 :]}"


class BadInput(PlimsollError):  # noqa: N818  # the sentence that users read begins with what was bad
    """What was asked for cannot be done: one sentence says what, which value, and what is allowed."""

    exit_code = BAD_INPUT

    def __init__(self, sentence: str) -> None:
        super().__init__(one_line(sentence))


class HarnessError(PlimsollError):
    """The harness failed; nothing is said about Kafka."""


LAST_SEEN = "; last seen: "  # in the words of a WaitTimeout


class WaitTimeout(HarnessError):  # noqa: N818  # named after what happened
    """A condition did not come true in time."""


class NoController(HarnessError):  # noqa: N818  # named after what happened
    """Brokers answer, and none of them is the controller, or knows of one."""


class Refused(HarnessError):  # noqa: N818  # named after what happened
    """The cluster was asked for something, and its answer is an error."""


class NotRemoved(HarnessError):  # noqa: N818  # named after what happened
    """Some of what was to be removed is still there: ``reasons`` has a sentence for each, ``removed`` is gone."""

    def __init__(self, reasons: Sequence[str], removed: Sequence[str]) -> None:
        super().__init__(f"Not everything was removed. {' '.join(reasons)}")
        self.reasons, self.removed = reasons, removed


class EvidenceError(PlimsollError):
    """A run folder cannot be read as evidence."""

    def __init__(self, sentence: str) -> None:
        super().__init__(one_line(sentence))


# What a machine refuses, and what to do about it.
_REFUSALS = {
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room on its disk, or raise the quota",
    errno.EROFS: "use a copy on a disk that can be written",
    errno.EACCES: "let your user write there, or use a copy of your own",
    errno.EPERM: "let your user write there, or use a copy of your own",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the host's limit of open files (sysctl fs.file-max)",
    errno.ENOMEM: "free memory, or use a larger machine",
    errno.EIO: "look at the disk (dmesg)",
}


def reason_of(error: BaseException) -> str:
    """What broke, in a sentence: of what the machine refused with what to do; of any other with the error's type."""
    return refusal(error) or f"{type(error).__name__}: {error}"


def refusal(error: BaseException) -> str:
    """What the machine refused and what to do; empty of anything else."""
    if not isinstance(error, OSError) or error.errno not in _REFUSALS:
        return ""
    where = f"{error.filename}: " if error.filename is not None else ""
    return f"{where}{error.strerror}; {_REFUSALS[error.errno]} and start again."


def remove_each(removals: Iterable[Callable[[], Iterable[str]]]) -> list[str]:
    """Call each, whatever becomes of the others; returns the names of what all of them removed.

    Raises:
        NotRemoved: after the last one; what one of them raised stands there as a sentence.
    """
    removed: list[str] = []
    reasons: list[str] = []
    for remove in removals:
        try:
            removed += remove()
        except NotRemoved as error:
            removed += error.removed
            reasons += error.reasons
        except PlimsollError as error:
            reasons.append(str(error))
        except Exception as error:  # noqa: BLE001  # what it is does not matter to what comes after it
            reasons.append(reason_of(error))
    if reasons:
        raise NotRemoved(reasons, removed)
    return removed
