"""Write the tables in docs/own-cluster-safety.md of the requests that commands send, from docs/data/requests.json."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from tests.acceptance.requests import RESULTS
from tests.docs.texts import GENERATED_PART
from tests.docs.writers.registry import DOCS
from tests.rows import Row, read

PAGE = "own-cluster-safety.md"
RIGHTS = {
    "ApiVersions": "none",
    "Metadata": "Describe",
    "ListOffsets": "Describe",
    "Fetch": "Read",
    "DescribeConfigs": "DescribeConfigs, also on the cluster",
    "CreateTopics": "Create",
    "Produce": "Write",
    "InitProducerId": "Write",
    "DeleteTopics": "Delete",
}


def pages() -> dict[str, str]:
    """Return the page by file name, with the tables of today."""
    page = (DOCS / PAGE).read_text()
    return {PAGE: GENERATED_PART.sub(lambda part: f"{part[1]}\n{tables(read(RESULTS))}\n{part[3]}", page)}


def tables(rows: Sequence[Row]) -> str:
    """Return the requests by command and client id, and the rights that they need.

    Raises:
        KeyError: it is unknown which right a request needs.
    """
    lines = ["| command | `client.id` | requests |", "|---|---|---|"]
    lines += [
        f"| {command} | `{client_id}` | {', '.join(map(_counted, own))} |"
        for (command, client_id), own in groupby(_ordered(rows), key=itemgetter("command", "client_id"))
    ]
    sent = {row["request"] for row in rows}
    lines += ["", "| request | right on topics |", "|---|---|", *_rights(sent)]
    return "\n".join(lines)


def _ordered(rows: Iterable[Row]) -> list[Row]:
    commands = list(dict.fromkeys(row["command"] for row in rows))
    return sorted(rows, key=lambda row: (commands.index(row["command"]), row["client_id"], row["request"]))


def _counted(row: Row) -> str:
    rate = row["per_s_and_broker"]
    return f"{row['request']} {row['count']:,}" + (f" ({rate:g})" if rate else "")


def _rights(sent: set[str]) -> Iterator[str]:
    by_right: dict[str, list[str]] = {}
    for request in sorted(sent):
        by_right.setdefault(RIGHTS[request], []).append(request)
    yield from (f"| {', '.join(requests)} | {right} |" for right, requests in by_right.items())
