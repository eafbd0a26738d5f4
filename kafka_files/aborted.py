"""Remove aborted transactions (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kafka_files.batches import CONTROL, TRANSACTIONAL, Data, Headers
from kafka_files.records import marker


def without_aborted(headers: Headers, data: Data, aborted: Iterable[tuple[int, int]]) -> Headers:
    """Return the headers (by offset) without aborted batches.

    ``aborted``: (producer id, first offset); each ends at the next abort marker.
    """
    waiting = sorted(aborted, key=lambda each: each[1], reverse=True)
    if not waiting:
        return headers
    open_of: set[int] = set()
    kept = np.ones(len(headers), np.bool_)
    for at, header in enumerate(headers):
        last = int(header["base_offset"] + header["last_offset_delta"])
        while waiting and waiting[-1][1] <= last:
            open_of.add(waiting.pop()[0])
        producer = int(header["producer_id"])
        if producer not in open_of or not header["attributes"] & TRANSACTIONAL:
            continue
        if not header["attributes"] & CONTROL:
            kept[at] = False
        elif marker(data, header) == "abort":
            open_of.remove(producer)
    found: Headers = headers[kept]
    return found
