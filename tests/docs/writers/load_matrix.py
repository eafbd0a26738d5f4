"""Write docs/load-matrix.md, what the load has been tried with, from docs/data/matrix.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.acceptance import matrix
from tests.acceptance.reliability import Claim
from tests.rows import read

Row = Mapping[str, Any]


def pages() -> dict[str, str]:
    """Return the page of the stored rows."""
    return {"load-matrix.md": render(read(matrix.RESULTS))}


def render(rows: Sequence[Row]) -> str:
    """Return the page of these rows."""
    lines = [
        "# What the load has been tried with",
        "",
        f"The scenario [`{matrix.MAIN}`](shipped-scenarios.md) with each engine, codec, security mode",
        "and group protocol, on the oldest and the newest version of Kafka that it is for: real brokers in Docker,",
        "every run judged, its records counted again from the raw ledgers, its page written. Bugs that a version has",
        "are named.",
        "Written by `make docs` from `docs/data/matrix.json`.",
    ]
    kind = ""
    for variant in matrix.variants():
        if variant.kind != kind:
            kind = variant.kind
            lines += ["", f"| {kind} | Kafka | verdict | recount agrees | acknowledged | lost | copies | date |"]
            lines += ["|---|---|---|---|---|---|---|---|"]
        lines += [_line(variant, claim, rows) for claim in variant.claims]
    return "\n".join(lines) + "\n"


def _line(variant: matrix.Variant, claim: Claim, rows: Sequence[Row]) -> str:
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
        f"| {variant.value} | {claim.kafka} | {verdicts}{named} | {agrees}/{len(own)} | {' | '.join(sums)} "
        f"| {max(row['date'] for row in own)} |"
    )
