"""Payloads decoded as columns equal those that ``history.payload.decode`` decodes one by one."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from history.payload import MAX_SEQ, decode, encode
from kafka_files import payloads
from kafka_files.payloads import Values, decode_payloads

SOUND = [encode("load-1", seq, 100) for seq in (0, 5, 9, 10, 99, 12345, 12346)]
OURS = st.builds(
    encode,
    st.sampled_from(["load-1", "load-2", "p"]),
    st.integers(0, 30) | st.integers(0, 2**62),
    st.sampled_from([64, 100, 101]),
)
FILLED = st.builds(
    lambda seq, fill: encode("load-1", seq, 64 + len(fill), lambda size: (fill + bytes(size))[:size]),
    st.integers(0, 30) | st.integers(0, 2**62),
    st.binary(max_size=3),
)
VERIFIABLE = st.builds(b"%d.%d".__mod__, st.tuples(st.integers(0, 3), st.integers(0, 2**48)))
LIKE_OURS = st.builds(b"%b|%b|%b".__mod__, st.tuples(*[st.binary(max_size=12)] * 3))


def as_columns(values):
    """Return (producer id, number, whether the checksum is right) of values that are decoded together."""
    data = np.frombuffer(b"".join(value or b"" for value in values) or b"\0", np.uint8)
    lengths = np.array([-1 if value is None else len(value) for value in values], np.int64)
    sizes = np.maximum(lengths, 0)
    names = {}
    found = decode_payloads(Values(data, np.cumsum(sizes) - sizes, lengths), names)
    ids = [*names, None]
    return [
        (ids[producer], int(seq) if producer >= 0 else None, bool(ok) if checked else None)
        for producer, seq, ok, checked in zip(*found, strict=True)
    ]


@given(st.lists(st.none() | OURS | FILLED | VERIFIABLE | LIKE_OURS | st.binary(max_size=120), max_size=60))
def test_columns_say_what_one_by_one_says(values):
    """Columns equal one-by-one decoding for valid, similar and foreign values in any order."""
    assert as_columns(values) == [tuple(decode(value)) for value in values]


@given(st.lists(st.integers(0, 2**62), min_size=2, max_size=8), st.integers(0, 99), st.integers(0, 255))
@example([100_000_000_000_000, 0, 2**47], 0, 0)  # the first may have as many digits
def test_a_changed_byte_shows(seqs, at, byte):
    """A changed byte is detected anywhere in a value between sound ones."""
    values = [encode("load-1", seq, 100) for seq in seqs]
    values[1] = values[1][:at] + bytes([byte]) + values[1][at + 1 :]

    assert as_columns(values) == [tuple(decode(value)) for value in values]


@given(st.integers(10, 99), st.integers(0, 63), st.integers(0, 255))
def test_a_changed_byte_shows_in_a_padding_of_its_own(seq, at, byte):
    """A changed byte is detected in a padding that differs from all other values', which stay sound."""
    fills = (lambda size: b"a" * size, lambda size: b"b" * size, lambda size: b"c|" * (size // 2) + b"d" * (size % 2))
    values = [encode("load-1", seq, 64, fill) for fill in fills]
    values[1] = values[1][:at] + bytes([byte]) + values[1][at + 1 :]

    found = as_columns(values)
    assert found == [tuple(decode(value)) for value in values]
    assert found[0] == found[2] == ("load-1", seq, True)


@pytest.mark.parametrize("models", [0, 1, 2])
def test_values_that_fit_no_model_are_decoded_on_their_own(models, monkeypatch):
    """Values that fit no model are decoded one by one, whatever the number of models."""
    monkeypatch.setattr(payloads, "MAX_MODELS", models)

    assert as_columns(SOUND) == [tuple(decode(value)) for value in SOUND]


def test_a_number_beyond_the_largest_is_not_ours():
    """A number beyond the largest sequence number, or beyond 64 bits, is foreign."""
    tail = "|padding" + "0" * 8
    values = [f"load-1|{number}{tail}".encode() for number in (MAX_SEQ, MAX_SEQ + 1, 2**63)]

    assert as_columns(values) == [("load-1", MAX_SEQ, False), (None, None, False), (None, None, False)]
