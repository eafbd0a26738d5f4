"""A run's record of orders-0, from literal rows of its tables."""

import json
from dataclasses import fields

import pyarrow as pa

from evidence.columns import Names, Polls, Seeks, Sends, Views
from evidence.facts import PartitionFacts, RunFacts
from evidence.partition import PartitionEvidence
from evidence.samples import Samples
from evidence.views import changes
from history.partition import TopicPartition
from history.tables import ISR, POLLS, REPLICAS, SEEKS, SENDS
from history.words import in_words
from judge.checks.findings import Checks, facts
from tests.evidence.folders import TP

WHERE = TopicPartition(**TP)


def observed(replicas) -> dict:
    """Return each broker's first and last probe."""
    times = {}
    for row in replicas:
        times.setdefault(row["broker_id"], []).append(row["received_ns"])
    return {broker: (min(own), max(own)) for broker, own in times.items()}


def facts_of(**known) -> PartitionFacts:
    """Return facts about the partition."""
    return PartitionFacts(WHERE, **known)


def fields_of(facts: PartitionFacts | None = None, **known) -> dict:
    """Return the fields of a partition's evidence: ``facts``, and those about the run together."""
    own = {each.name for each in fields(PartitionEvidence)}
    run = {name: known.pop(name) for name in [*known] if name not in own}
    given = {each.name: getattr(facts, each.name) for each in fields(PartitionFacts)} if facts else {}
    return given | {"run": RunFacts(**run)} | known


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
            "views": views,
            "changes": changes((), views, names),
            "observed": observed(replicas),
            **fields_of(**known),
        }
    )


def counted(checks: Checks) -> tuple[int, int]:
    """Return (checked, violations); every violation's evidence can be serialized and put into words."""
    violations = int(checks.violated_ns.size)
    for place in range(violations):
        assert in_words(json.loads(facts(checks.evidence(place))), 0)
    return checks.checked, violations
