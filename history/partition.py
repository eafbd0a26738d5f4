"""Topic partitions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple


class TopicPartition(NamedTuple):
    """A partition, printed as ``orders-0``."""

    topic: str
    partition: int

    @classmethod
    def parse(cls, name: str) -> TopicPartition:
        """Parse ``orders-0``.

        Raises: ValueError.
        """
        match = re.fullmatch(r"([\w.-]+)-(\d+)", name)
        if match is None:
            raise ValueError(f"{name!r} is no partition such as orders-0")
        return cls(match[1], int(match[2]))

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> TopicPartition:
        return cls(row["topic"], row["partition"])

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
