"""Performance targets of judge and clients: ``python -m bench.targets`` prints them.

Figures are rows of ``bench/results.json``, from which the table in docs/dev/performance.md comes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from history.folder import write_atomically

RESULTS = Path(__file__).resolve().parent / "results.json"
PAGE = RESULTS.parents[1] / "docs" / "dev" / "performance.md"
BEGIN, END = "<!-- python -m bench.targets --write -->\n", "<!-- end -->"
Json = dict[str, Any]


class Target(NamedTuple):
    """A limit for a figure; ``at`` is most or least. Without ``bound`` the figure is only shown."""

    name: str
    about: str
    at: Literal["most", "least"]
    bound: float | None
    unit: str

    @property
    def limit(self) -> str:
        return "shown only" if self.bound is None else f"at {self.at} {self.bound:,g} {self.unit}"

    def met(self, figure: float) -> bool:
        if self.bound is None:
            return True
        return figure <= self.bound if self.at == "most" else figure >= self.bound


SIZES = {100: "100 bytes", 1000: "1 kB", 10_000: "10 kB"}
BESIDE_KAFKA = (  # our clients, the measured quantity, and Kafka's counterpart
    ("confluent-kafka", "producer confluent-kafka", "kafka-producer-perf-test", 1.0),
    ("kafka-python", "producer kafka-python", "kafka-producer-perf-test", None),
    ("drain", "final drain", "kafka-consumer-perf-test", 0.8),
    ("consumer", "live consumer", "kafka-consumer-perf-test", 0.8),
)


AT_ONCE, CHOSEN = (1, 2, 3, 4), 2  # runs at once; the default with two cores
MOST_UNKNOWN = 0.05


def beside_kafka(client: str, value_bytes: int) -> str:
    """Return the name of a client's target at one value size."""
    return f"{client}_{SIZES[value_bytes]}".replace("-", "_").replace(" ", "_")


TARGETS = {
    target.name: target
    for target in (
        Target("small_import", "judge and page of a small imported history", "most", 15, "s"),
        Target("demo", "judge and page of the demo's run", "most", 20, "s"),
        Target("further_run", "each further run in one application", "most", 3, "s"),
        Target("records_1_26m", "judge 1.26 million records", "most", 30, "s"),
        Target("records_12m", "judge 12 million records", "most", 240, "s"),
        Target("growth_1m_to_50m", "time per record at 50 million records, in times of that at 1 million",
               "most", 1.15, "x"),
        Target("records_100m_memory", "driver and workers together, judging 100 million records", "most", 4, "GiB"),
        Target("accounting_over_duckdb", "delivery accounting, how many times as fast as DuckDB", "least", 1.5, "x"),
        Target("accounting_over_sets", "delivery accounting, how many times as fast as Python sets", "least", 20, "x"),
        Target("segments_100_bytes", "segments with records of 100 bytes read", "least", 2e6, "records/s"),
        Target("segments_1_kib", "segments with records of 1 KiB read", "least", 300, "MB/s"),
        Target("partitions_1000", "judge and page of 1,000 partitions x 3 replicas over 5 minutes", "most", 300, "s"),
        Target("partitions_1000_page", "the page of that run", "most", 10, "MB"),
        Target("soak_2h", "judge and page of 2 hours at 1,000 records/s", "most", 300, "s"),
        Target("soak_2h_page", "the page of that run", "most", 10, "MB"),
        Target("heavy_loss", "records by which the verdict is off where two million are lost, and it is fail",
               "most", 0, "records"),
        *(Target(beside_kafka(client, size), f"{what}, values of {words}, in times of {against}", "least", bound, "x")
          for client, what, against, bound in BESIDE_KAFKA for size, words in SIZES.items()),
        Target("late_99", "records of an open loop at half of what it can send: 99 % are late by", "most", None, "ms"),
        Target("late_999", "99.9 % are late by", "most", None, "ms"),
        Target("watch_cpu", "plimsoll watch, 1,000 partitions x 3 at 1 Hz", "most", 0.10, "CPUs"),
        Target("watched_broker_cpu", "added to each broker", "most", 0.02, "CPUs"),
        Target("watched_p99", "p99 of another load, in times of that without the watch", "most", 1.05, "x"),
        Target("attached_load", "load of an attached run, in times of an own one", "least", 0.95, "x"),
        *(Target(f"at_once_{number}", f"runs of 30 s, {number} at once", "least", None, "runs/h")
          for number in AT_ONCE),
        *(Target(f"unknown_{number}", f"unknown share, {number} at once",
                 "most", MOST_UNKNOWN if number == CHOSEN else None, "") for number in AT_ONCE),
        Target("at_once_gain", "best of these, in times of single runs",
               "least", 2.5, "x"),
    )
}  # fmt: skip


def row(name: str, figure: float, **more: Any) -> Json:
    """Return a result; ``more`` has the conditions of the measurement.

    Raises:
        KeyError: there is no such target.
    """
    target = TARGETS[name]
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    return {"target": name, "figure": figure, "unit": target.unit, "met": target.met(figure), "at": moment, **more}


def record(rows: Sequence[Json], results: Path = RESULTS, page: Path = PAGE) -> None:
    """Append results and rewrite the page's table."""
    write_atomically(results, json.dumps([*read(results), *rows], indent=1) + "\n")
    write_page(read(results), page)


def write_page(results: Sequence[Mapping[str, Any]], page: Path = PAGE) -> None:
    """Write the table between the page's markers.

    Raises:
        ValueError: the page lacks the markers.
    """
    before, _, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{page.name} has no table to write: it needs {BEGIN.strip()} and {END}")
    write_atomically(page, before + BEGIN + "\n".join(table(results)) + "\n" + end + after)


def read(results: Path = RESULTS) -> list[Json]:
    """Return all results, oldest first."""
    return list(json.loads(results.read_text())) if results.exists() else []


def all_met(results: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether every target's last figure meets it."""
    last = {each["target"]: each["met"] for each in results}
    return all(last.get(name, False) for name in TARGETS)


def lines(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line per target: limit, last figure, and result."""
    last = {each["target"]: each for each in results}
    return [_line(target, last.get(target.name)) for target in TARGETS.values()]


def _line(target: Target, result: Mapping[str, Any] | None) -> str:
    if result is None:
        measured = "not measured"
    else:
        measured = f"{result['figure']:,.4g} {result['unit']}: {'met' if result['met'] else 'NOT met'}"
    return f"{target.name:<28}{target.limit:<28}{measured:<32}{target.about}"


def table(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the targets as a Markdown table, with their last two figures."""
    head = ["| target | what | bound | the last two figures |", "|---|---|---|---|"]
    return head + [_row(target, results) for target in TARGETS.values()]


def _row(target: Target, results: Sequence[Mapping[str, Any]]) -> str:
    own = [each for each in results if each["target"] == target.name][-2:]
    figures = ", ".join(f"{each['figure']:,.4g}{'' if each['met'] else ' (not met)'}" for each in own)
    return f"| `{target.name}` | {target.about} | {target.limit} | {figures or 'not measured'} |"


if __name__ == "__main__":
    print("\n".join(lines(read())))
    if "--write" in sys.argv:
        write_page(read())
    sys.exit(0)
