"""Records in flight are found by number, and their memory is freed once they are answered."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clusters.clients.ledger import NOT_SEEN
from clusters.clients.unanswered import _PAGE, Unanswered


def test_an_answer_finds_when_its_record_was_due_and_sent() -> None:
    """An answer finds its record's due time, sent time and transaction, in any order and across pages."""
    waiting = Unanswered()
    first = _PAGE - 2
    waiting.add(first, np.arange(4) * 10, np.array([5, 15, 25, 35]), None)
    waiting.add(first + 4, np.array([40]), np.array([45]), 7)
    taken = waiting.take(np.array([first + 4, first + 3, first]))

    assert taken.due_ns.tolist() == [40, 30, 0]
    assert taken.sent_ns.tolist() == [45, 35, 5]
    assert taken.transaction.tolist() == [7, NOT_SEEN, NOT_SEEN]
    assert waiting.count == 2
    assert waiting.left().tolist() == [first + 1, first + 2]


@given(st.lists(st.integers(1, 3 * _PAGE), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_memory_goes_with_what_waits(bursts: list[int], random) -> None:  # type: ignore[no-untyped-def]  # Hypothesis' own type
    """Pages without records in flight are dropped, so memory does not grow with the number of records sent."""
    waiting, first, kept = Unanswered(), 0, set[int]()
    for burst in bursts:
        waiting.add(first, np.zeros(burst, np.int64), np.zeros(burst, np.int64), None)
        left = random.randrange(first, first + burst)
        kept.add(left)
        waiting.take(np.setdiff1d(np.arange(first, first + burst), [left]))
        first += burst + random.randrange(_PAGE)

    assert waiting.left().tolist() == sorted(kept)
    assert len(waiting._pages) <= 2 * len(kept) + 4
