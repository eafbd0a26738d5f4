"""Give bad inputs to the commands' functions: ``python -m tests.bad_input.documents`` writes docs/data/bad_input.json.

Inputs are mutations of valid documents, and handwritten ones (``by_hand.yaml``) for one rule each. They must be
rejected with their group's error, in one sentence, without a file, a process or a connection. Mutations that are still
valid do not count.
"""

from __future__ import annotations

import random
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NoReturn

from tests.bad_input.groups import Group, groups, inputs_by_hand
from tests.bad_input.mutations import Input
from tests.bad_input.sentences import wrong_with
from tests.rows import DATA, put, today

RESULTS = DATA / "bad_input.json"
SEED = 1
MEMORY_LIMIT = 8 << 30  # address space; libraries map most of it
INPUT_LIMIT_S = 60.0


@dataclass
class Count:
    """A group's result, with a sentence for each wrong reaction."""

    kind: str
    inputs: int = 0
    refused: int = 0
    by_hand: int = 0
    valid: int = 0
    wrong: list[str] = field(default_factory=list)


# --- trying the inputs -------------------------------------------------------------------------------

_STARTS = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.fork", "os.exec", "socket.connect", "pty.spawn")
_started: list[str] = []


@cache
def _watch() -> None:
    """Python cannot remove such a hook."""
    sys.addaudithook(lambda event, _: _started.append(event) if event in _STARTS else None)


class HungError(Exception):
    """An input exceeded its time limit."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise HungError in the main thread after ``seconds``."""

    def end(*_: object) -> NoReturn:
        raise HungError(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempt(group: Group, one: Input) -> tuple[bool, str | None]:
    """Return whether an input was rejected, and what was wrong."""
    _watch()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "given"
        folder.mkdir()
        _started.clear()
        try:
            with within(INPUT_LIMIT_S):
                group.feed(folder, one.content)
        except group.refusal as error:
            sentence = str(error)
        except Exception as error:  # noqa: BLE001  # any other exception is a finding
            return True, f"crashed: {type(error).__name__}: {error}"[:300]
        else:
            return False, None
        if _started:
            return True, f"started something: {_started[0]}"
        if (folder / "runs").exists() and list((folder / "runs").iterdir()):
            return True, "left a run folder"
        if Path("plimsoll-was-here").exists():
            return True, "ran the input's code"
        wrong = wrong_with(sentence, one.says)
        return True, f"{wrong}: {sentence[:200]}" if wrong else None


def count(group: Group, most: int | None = None) -> Count:
    """Try all handwritten inputs and some random mutations."""
    counted = Count(group.kind)
    for name, text in group.valid.items():
        bad, wrong = attempt(group, Input(name, text.encode()))
        if bad:
            counted.wrong.append(f"the valid document {name} is refused: {wrong}")
    seen: set[bytes] = set()
    told = list(inputs_by_hand(group))
    made = [each for text in group.valid.values() for each in group.mutations(text)]
    random.Random(SEED).shuffle(made)
    made.sort(key=lambda each: not each.always)
    wanted = group.most if most is None else most
    for number, one in enumerate([*told, *made]):
        if one.content in seen:
            continue
        if counted.inputs - counted.by_hand >= wanted and number >= len(told):
            break
        seen.add(one.content)
        bad, wrong = attempt(group, one)
        if not bad:
            counted.valid += 1
            if one.says:
                counted.wrong.append(f"by hand: {one.what}: accepted")
            continue
        counted.inputs += 1
        counted.by_hand += bool(one.says) and number < len(told)
        counted.refused += wrong is None
        if wrong:
            counted.wrong.append(f"{one.what}: {wrong}")
    return counted


def main(arguments: Sequence[str]) -> int:
    """Try all or the named groups; return the number of wrong reactions."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    wrong = 0
    told = []
    for group in groups():
        if arguments and group.kind not in arguments:
            continue
        counted = count(group)
        told.append(
            {"kind": group.kind, "inputs": counted.inputs, "refused": counted.refused, "by_hand": counted.by_hand}
            | {"refusal": group.refusal.__name__, "date": today()}
        )
        put(RESULTS, "kind", told)
        wrong += len(counted.wrong)
        print(f"{group.kind}: {counted.refused} of {counted.inputs} refused ({counted.by_hand} by hand)", flush=True)
        for sentence in counted.wrong:
            print(f"  {sentence}")
    refused, inputs = (sum(int(str(row[name])) for row in told) for name in ("refused", "inputs"))
    print(f"in all: {refused} of {inputs} refused")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
