"""The producer nodes, one per process of each load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import NamedTuple

from clusters.scenario.load import Load
from clusters.scenario.shapes import Rate, shared
from history import verifiable

PRODUCER = "producer"  # the name for ``load:``
MAX_PRODUCERS = 32  # each has its own address
MAX_NAME = 35  # fits into the smallest record
_NAME = re.compile(rf"[A-Za-z0-9-]{{1,{MAX_NAME}}}")
# Names of other nodes, clients and files.
_TAKEN = re.compile(
    "(broker|controller|zookeeper|consumer|prober|drain|copier|member|read|write|verifiable)(-[0-9]+)?"
    "|host|lease|prefix|security|step|streams"
)


class Producer(NamedTuple):
    """A producer node; ``rate`` is its share of the load's.

    ``producer_id`` identifies its records: its name or, for VerifiableProducer, a number.
    """

    name: str
    of: str
    load: Load
    rate: Rate
    producer_id: str
    value_prefix: int | None = None


def producers_of(loads: Mapping[str, Load]) -> list[Producer]:
    """Return all producers; several processes are ``<name>-1`` and so on."""
    prefixes = count(verifiable.PREFIX)
    return [
        Producer(node, name, load, shared(load.rate, load.processes), *_known_by(node, load, prefixes))
        for name, load in loads.items()
        for node in _nodes(name, load)
    ]


def _nodes(name: str, load: Load) -> list[str]:
    return [f"{name}-{number}" for number in range(1, load.processes + 1)] if load.processes > 1 else [name]


def _known_by(node: str, load: Load, prefixes: Iterator[int]) -> tuple[str, int | None]:
    if load.engine != "java":
        return node, None
    prefix = next(prefixes)
    return verifiable.producer_id(prefix), prefix


def wrong_names(producers: list[Producer]) -> Iterator[str]:
    """Yield what is wrong with producers' names or number."""
    names = [producer.name for producer in producers]
    for producer in producers:
        if not _NAME.fullmatch(producer.name):
            yield f"{producer.name!r} is not a producer name: letters, digits and -, at most {MAX_NAME}"
        elif _TAKEN.fullmatch(producer.name):
            yield f"the name {producer.name!r} is taken by another part of a run; choose another one"
        elif names.count(producer.name) > 1:
            yield f"two producers are called {producer.name}; rename one of the loads"
    if len(producers) > MAX_PRODUCERS:
        yield f"there are {len(producers)} producers; {MAX_PRODUCERS} are the most"
