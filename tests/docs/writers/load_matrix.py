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
    dates = sorted(row["date"] for row in rows)
    agrees, lost, copies = (_sum(rows, name) for name in ("recount_agrees", "lost", "duplicate_copies"))
    lines = [
        "# What the load has been tried with",
        "",
        f"The scenario [`{matrix.MAIN}`](shipped-scenarios.md) with each engine, codec, security mode",
        "and group protocol, on the oldest and the newest version of Kafka that it is for: real brokers in Docker,",
        f"{dates[0]} to {dates[-1]}. The records of each run, counted again from the raw ledgers, agree in",
        f"**{agrees} of {len(rows)}** runs: {lost} acknowledged records are lost, {copies} are there twice.",
        "Written by `make docs` from `docs/data/matrix.json`.",
    ]
    kind = ""
    for variant in matrix.variants():
        if variant.kind != kind:
            kind = variant.kind
            lines += ["", f"| {kind} | Kafka | verdict | acknowledged |", "|---|---|---|---|"]
        lines += [_line(variant, claim, rows) for claim in variant.claims]
    return "\n".join(lines) + "\n"


def _line(variant: matrix.Variant, claim: Claim, rows: Sequence[Row]) -> str:
    own = [row for row in rows if (row["scenario"], row["kafka"], row.get("variant", "")) == claim.key]
    if not own:
        return f"| {variant.value} | {claim.kafka} | not tried | |"
    bugs = sorted({bug for row in own for bug in row["known_bugs"]})
    verdicts = ", ".join(
        f"{sum(row['verdict'] == each for row in own)} {each}" for each in sorted({row["verdict"] for row in own})
    )
    named = f" ({', '.join(bugs)})" if bugs else ""
    return f"| {variant.value} | {claim.kafka} | {verdicts}{named} | {_sum(own, 'acked')} |"


def _sum(rows: Sequence[Row], name: str) -> str:
    return f"{sum(row[name] for row in rows):,}"
