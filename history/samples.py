"""A good sample of a replica, as the judge and the claims read it from the table ``replicas``."""

from __future__ import annotations

from typing import NamedTuple


class Sample(NamedTuple):
    """What a replica's own broker answered, HW and LEO of one moment; asked at ``sent_ns``."""

    broker: int
    epoch: int
    sent_ns: int
    received_ns: int
    hw: int
    leo: int
    incarnation: int | None = 1
    log_start: int = 0
    single: bool = True  # else LEO was asked for before HW
