"""Find series of a Prometheus answer that would count twice; docs/capacity.md has the rules."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

QUERY = 'sum(rate(kafka_server_brokertopicmetrics_bytesin_total{topic=""}[1h]))'
REPLICA_LABELS = frozenset({"prometheus_replica", "replica", "__replica__"})  # of two Prometheus with one target
SCRAPER_LABELS = REPLICA_LABELS | {"prometheus"}  # "prometheus" also differs between clusters with equal host names
METRIC_LABELS = ("__name__", "name", "metric", "metric_name", "attribute", "direction", "type")
SAME = 0.01  # relative difference of equal loads
NEARLY_ALL = 0.95  # of common times
MIN_TIMES = 10
_TOTALS = frozenset({"total", "all", "sum", "overall", "aggregate", "cluster", "alltopics", "allbrokers"})

Labels = Mapping[str, str]


class WrongError(ValueError):
    """A file's mistake, place and remedy; the caller names the file."""


class Series(NamedTuple):
    """Non-empty labels, and MB/s by seconds since 1970."""

    labels: Labels
    values: Mapping[float, float]


def shown(labels: Labels) -> str:
    """Return labels as Prometheus writes them, without quotes."""
    return "{" + ", ".join(f"{name}={value}" for name, value in sorted(labels.items())) + "}"


def check_labels(found: Sequence[Labels]) -> None:
    """Raise WrongError for repeated labels, different metrics, or a total with its part."""
    _refuse_metrics(found)
    known: dict[frozenset[tuple[str, str]], Labels] = {}
    for labels in found:
        key = _without(labels, REPLICA_LABELS)
        if key in known:
            raise WrongError(_same_series(known[key], labels))
        known[key] = labels
    names = Counter(name for labels in found for name in labels)
    of_parts = {name for name, count in names.items() if count < len(found)}
    for labels in found:
        total = _without(labels, of_parts | REPLICA_LABELS)
        if of_parts & set(labels) and total in known:
            raise _counted_twice(f"{shown(known[total])} is a total and {shown(labels)} a part of it")


def _without(labels: Labels, names: frozenset[str] | set[str]) -> frozenset[tuple[str, str]]:
    return frozenset(item for item in labels.items() if item[0] not in names)


def _same_series(first: Labels, second: Labels) -> str:
    return f"{shown(first)} and {shown(second)} are the same series; keep those of one Prometheus"


def _counted_twice(which: str) -> WrongError:
    return WrongError(f"{which}, which would be counted twice; query totals alone, such as {QUERY}")


def _refuse_metrics(found: Sequence[Labels]) -> None:
    """Metrics differ in name, or in labels such as name=BytesInPerSec."""
    for label in METRIC_LABELS:
        metrics = sorted({labels[label] for labels in found if label in labels})
        # a label of brokers may also be called "name"
        if len(metrics) > 1 and (label == "__name__" or _are_metrics(metrics)):
            named = " and ".join((", ".join(metrics[:-1]), metrics[-1]))
            raise WrongError(f"it has series of several metrics, {named:.300}; query bytes in alone, such as {QUERY}")


def _are_metrics(values: Sequence[str]) -> bool:
    if sum(value.lower().endswith("persec") for value in values) > 1:
        return True
    words = {tuple(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", value)) for value in values}
    return any(tuple("out" if word == "in" else word for word in each) in words for each in words if "in" in each)


def check_values(found: Sequence[Series]) -> list[str]:
    """Return doubts about double counting; raise WrongError for repeated values, totals, or different times."""
    _refuse_different_times(found)
    return [*_of_two_scrapers(found), *_of_totals(found)]


def _refuse_different_times(found: Sequence[Series]) -> None:
    """Queries with different starts share no time, so that a sum would lack one."""
    steps = [step for each in found if (step := _usual_step(each.values))]
    whole = _usual_step({at_s: 0.0 for each in found for at_s in each.values})
    if steps and whole and median(steps) > 1.5 * whole:
        raise WrongError("its series have values at different times; query all of them with one start and one step")


def _usual_step(values: Mapping[float, float]) -> float:
    return median(later - earlier for earlier, later in pairwise(sorted(values))) if len(values) > 1 else 0.0


def _of_two_scrapers(found: Sequence[Series]) -> Iterator[str]:
    """Labels that differ only in ``prometheus``: one broker twice, or two of equal name."""
    known: dict[frozenset[tuple[str, str]], Series] = {}
    for each in found:
        other = known.setdefault(_without(each.labels, SCRAPER_LABELS), each)
        if other is each:
            continue
        if _is_same(each.values, other.values):
            raise WrongError(_same_series(other.labels, each.labels))
        yield (
            f"{shown(other.labels)} and {shown(each.labels)} differ in the name of their Prometheus alone and were "
            "added; if both are of one broker, its load is counted twice"
        )


def _is_same(first: Mapping[float, float], second: Mapping[float, float]) -> bool:
    common = first.keys() & second.keys()
    return bool(common) and _share([(first[at_s], second[at_s]) for at_s in common]) >= NEARLY_ALL


def _share(pairs: Sequence[tuple[float, float]]) -> float:
    return sum(math.isclose(first, second, rel_tol=SAME, abs_tol=1e-9) for first, second in pairs) / len(pairs)


def _of_totals(found: Sequence[Series]) -> Iterator[str]:
    for group in _groups(found):
        for total, parts in _sums(group):
            named = ", ".join(shown(part.labels) for part in parts[:3]) + (", …" if len(parts) > 3 else "")
            doubt = f"{shown(total.labels)} is within {SAME:.0%} the sum of {named}"
            # a topic's leading broker may carry as much as the others together
            is_whole = len(parts) + 1 == len(found)
            if _is_said_to_be_total(total, parts) or (is_whole and len(parts) >= 3):
                raise _counted_twice(doubt)
            if is_whole and len(parts) == 2:
                yield f"{doubt}; if it is their total, the load is counted twice"


def _groups(found: Sequence[Series]) -> Iterator[Sequence[Series]]:
    yield found
    groups: dict[tuple[str, str], list[Series]] = defaultdict(list)
    for each in found:
        for item in each.labels.items():
            groups[item].append(each)
    yield from (group for group in groups.values() if 1 < len(group) < len(found))


def _sums(group: Sequence[Series]) -> Iterator[tuple[Series, Sequence[Series]]]:
    """Yield series with those whose sum they are; a series twice in it is the total."""
    sums: dict[float, list[float]] = defaultdict(list)
    for each in group:
        for at_s, value in each.values.items():
            sums[at_s].append(value)
    whole = {at_s: (math.fsum(values), len(values)) for at_s, values in sums.items()}
    for each in group:
        usual = max(1, min(2, len(group) - 1))  # so that a broker that mirrors another is no total
        pairs = [
            (value, whole[at_s][0] - value)
            for at_s, value in each.values.items()
            if whole[at_s][1] > usual and value > 0
        ]
        if len(pairs) >= max(MIN_TIMES, len(each.values) / 2) and _share(pairs) >= NEARLY_ALL:
            yield each, [other for other in group if other is not each]


def _is_said_to_be_total(total: Series, parts: Sequence[Series]) -> bool:
    """Recognise a label such as topic=__total__, or labels unlike those of two or more parts."""
    shared = [item for item in total.labels.items() if all(item in part.labels.items() for part in parts)]
    own = {re.sub(r"[^a-z]", "", value.lower()) for name, value in total.labels.items() if (name, value) not in shared}
    if own & _TOTALS:
        return True
    has_other_labels = all(total.labels.keys() != part.labels.keys() for part in parts)
    return len(parts) >= 2 and has_other_labels
