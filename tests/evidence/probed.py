"""A run's record of orders-0, from literal rows of its tables."""

import json

import pyarrow as pa

from evidence.columns import Names, Polls, Samples, Seeks, Sends, Views
from evidence.partition import PartitionEvidence
from evidence.views import changes, first_leaders, observed
from history.partition import TopicPartition
from history.tables import ISR, POLLS, REPLICAS, SEEKS, SENDS
from history.words import in_words
from judge.checks.findings import Checks, facts
from tests.evidence.folders import TP

WHERE = TopicPartition(**TP)


def partition(replicas=(), isr=(), /, *, sends=(), polls=(), seeks=(), **known) -> PartitionEvidence:
    """Return the partition's columns; ``replicas`` are all probes.

    Without a controller's history its ``changes`` are the leaders' views.
    """
    names = Names()
    probes = pa.Table.from_pylist(list(replicas), REPLICAS)
    views = Views.of(pa.Table.from_pylist(list(isr), ISR), names)
    return PartitionEvidence(
        **{
            "where": WHERE,
            "names": names,
            "sends": Sends.of(pa.Table.from_pylist(list(sends), SENDS), names),
            "polls": Polls.of(pa.Table.from_pylist(list(polls), POLLS), names),
            "seeks": Seeks.of(pa.Table.from_pylist(list(seeks), SEEKS), names),
            "samples": Samples.of(probes),
            "leaders": first_leaders(views),
            "views": views,
            "changes": changes((), views, names),
            "observed": observed(probes),
            **known,
        }
    )


def counted(checks: Checks) -> tuple[int, int]:
    """Return (checked, violations); every violation's evidence can be serialized and put into words."""
    violations = int(checks.violated_ns.size)
    for place in range(violations):
        assert in_words(json.loads(facts(checks.evidence(place))), 0)
    return checks.checked, violations
