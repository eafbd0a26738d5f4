"""Try cases one at a time and keep each row at once, so that an interrupted experiment continues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from history.errors import BadInput
from tests.rows import Row, put, read

Case = TypeVar("Case")


def nothing_wrong(_: Row) -> Sequence[str]:
    """Return nothing: a row of this experiment is a figure without an expected result."""
    return ()


@dataclass(frozen=True)
class Experiment(Generic[Case]):
    """Cases and the rows of their tries, one per ``key``.

    ``cases`` returns the outstanding ones for the words of the command line; ``attempt`` returns None if its try does
    not count; ``wrong`` returns what a row should not contain.
    """

    file: Path
    key: str
    cases: Callable[[Sequence[str]], Iterable[Case]]
    attempt: Callable[[Case], Row | None]
    words: Callable[[Row], str]
    wrong: Callable[[Row], Sequence[str]] = nothing_wrong
    order: Callable[[Row], Any] | None = None

    def __call__(self, arguments: Sequence[str]) -> int:
        """Try the outstanding cases; return 1 if a row is wrong."""
        for case in self.cases(arguments):
            if row := self.attempt(case):
                put(self.file, self.key, [row], self.order)
                print(f"{self.words(row)}: {'; '.join(self.wrong(row)) or 'as expected'}", flush=True)
        rows = read(self.file)
        bad = [row[self.key] for row in rows if self.wrong(row)]
        print(f"{len(rows)} rows, {len(bad)} with something wrong: {bad}")
        return 1 if bad else 0


def of_cases(
    file: Path,
    key: str,
    cases: Mapping[str, Case],
    *,
    attempt: Callable[[Case], Row | None],
    words: Callable[[Row], str],
    wrong: Callable[[Row], Sequence[str]] = nothing_wrong,
) -> Experiment[Case]:
    """Return an experiment of named cases: it tries the named ones, or those without a row."""
    places = {name: place for place, name in enumerate(cases)}

    def outstanding(names: Sequence[str]) -> list[Case]:
        if unknown := set(names) - cases.keys():
            raise BadInput(f"There is no case {min(unknown)!r}; known: {', '.join(cases)}.")
        done = {row[key] for row in read(file)}
        return [cases[name] for name in names or [name for name in cases if name not in done]]

    return Experiment(file, key, outstanding, attempt, words, wrong, lambda row: places.get(row[key], len(places)))
