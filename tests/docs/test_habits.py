"""Which phrases are counted as habits."""

import pytest

from tests.docs.habits import habits_in

COUNTED = {
    "A client tells its rate.": "tells",
    "The record stands at two offsets.": "stands",
    "Nobody knows the offset.": "nobody knows",
    "Of a record that was lost the key is kept.": "of a",
    "A control is run beside it.": "beside",
    "The container is gone.": "is gone",
    "Checks that are owed.": "owed",
    "What a version cannot have is refused.": "what a version cannot",
    "The page says how many.": "page says",
    "The folder stays as it is.": "as it is",
    "No result is shown.": "no result is",
    "Refused is a build without jars.": "refused is",
}
PLAIN = [
    "A client reports its rate.",
    "The leader stands still; three brokers stand alone.",
    "What is a probe? What does it read?",
    "The record is at two offsets.",
    "The checks tell apart two causes.",
]


@pytest.mark.parametrize("sentence", COUNTED)
def test_a_habit_is_counted_once(sentence: str) -> None:
    """Each sentence has one, which is named."""
    assert habits_in(sentence) == {COUNTED[sentence]: 1}


@pytest.mark.parametrize("sentence", PLAIN)
def test_plain_sentences_have_none(sentence: str) -> None:
    """Neither do words that merely look alike."""
    assert habits_in(sentence) == {}
