"""Evidence and details in words."""

import pytest

from history.words import in_words, some_of


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"broker_id": 1, "hw_read_first": 9020, "log_end_offset": 9019, "t_ns": 5_300_000_000},
            "broker 1, high watermark 9020, log end offset 9019, at +3.300 s",
        ),
        (
            {"isr": [1, 2], "leader": 1, "leader_hw": 100, "quiet_ns": 30_201_216_309, "members": None},
            "ISR [1, 2], leader 1, leader's high watermark 100, nothing produced for 30.2 s",
        ),
        ({"leader_hw_ns": 1_500_000_000}, "leader's high watermark at -0.500 s"),
        ({"hw": [5, 3], "at_ns": [2_100_000_000, 3_000_000_000]}, "high watermark [5, 3], at [+0.100 s, +1.000 s]"),
        ({"read": {"producer_id": "producer", "seq": 7}}, "read (producer producer, record 7)"),
        ({"leaders": {"1": ["broker_log"], "2": []}}, "leaders (1 broker_log, 2 none)"),
        ({"effect_verified": True, "in_isr": False}, "effect verified yes, in isr no"),
        ({}, ""),
    ],
)
def test_names_and_values_are_words(values, words):
    """No braces, no quotes, no nanoseconds; what is unknown is left out."""
    assert in_words(values, 2_000_000_000) == words


def test_moments_need_an_origin():
    """A clock without its zero says nothing; a length does."""
    assert in_words({"t_ns": 5_300_000_000, "waited_ns": 5_300_000_000}) == "waited for 5.3 s"


def test_of_many_things_some_are_named() -> None:
    """The rest is counted; where all can be named, they are."""
    assert some_of(["a", "b"]) == "a, b"
    assert some_of(range(1005)) == "0, 1, 2, 3, 4 and 1,000 more"
    assert some_of(range(5)) == "0, 1, 2, 3, 4"
