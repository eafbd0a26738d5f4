"""Answer a question by its runs' verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from campaigns.campaign import Item, Row
from history.results.qualify import Answer, Line


def of_runs(question: str, what: str, items: Sequence[Item], rows: Sequence[Row]) -> Line:
    """Answer by the runs of some items: each must pass."""
    by_item = {row["labels"]["item"]: row for row in rows}
    runs = [by_item[item.name] for item in items if item.name in by_item]
    verdicts = Counter(row["verdict"] for row in runs)
    answer: Answer = "no-go" if verdicts["fail"] else "go" if verdicts["pass"] == len(items) else "not yet"
    return Line(question=question, what=what, answer=answer, sentence=_counted(runs, len(items)), runs=ids(runs))


def _counted(runs: Sequence[Row], planned: int) -> str:
    passed = sum(row["verdict"] == "pass" for row in runs)
    worst = next((row for verdict in ("fail", "unknown") for row in runs if row["verdict"] == verdict), None)
    return f"{passed} of {planned} runs pass.{' ' + worst['sentence'] if worst else ''}"


def ids(rows: Iterable[Row]) -> list[str]:
    """Return the runs of rows."""
    return list(dict.fromkeys(str(row["run_id"]) for row in rows))


def of_both_sides(
    question: str, what: str, items: Sequence[Item], rows: Sequence[Row], today: str = "on the version of today"
) -> Line:
    """A failure on both sides is a note: not the upgrade's."""
    base = list({row["labels"]["item"]: row for row in rows if row["labels"].get("side") == "base"}.values())
    line = of_runs(question, what, items, rows)
    if line.answer != "no-go":
        return line
    if any(row["verdict"] == "fail" for row in base):
        words = f"{line.sentence} It fails {today}, too: {_counted(base, len(base))}"
        return line.model_copy(update={"answer": "note", "sentence": words, "runs": [*line.runs, *ids(base)]})
    if any(row["verdict"] == "pass" for row in base):
        return line
    words = f"{line.sentence} There is no verdict {today}."
    return line.model_copy(update={"answer": "not yet", "sentence": words})
