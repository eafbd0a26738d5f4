"""The project's exceptions."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence

from history.exit_codes import BAD_INPUT

MAX_SENTENCE = 2_000  # some messages list all steps


class PlimsollError(Exception):
    """Base class of the project's exceptions."""


def one_line(sentence: str) -> str:
    """Escape control characters and shorten a long message."""
    plain = "".join(char if char.isprintable() else repr(char)[1:-1] for char in sentence)
    if len(plain) <= MAX_SENTENCE:
        return plain
    return f"{plain[: MAX_SENTENCE * 2 // 3]} … {plain[-MAX_SENTENCE // 4 :]}"


class BadInput(PlimsollError):  # noqa: N818  # named after the input
    """Invalid input; the message says what is allowed."""

    exit_code = BAD_INPUT

    def __init__(self, sentence: str) -> None:
        super().__init__(one_line(sentence))


class BadKafka(BadInput):
    """A version or build of Kafka is refused; ``why`` follows its name."""

    def __init__(self, kafka: str, why: str) -> None:
        super().__init__(f"--kafka={kafka}{why}")
        self.kafka, self.why = kafka, why


class NoDocker(BadInput):
    """A run needs Docker, and no daemon responds."""


class HarnessError(PlimsollError):
    """The harness failed, not Kafka."""


LAST_SEEN = "; last seen: "


class WaitTimeout(HarnessError):  # noqa: N818  # named after what happened
    """A condition was not met in time; the message has the last observation."""


class NoController(HarnessError):  # noqa: N818  # named after what happened
    """The brokers know no controller."""


class Refused(HarnessError):  # noqa: N818  # named after what happened
    """The cluster answered with an error."""


class NotRemoved(HarnessError):  # noqa: N818  # named after what happened
    """Some items remain, with a reason each."""

    def __init__(self, reasons: Sequence[str], removed: Sequence[str]) -> None:
        super().__init__(f"Not everything was removed. {' '.join(reasons)}")
        self.reasons, self.removed = reasons, removed


class EvidenceError(PlimsollError):
    """A run folder is truncated, of another format, or altered after sealing."""

    def __init__(self, sentence: str) -> None:
        super().__init__(one_line(sentence))


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
    """Return an operating system error's sentence with remedy, or another error with its type."""
    return refusal(error) or f"{type(error).__name__}: {error}"


def refusal(error: BaseException) -> str:
    """Return an operating system error's sentence, or ""."""
    if not isinstance(error, OSError) or error.errno not in _REFUSALS:
        return ""
    where = f"{error.filename}: " if error.filename is not None else ""
    return f"{where}{error.strerror}; {_REFUSALS[error.errno]} and start again."


def remove_each(removals: Iterable[Callable[[], Iterable[str]]]) -> list[str]:
    """Call all functions despite failures, and return the removed names.

    Raises: NotRemoved: with a sentence per failure.
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
