"""Run a plain kafka-python loop that stores only offsets, to show the cost of our ledger.

``python -m bench.plain_loop BOOTSTRAP TOPIC BYTES WARM_S MEASURED_S LINGER_MS BATCH_BYTES`` prints records per second
after the warm-up.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

IN_FLIGHT = 20_000


def main(bootstrap: str, topic: str, *numbers: str) -> None:
    """Send as fast as the library accepts records."""
    record_bytes, warm_s, measured_s, linger_ms, batch_bytes = (int(number) for number in numbers)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        acks="all",
        enable_idempotence=True,
        linger_ms=linger_ms,
        batch_size=batch_bytes,
    )
    partitions = sorted(producer.partitions_for(topic))
    value, offsets = bytes(record_bytes), list[int]()

    def done(metadata: Any) -> None:
        offsets.append(metadata.offset)

    sent = 0

    def send_until(end_s: float) -> int:
        nonlocal sent
        while time.monotonic() < end_s:
            if sent - len(offsets) < IN_FLIGHT:
                producer.send(topic, value, partition=partitions[sent % len(partitions)]).add_callback(done)
                sent += 1
            else:
                time.sleep(0.001)
        return len(offsets)

    start_s = time.monotonic()
    before = send_until(start_s + warm_s)
    after = send_until(start_s + warm_s + measured_s)
    print((after - before) / measured_s)
    with suppress(KafkaError):  # records in flight do not count
        producer.close(timeout=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
