"""Run every engine, codec, security mode and group protocol in the main scenario, on its oldest and newest version.

``python -m tests.acceptance matrix [TRIES [CELL …]]`` brings all cells, or named ones such as "codec zstd 4.4.0", to
TRIES runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel

from clusters.scenario.groups import Group, ShareGroup
from clusters.scenario.load import Codec, Load
from clusters.scenario.scenario import Security
from history.kafka_versions import CLIENT_RELEASES, DEFAULT_RELEASE
from tests.acceptance.reliability import CLEAN, Claim, count, nothing_found
from tests.rows import DATA, ROOT

MAIN = "follower_lag_then_leader_kill"
RUNS = ROOT / "runs" / "matrix"
RESULTS = DATA / "matrix.json"
OLDEST = CLIENT_RELEASES[-1]
_SINCE = {"consumer": "4.0.2", "share": "4.2.1"}


class Variant(NamedTuple):
    """A cell's change of the main scenario; ``changes`` is a merge patch."""

    kind: str
    value: str
    changes: Mapping[str, Any]
    versions: tuple[str, str] = (OLDEST, DEFAULT_RELEASE)

    @property
    def claims(self) -> Iterator[Claim]:
        for kafka in self.versions:
            yield Claim(MAIN, kafka, CLEAN, nothing_found, f"{self.kind} {self.value}", self.changes)


def variants() -> Iterator[Variant]:
    """Yield all variants of the scenario's models."""
    for engine in _values(Load, "engine"):
        newest = CLIENT_RELEASES[0] if engine == "java" else DEFAULT_RELEASE
        yield Variant("engine", engine, {"load": {"engine": engine}}, (OLDEST, newest))
    for codec in get_args(Codec):
        yield Variant("codec", codec, {"load": {"compression": codec, "engine": "confluent-kafka"}})
    tls, sasl = [[{name: each} for each in _values(Security, name)] for name in ("tls", "sasl")]
    for mode in [*tls, *sasl, tls[-1] | sasl[-1]]:
        words = " and ".join(f"{name} {value}" for name, value in mode.items())
        # the oldest brokers cannot use SASL on a newer Java
        yield Variant("security", words, {"cluster": {"security": mode, **({"java": "17"} if "sasl" in mode else {})}})
    for protocol in [*_values(Group, "protocol"), *_values(ShareGroup, "protocol")]:
        changes = {"topics": {"orders": {"partitions": 3}}, "load": {"group": {"protocol": protocol, "members": 3}}}
        yield Variant("group protocol", protocol, changes, (_SINCE.get(protocol, OLDEST), DEFAULT_RELEASE))


def _values(model: type[BaseModel], field: str) -> list[str]:
    told = model.model_fields[field].annotation
    literal = next((each for each in get_args(told) if get_origin(each) is Literal), told)
    return list(get_args(literal))


def main(arguments: Sequence[str]) -> int:
    """Bring all or the named cells to as many runs as asked."""
    tries, *cells = arguments or ["1"]
    every = {f"{claim.variant} {claim.kafka}": claim for variant in variants() for claim in variant.claims}
    count([every[cell] for cell in cells or every], int(tries), RUNS, RESULTS)
    return 0
