"""Time the judge on generated run folders: ``python -m bench.judge 100k 1.26m``; without names, list the cases.

Each round judges in a new application; the median counts. A further run's time is the difference to an application that
also judges copies, per copy. The verdict must contain the planted cases.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import targets
from bench.folders import differences, expected, write
from bench.generated.plan import Plan, Planted
from bench.host import host
from bench.memory import Memory
from history.errors import BadInput, PlimsollError
from history.exit_codes import UNKNOWN
from reports import run_page
from spark.submit import judge

Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A generated run and its target, if any."""

    plan: Plan
    target: str | None = None
    page: bool = False
    rounds: int = 1
    further: int = 0  # copies that one application judges as well


CASES = {
    "demo": Case(Plan(60_000, partitions=2, seconds=90), "demo", page=True, rounds=5, further=4),
    "100k": Case(Plan(100_000, partitions=12)),
    "1m": Case(Plan(1_000_000, partitions=12), rounds=5),
    "1.26m": Case(Plan(1_260_000, partitions=12), "records_1_26m", rounds=5),
    "12m": Case(Plan(12_000_000, partitions=12), "records_12m"),
    "50m": Case(Plan(50_000_000, partitions=12)),
    "100m": Case(Plan(100_000_000, partitions=48), "records_100m_memory"),  # writes 46 GB
    "partitions": Case(Plan(300_000, partitions=1000, seconds=300), "partitions_1000", page=True),
    "soak": Case(Plan(7_200_000, partitions=12, seconds=7200), "soak_2h", page=True),
    "loss": Case(Plan(6_000_000, partitions=12, planted=Planted(lost=2_000_000)), "heavy_loss"),
}


@dataclass(frozen=True)
class Measured:
    """One case: seconds to write, to judge, per further run, and for the page."""

    case: str
    write_s: float
    rounds_s: Sequence[float]
    cpu_s: float  # lower bound, as some workers report none
    further_s: float | None
    page_s: float | None
    page_mb: float | None
    peak_mb: float
    verdict: Json
    wrong: list[str]

    @property
    def judge_s(self) -> float:
        return median(self.rounds_s)


def measure(name: str, case: Case, scratch: Path) -> Measured:
    """Write, judge and remove one case."""
    run = scratch / name
    try:
        write_s = _seconds(lambda: write(case.plan, run))
        used_s = _used_s()
        with Memory() as memory:
            rounds_s = [_seconds(lambda: judge([run])) for _ in range(case.rounds)]
        cpu_s = (_used_s() - used_s) / case.rounds
        verdict = json.loads((run / "verdict" / "verdict.json").read_text())
        page_s = _seconds(lambda: run_page.publish(run, scratch / "site")) if case.page else None
        page_mb = (run / "report" / "index.html").stat().st_size / 1e6 if case.page else None
        further_s = _further(run, case.further, median(rounds_s)) if case.further else None
    finally:
        shutil.rmtree(run, ignore_errors=True)
    return Measured(
        case=name,
        write_s=write_s,
        rounds_s=rounds_s,
        cpu_s=cpu_s,
        further_s=further_s,
        page_s=page_s,
        page_mb=page_mb,
        peak_mb=memory.peak_mb,
        verdict=verdict,
        wrong=differences(expected(case.plan), verdict),
    )


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _seconds(work: Any) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def _further(run: Path, count: int, judge_s: float) -> float:
    """The copies are hard links."""
    copies = [run.with_name(f"{run.name}-{number}") for number in range(count)]
    try:
        for copy in copies:
            shutil.copytree(run, copy, copy_function=_link)
        return (_seconds(lambda: judge([run, *copies])) - judge_s) / count
    finally:
        for copy in copies:
            shutil.rmtree(copy, ignore_errors=True)


def _link(source: str, destination: str) -> None:
    Path(destination).hardlink_to(source)


def results(measured: Sequence[Measured], cases: Mapping[str, Case]) -> Iterator[Json]:
    """Yield rows of ``bench.targets``."""
    measured_on = host()
    for each in measured:
        case = cases[each.case]
        seconds = each.judge_s + (each.page_s or 0.0)
        if case.target == "heavy_loss":
            yield targets.row(case.target, _off(case.plan, each.verdict), seconds=round(seconds, 2), host=measured_on)
        elif case.target == "records_100m_memory":
            used_gib = round(each.peak_mb * 1e6 / 2**30, 2)
            yield targets.row(case.target, used_gib, seconds=round(seconds, 2), host=measured_on)
        elif case.target:
            rounds_s = [round(taken, 2) for taken in each.rounds_s]
            yield targets.row(
                case.target, round(seconds, 2), cpu_s=round(each.cpu_s, 2), rounds_s=rounds_s, host=measured_on
            )
        if f"{case.target}_page" in targets.TARGETS and each.page_mb is not None:
            yield targets.row(f"{case.target}_page", round(each.page_mb, 3), host=measured_on)
        if each.further_s is not None:
            yield targets.row("further_run", round(each.further_s, 2), case=each.case, host=measured_on)
    by_name = {each.case: each.judge_s / cases[each.case].plan.records for each in measured}
    if {"1m", "50m"} <= by_name.keys():
        yield targets.row("growth_1m_to_50m", round(by_name["50m"] / by_name["1m"], 3), host=measured_on)


def _off(plan: Plan, verdict: Mapping[str, Any]) -> int:
    """A verdict other than fail counts as 0 found."""
    lost = verdict["delivery"]["lost"] if verdict["verdict"] == "fail" else 0
    return abs(int(lost) - plan.planted.lost)


def line(measured: Measured, plan: Plan) -> str:
    """Format one case as a line of text."""
    parts = [
        f"{measured.case}: {plan.records:,} records, {plan.partitions:,} partitions",
        f"written in {measured.write_s:.1f} s",
        f"judged in {measured.judge_s:.1f} s ({min(measured.rounds_s):.1f} to {max(measured.rounds_s):.1f} in "
        f"{len(measured.rounds_s)} rounds), {measured.cpu_s:.1f} s of CPU",
        f"peak {measured.peak_mb:,.0f} MB",
    ]
    if measured.further_s is not None:
        parts.append(f"each further run {measured.further_s:.1f} s")
    if measured.page_s is not None:
        parts.append(f"page {measured.page_s:.1f} s, {measured.page_mb:.1f} MB")
    return "; ".join(parts) + "".join(f"\n  WRONG {sentence}" for sentence in measured.wrong)


def main(argv: Sequence[str]) -> int:
    """Measure some cases; return 1 if a planted case was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.judge", description="Time the judge on generated runs.")
    parser.add_argument("cases", nargs="*", help=f"some of {', '.join(CASES)}")
    parser.add_argument("--record", action="store_true", help="append the figures to bench/results.json")
    parser.add_argument("--into", type=Path, default=None, help="where the folders are written for a while")
    arguments = parser.parse_args(argv)
    try:
        return _main(arguments)
    except PlimsollError as error:
        print(error, file=sys.stderr)
        return getattr(error, "exit_code", UNKNOWN)


def _main(arguments: argparse.Namespace) -> int:
    if unknown := [name for name in arguments.cases if name not in CASES]:
        raise BadInput(f"There is no case {unknown[0]!r}; choose from {', '.join(CASES)}.")
    for name, case in CASES.items() if not arguments.cases else ():
        print(f"{name:<12}{case.plan.records:>12,} records, {case.plan.partitions:,} partitions  {case.target or ''}")
    measured = []
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-", dir=arguments.into) as scratch:
        for name in arguments.cases:
            measured.append(measure(name, CASES[name], Path(scratch)))
            print(line(measured[-1], CASES[name].plan), flush=True)
    rows = list(results(measured, CASES))
    print(*(f"{row['target']}: {row['figure']:,} {row['unit']}, {_met(row)}" for row in rows), sep="\n")
    if arguments.record:
        targets.record(rows)
    return int(any(each.wrong for each in measured))


def _met(row: Mapping[str, Any]) -> str:
    return "met" if row["met"] else "NOT met"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
