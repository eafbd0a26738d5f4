"""Judge random histories of the model: ``python -m tests.model.explore --minutes 120``, each with a new seed.

A seed determines a plan (``tests.model.plans``), and a plan a history for which the model knows the right answer. A
wrong answer of the judge is printed with the command that repeats it and the smallest plan found that shows it. The
same ``--from-seed`` continues an interrupted series.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.model import exploration
from tests.model.cluster import Plan
from tests.model.judged_run import judged_plan, wrong
from tests.model.plans import plan_of
from tests.model.seeds import fresh_seed, generator, judge
from tests.rows import read

KEPT_EVERY_S = 30.0
SHRINK_S = 60.0
Row = dict[str, Any]


def command(seed: int) -> str:
    """Return the command that repeats the answer to a seed."""
    return f"python -m tests.model.explore --seed {seed}"


def answer(seed: int) -> tuple[str, list[str]]:
    """Return the verdict on a seed's history and the judge's errors."""
    try:
        said, found = judged_plan(plan_of(seed))
    except Exception as error:  # noqa: BLE001  # the judge must answer for every history
        return "none", [f"the judge failed: {type(error).__name__}: {error}"]
    return said.verdict, found


def kind_of(found: Sequence[str]) -> str:
    """Return a wrong answer's kind: its text without the numbers of records and partitions."""
    return re.sub(r"\[[^]]*\]|\d+", "#", found[0])[:90]


# --- smaller plans ------------------------------------------------------------------------------------


def smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans with one part less, large parts first."""
    yield from (replace(plan, damages=plan.damages[:n] + plan.damages[n + 1 :]) for n in range(len(plan.damages)))
    if plan.members and not plan.group_flaw:
        yield replace(plan, members=0)
    if plan.readers > 1:
        yield replace(plan, readers=1)
    if len(plan.orders) > 1 and plan.flawed < len(plan.orders) - 1:
        yield replace(plan, orders=plan.orders[:-1])
    size = 0 if plan.eventful else len(plan.steps) // 2  # fewer steps would not show every flaw
    while size:
        yield from (
            replace(plan, steps=plan.steps[:at] + plan.steps[at + size :]) for at in range(0, len(plan.steps), size)
        )
        size //= 2


def shrunk(plan: Plan, fails: Callable[[Plan], bool], limit_s: float = SHRINK_S) -> Plan:
    """Return the smallest failing plan found within a time limit."""
    until_s = time.monotonic() + limit_s
    going = True
    while going and time.monotonic() < until_s:
        going = False
        for each in smaller(plan):
            if time.monotonic() > until_s:
                break
            if fails(each):
                plan, going = each, True
                break
    return plan


def literal(plan: Plan) -> str:
    """Return a plan as Python source, for a test."""
    told = ((field.name, getattr(plan, field.name), field.default) for field in fields(Plan))
    return f"Plan({', '.join(f'{name}={value!r}' for name, value, default in told if value != default)})"


def tell(seed: int, found: Sequence[str], *, shrink: bool) -> None:
    """Print a wrong answer, the command that repeats it, and a small plan."""
    print(f"seed {seed}: {command(seed)}", *(f"  {sentence}" for sentence in found), sep="\n", flush=True)
    if shrink and not found[0].startswith("the judge failed"):
        kind = kind_of(found)

        def fails(plan: Plan) -> bool:
            again = wrong(plan)
            return bool(again) and kind_of(again) == kind

        print(f"  {literal(shrunk(plan_of(seed), fails, SHRINK_S))}", flush=True)


# --- the series ---------------------------------------------------------------------------------------


def begun(first_seed: int, file: Path) -> Row:
    """Return a series' stored row, or a new one."""
    row: Row = {"generator": generator(), "judge": judge(), "first_seed": first_seed, "next_seed": first_seed}
    row |= {"date": "", "histories": 0, "minutes": 0.0, "cpu_minutes": 0.0, "verdicts": {}, "failing": []}
    return next((other for other in read(file) if exploration.key_of(other) == exploration.key_of(row)), row)


def explore(row: Row, minutes: float, file: Path) -> Row:
    """Judge histories for some minutes and store the row meanwhile."""
    began_s = kept_s = time.monotonic()
    before, verdicts = dict(row), Counter(row["verdicts"])
    kinds = {each["kind"] for each in row["failing"]}
    while time.monotonic() < began_s + minutes * 60:
        seed = row["next_seed"]
        verdict, found = answer(seed)
        verdicts[verdict] += 1
        if found:
            tell(seed, found, shrink=kind_of(found) not in kinds)
            kinds.add(kind_of(found))
            row["failing"].append({"seed": seed, "kind": kind_of(found)})
        row |= {"next_seed": seed + 1, "histories": row["histories"] + 1, "verdicts": dict(verdicts)}
        now_s = time.monotonic()
        if now_s > kept_s + KEPT_EVERY_S:
            kept_s = now_s
            _keep(row, before, now_s - began_s, file)
    _keep(row, before, time.monotonic() - began_s, file)
    return row


def _keep(row: Row, before: Row, taken_s: float, file: Path) -> None:
    """Write the row so far; on a busy host, CPU minutes are fewer than elapsed ones."""
    minutes = before["minutes"] + taken_s / 60
    row |= {"minutes": round(minutes, 1), "cpu_minutes": round(before["cpu_minutes"] + time.process_time() / 60, 1)}
    row["date"] = datetime.now(UTC).date().isoformat()
    exploration.keep(row, file)
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(row["verdicts"].items()))
    print(
        f"{row['minutes']:.1f} min, seeds {row['first_seed']} to {row['next_seed'] - 1}, "
        f"{row['histories'] / max(minutes * 60, 1e-9):.1f} histories/s: {told}; {len(row['failing'])} wrong answers",
        flush=True,
    )


def main(argv: Sequence[str]) -> int:
    """Explore, or show the answer to one seed; return 1 if an answer is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.explore", description="Judge histories of the model.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--from-seed", type=int, help="of the first history; a new one by default")
    parser.add_argument("--seed", type=int, help="show the answer to this one alone")
    parser.add_argument("--results", type=Path, default=exploration.RESULTS, help="the file of rows")
    asked = parser.parse_args(argv)
    pa.set_cpu_count(1)  # histories are small: threads only add overhead
    pa.set_io_thread_count(1)
    if asked.seed is not None:
        verdict, found = answer(asked.seed)
        print(literal(plan_of(asked.seed)), f"generator {generator()}: {verdict}", sep="\n")
        if found:
            tell(asked.seed, found, shrink=True)
        return 1 if found else 0
    first = fresh_seed() if asked.from_seed is None else asked.from_seed
    row = begun(first, asked.results)
    print(f"generator {row['generator']}, judge {row['judge']}, from seed {row['next_seed']}", flush=True)
    return 1 if explore(row, asked.minutes, asked.results)["failing"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
