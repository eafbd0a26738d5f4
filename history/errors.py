"""The project's exceptions.

PlimsollError
├── BadInput          an invalid request; exit code 3
│   └── NoDocker      a run needs Docker, and no daemon answers
├── HarnessError      the harness failed: a node did not start, a tool is missing
│   ├── WaitTimeout   a wait timed out; states the condition and the last observation
│   ├── NoController  the brokers know no controller
│   ├── NotRemoved    some items could not be removed; lists the removed ones
│   └── Refused       the cluster answered an operator with an error
└── EvidenceError     a run folder is truncated, of another format, or altered after sealing
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence

from history.exit_codes import BAD_INPUT

MAX_SENTENCE = 2_000  # some messages list every scenario, step or metric


class PlimsollError(Exception):
    """Base class of all deliberate exceptions."""


def one_line(sentence: str) -> str:
    """Escape control characters in a message that quotes input, and cut a long one's middle."""
    plain = "".join(char if char.isprintable() else repr(char)[1:-1] for char in sentence)
    if len(plain) <= MAX_SENTENCE:
        return plain
    return f"{plain[: MAX_SENTENCE * 2 // 3]} … {plain[-MAX_SENTENCE // 4 :]}"


class BadInput(PlimsollError):  # noqa: N818  # named after the input
    """Invalid input. One sentence names the problem, the value, and what is allowed."""

    exit_code = BAD_INPUT

    def __init__(self, sentence: str) -> None:
        super().__init__(one_line(sentence))


class NoDocker(BadInput):
    """A run needs Docker, and no daemon answers."""


class HarnessError(PlimsollError):
    """The harness failed; this says nothing about Kafka."""


LAST_SEEN = "; last seen: "  # in a WaitTimeout's message


class WaitTimeout(HarnessError):  # noqa: N818  # named after what happened
    """A condition was not met in time."""


class NoController(HarnessError):  # noqa: N818  # named after what happened
    """Brokers respond, but none is the controller or knows one."""


class Refused(HarnessError):  # noqa: N818  # named after what happened
    """The cluster answered with an error."""


class NotRemoved(HarnessError):  # noqa: N818  # named after what happened
    """Some items remain: ``reasons`` has one sentence each. ``removed`` lists the others."""

    def __init__(self, reasons: Sequence[str], removed: Sequence[str]) -> None:
        super().__init__(f"Not everything was removed. {' '.join(reasons)}")
        self.reasons, self.removed = reasons, removed


class EvidenceError(PlimsollError):
    """A run folder cannot be used as evidence."""

    def __init__(self, sentence: str) -> None:
        super().__init__(one_line(sentence))


# Operating system errors and their remedies.
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
    """Return a sentence: an operating system error's with remedy, else with the error's type."""
    return refusal(error) or f"{type(error).__name__}: {error}"


def refusal(error: BaseException) -> str:
    """Return an operating system error's sentence with remedy, else an empty string."""
    if not isinstance(error, OSError) or error.errno not in _REFUSALS:
        return ""
    where = f"{error.filename}: " if error.filename is not None else ""
    return f"{where}{error.strerror}; {_REFUSALS[error.errno]} and start again."


def remove_each(removals: Iterable[Callable[[], Iterable[str]]]) -> list[str]:
    """Call every function despite failures, and return all removed names.

    Raises:
        NotRemoved: after the last call, with one sentence per failure.
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
        except Exception as error:  # noqa: BLE001  # the remaining removals must run
            reasons.append(reason_of(error))
    if reasons:
        raise NotRemoved(reasons, removed)
    return removed
