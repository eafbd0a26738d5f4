"""Keep sent records' times until they are answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusters.clients.ledger import NOT_SEEN, Ints

_BITS = 15
_PAGE = 1 << _BITS


class Sent(NamedTuple):
    """Columns of records, in the requested order."""

    due_ns: Ints
    sent_ns: Ints
    transaction: Ints  # ``NOT_SEEN``: none


class _Page:
    def __init__(self) -> None:
        self.columns = np.full((len(Sent._fields), _PAGE), NOT_SEEN)
        self.waits: NDArray[np.bool_] = np.zeros(_PAGE, np.bool_)

    def take(self, seqs: Ints) -> Ints:
        places = seqs & (_PAGE - 1)
        self.waits[places] = False
        taken: Ints = self.columns[:, places]
        return taken


class Unanswered:
    """Hold unanswered records in pages, dropped once none waits."""

    def __init__(self) -> None:
        self._pages: dict[int, _Page] = {}
        self.count = 0

    def add(self, first: int, due_ns: Ints, sent_ns: Ints, transaction: int | None) -> None:
        rows = (due_ns, sent_ns, np.full(sent_ns.size, NOT_SEEN if transaction is None else transaction))
        self.count += sent_ns.size
        for at in range(first >> _BITS, (first + sent_ns.size - 1 >> _BITS) + 1):
            begin, end = max(first, at << _BITS), min(first + sent_ns.size, at + 1 << _BITS)
            page = self._pages.get(at)
            if page is None:
                self._pages = {at: page for at, page in self._pages.items() if page.waits.any()}
                page = self._pages[at] = _Page()
            there = slice(begin - (at << _BITS), end - (at << _BITS))
            for column, row in zip(page.columns, rows, strict=True):
                column[there] = row[begin - first : end - first]
            page.waits[there] = True

    def take(self, seqs: Ints) -> Sent:
        self.count -= seqs.size
        of_page = seqs >> _BITS
        if seqs.size and (of_page == of_page[0]).all():
            return Sent(*self._pages[int(of_page[0])].take(seqs))
        found = np.empty((len(Sent._fields), seqs.size), np.int64)
        for at in np.unique(of_page).tolist():
            rows = of_page == at
            found[:, rows] = self._pages[at].take(seqs[rows])
        return Sent(*found)

    def left(self) -> Ints:
        return np.concatenate([np.zeros(0, np.int64), *self._waiting()])

    def _waiting(self) -> Iterator[Ints]:
        for at, page in sorted(self._pages.items()):
            yield np.flatnonzero(page.waits) + (at << _BITS)
