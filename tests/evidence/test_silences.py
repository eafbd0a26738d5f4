"""The probe's silences from answers in any order, without those that a busy host explains."""

import random
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence import silences as silent
from evidence.silences import Silence, silences
from tests.evidence.folders import MS, S

WORDS = pa.schema([("broker_id", pa.int32()), ("received_ns", pa.int64()), ("error", pa.string())])


def gaps(path, *words, between=(10 * S, 20 * S), brokers=(1,), waits=()):
    """Return the silences of (broker, ms) answers in two files."""
    rows = [{"broker_id": broker, "received_ns": ms * MS, "error": "timeout"} for broker, ms in words]
    files = [path / "a.parquet", path / "b.parquet"]
    for file, half in zip(files, (rows[::2], rows[1::2]), strict=True):
        pq.write_table(pa.Table.from_pylist(half, WORDS), file)
    return silences(files, between, brokers, waits)


def test_a_silence_is_longer_than_three_seconds(tmp_path):
    """A silence is longer than three seconds, to the nanosecond; a recorded error also ends it."""
    assert gaps(tmp_path, (1, 12_000), (1, 15_000), (1, 17_500)) == []
    assert gaps(tmp_path, (1, 12_000), (1, 15_001), (1, 17_500)) == [Silence(15_001 * MS, 1, 12 * S)]


def test_a_broker_owes_words_from_the_beginning_to_the_end(tmp_path):
    """A broker with a replica must answer from the start to the end; another one only between its answers."""
    outside = [(2, 9_999), (2, 20_001), (1, 9_000)]
    found = gaps(tmp_path, *outside, (1, 13_500), (2, 11_000), (2, 16_000))

    assert found == [
        Silence(13_500 * MS, 1, 10 * S),
        Silence(16 * S, 2, 11 * S),
        Silence(20 * S, 1, 13_500 * MS),
    ]
    assert gaps(tmp_path, *outside, between=None) == []


def test_silences_do_not_depend_on_the_order_of_words(tmp_path):
    """Silences do not depend on the order of answers: 200 answers at random times yield the gaps between them."""
    at_random = random.Random(1)
    words = sorted(at_random.sample(range(10_000, 600_000), 200))
    shuffled = [(1, ms) for ms in at_random.sample(words, len(words))]
    times = [10_000, *words, 600_000]

    found = gaps(tmp_path, *shuffled, between=(10 * S, 600 * S), waits=())
    expected = [Silence(b * MS, 1, a * MS) for a, b in pairwise(times) if b - a > 3_000]
    assert len(expected) > 20
    assert found == expected


@pytest.mark.parametrize(("waited_us", "explained"), [(3e6, True), (1e6, False)])
def test_a_silence_that_the_host_explains_is_none(tmp_path, waited_us, explained):
    """A silence of 5 s is explained if the host's tasks waited for 3 s, and not if they waited for 1 s."""
    found = gaps(tmp_path, (1, 15_000), (1, 17_500), waits=[(15 * S, waited_us), (10 * S, 0.0)])

    assert found == ([] if explained else [Silence(15 * S, 1, 10 * S)])


@pytest.mark.parametrize(
    ("silence_s", "waited_s", "explained"),
    [(3.0, None, True), (3.1, None, False), (3.1, 0, False), (4.9, 16, True), (9.0, 10, False), (10.1, 20, False)],
)
def test_a_host_under_pressure_explains_a_silence(silence_s, waited_s, explained):
    """A silence is explained by the share of 20 s in which a task waited for a CPU, up to ten seconds."""
    gap = Silence(10 * S + int(silence_s * S), 1, 10 * S)
    told = [] if waited_s is None else [(0, 100.0), (5 * S, 500.0), (25 * S, 500.0 + waited_s * 1e6), (40 * S, 9e9)]

    assert silent.explained(gap.at - gap.before, silent.pressure(told, gap)) is explained
