"""Run every engine, codec, security mode and group protocol in the main scenario, on its oldest and newest version.

``python -m bench.matrix [TRIES [CELL …]]`` brings all cells, or named ones such as "codec zstd 4.4.0", to TRIES runs,
counts them in docs/data/matrix.json and writes docs/load-matrix.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel

from bench.reliability import CLEAN, ROOT, Claim, count, nothing_found
from clusters.scenario.groups import Group, ShareGroup
from clusters.scenario.scenario import Codec, Load, Security
from history.kafka_versions import CLIENT_RELEASES, DEFAULT_RELEASE

MAIN = "follower_lag_then_leader_kill"
RUNS = ROOT / "runs" / "matrix"
RESULTS = ROOT / "docs" / "data" / "matrix.json"
PAGE = ROOT / "docs" / "load-matrix.md"
OLDEST = CLIENT_RELEASES[-1]
_SINCE = {"consumer": "4.0.2", "share": "4.2.1"}
Row = Mapping[str, Any]


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


def main(tries: int, cells: Sequence[str] = ()) -> None:
    """Run what is missing and write the page."""
    every = {f"{claim.variant} {claim.kafka}": claim for variant in variants() for claim in variant.claims}
    claims = [every[cell] for cell in cells or every]
    PAGE.write_text(render(count(claims, tries, RUNS, RESULTS)))


def page() -> str:
    """Return the page of the stored rows."""
    return render(json.loads(RESULTS.read_text()))


def render(rows: Sequence[Row]) -> str:
    """Return the page of these rows."""
    lines = [
        "# What the load has been tried with",
        "",
        f"The scenario [`{MAIN}`](shipped-scenarios.md) with each engine, codec, security mode",
        "and group protocol, on the oldest and the newest version of Kafka that it is for: real brokers in Docker,",
        "every run judged, its records counted again from the raw ledgers, its page written. Bugs that a version has",
        "are named.",
        "Written by `python -m bench.matrix` from `docs/data/matrix.json`.",
    ]
    kind = ""
    for variant in variants():
        if variant.kind != kind:
            kind = variant.kind
            lines += ["", f"| {kind} | Kafka | verdict | recount agrees | acknowledged | lost | copies | date |"]
            lines += ["|---|---|---|---|---|---|---|---|"]
        lines += [_line(variant, claim, rows) for claim in variant.claims]
    return "\n".join(lines) + "\n"


def _line(variant: Variant, claim: Claim, rows: Sequence[Row]) -> str:
    own = [row for row in rows if (row["scenario"], row["kafka"], row.get("variant", "")) == claim.key]
    if not own:
        return f"| {variant.value} | {claim.kafka} | not tried | | | | | |"
    bugs = sorted({bug for row in own for bug in row["known_bugs"]})
    verdicts = ", ".join(
        f"{sum(row['verdict'] == each for row in own)} {each}" for each in sorted({row["verdict"] for row in own})
    )
    named = f" ({', '.join(bugs)})" if bugs else ""
    agrees = sum(row["recount_agrees"] for row in own)
    sums = [f"{sum(row[name] for row in own):,}" for name in ("acked", "lost", "duplicate_copies")]
    return (
        f"| {variant.value} | {claim.kafka} | {verdicts}{named} | {agrees} of {len(own)} | {' | '.join(sums)} "
        f"| {max(row['date'] for row in own)} |"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 1, sys.argv[2:])
