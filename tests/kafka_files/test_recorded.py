"""Segments that a Kafka 4.4.0 broker wrote: 200 records of ours in four batches, a key on every third.

``java-*``: sent plain, and compressed by the broker for its topic's ``compression.type``. ``librdkafka-*``: compressed
by confluent-kafka 2.16. ``transactions``: two of 30 records each, the first aborted, the second committed.
"""

from pathlib import Path

import pytest

from kafka_files.batches import COMPRESSION, header_slices
from kafka_files.codecs import NAMES
from kafka_files.records import decode, marker

FOLDER = Path(__file__).parent / "recorded"


@pytest.mark.parametrize("codec", NAMES[1:])
@pytest.mark.parametrize("writer", ["java", "librdkafka"])
def test_every_codec_of_a_real_broker_is_read(writer, codec):
    """All records, in their order, with their keys and right checksums."""
    data = (FOLDER / f"{writer}-{codec}.log").read_bytes()
    ((rows, found),) = [part for headers in header_slices(data) for part in decode(data, headers)]

    assert (rows["attributes"] & COMPRESSION).tolist() == [NAMES.index(codec)] * 4
    assert rows["problem"].tolist() == [0] * 4
    assert found["offset"].to_pylist() == found["seq"].to_pylist() == list(range(200))
    assert found["key_length"].to_pylist() == [1 if n % 3 == 0 else -1 for n in range(200)]
    assert set(found["producer"].to_pylist()) == {"load-1"}
    assert found["checksum_ok"].true_count == 200


def test_transactions_of_a_real_broker_are_told():
    """Each ends with its marker, which takes an offset."""
    data = (FOLDER / "transactions.log").read_bytes()
    ((rows, found),) = [part for headers in header_slices(data) for part in decode(data, headers)]

    assert [marker(data, row) for row in rows] == [None, "abort", None, "commit"]
    assert rows["base_offset"].tolist() == [0, 30, 31, 61]
    assert found["offset"].to_pylist() == [*range(30), *range(31, 61)]
