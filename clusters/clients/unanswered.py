"""The records that a producer sent and that have no answer yet: when each was due and sent, by its number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusters.clients.ledger import NOT_SEEN, Ints

_BITS = 15
_PAGE = 1 << _BITS


class Sent(NamedTuple):
    """Columns of some records, in the order in which they were asked for."""

    due_ns: Ints
    sent_ns: Ints
    transaction: Ints  # ``NOT_SEEN``: in none


class _Page:
    """A run of neighbouring numbers; those that were never sent do not wait."""

    def __init__(self) -> None:
        self.columns = np.full((len(Sent._fields), _PAGE), NOT_SEEN)
        self.waits: NDArray[np.bool_] = np.zeros(_PAGE, np.bool_)


class Unanswered:
    """Sent records without an answer. Memory goes with those, and not with all that were sent: a page is dropped once
    none of its records waits and others are sent.
    """

    def __init__(self) -> None:
        self._pages: dict[int, _Page] = {}
        self.count = 0

    def add(self, first: int, due_ns: Ints, sent_ns: Ints, transaction: int | None) -> None:
        """Records from a number on, in their order."""
        rows = np.array([due_ns, sent_ns, np.full(sent_ns.size, NOT_SEEN if transaction is None else transaction)])
        self.count += sent_ns.size
        for at in range(first >> _BITS, (first + sent_ns.size - 1 >> _BITS) + 1):
            begin, end = max(first, at << _BITS), min(first + sent_ns.size, at + 1 << _BITS)
            page = self._pages.get(at)
            if page is None:
                self._drop_done()
                page = self._pages[at] = _Page()
            there = slice(begin - (at << _BITS), end - (at << _BITS))
            page.columns[:, there] = rows[:, begin - first : end - first]
            page.waits[there] = True

    def _drop_done(self) -> None:
        self._pages = {at: page for at, page in self._pages.items() if page.waits.any()}

    def take(self, seqs: Ints) -> Sent:
        """Records that were answered; they wait no more."""
        found = np.empty((len(Sent._fields), seqs.size), np.int64)
        of_page = seqs >> _BITS
        for at in np.unique(of_page).tolist():
            page, rows = self._pages[at], of_page == at
            places = seqs[rows] & (_PAGE - 1)
            found[:, rows] = page.columns[:, places]
            page.waits[places] = False
        self.count -= seqs.size
        return Sent(*found)

    def left(self) -> Ints:
        """The numbers of those that wait, in their order."""
        return np.concatenate([np.zeros(0, np.int64), *self._waiting()])

    def _waiting(self) -> Iterator[Ints]:
        for at, page in sorted(self._pages.items()):
            yield np.flatnonzero(page.waits) + (at << _BITS)
