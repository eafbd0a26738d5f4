"""Write run folders of any size: ``python -m bench.folders --records 1e6 --partitions 12 --lost 100 OUT``.

Without planted cases the folder passes; otherwise the judge must find the numbers in ``OUT.expected.json``. Segment
indexes and JVM logs, which the judge does not read, are omitted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

from bench.generated import tables
from bench.generated.cluster import write_small_files
from bench.generated.plan import TOPIC, Plan, Planted
from bench.generated.segments import write_log
from history.errors import BadInput, PlimsollError
from history.exit_codes import UNKNOWN
from history.folder import RunFolder

Json = dict[str, Any]


def write(plan: Plan, out: Path) -> RunFolder:
    """Write a sealed run folder and its expected numbers, equal for equal plans.

    Raises:
        BadInput: the folder exists, or the plan has too few places for its cases.
    """
    if out.exists():
        raise BadInput(f"{out} is there already; name a folder that is not.")
    for number in range(plan.partitions):
        plan.partition(number)
    folder = RunFolder(out)
    out.mkdir(parents=True)
    try:
        _write(plan, folder)
    except BaseException:
        shutil.rmtree(out)
        raise
    expected_file(out).write_text(json.dumps(expected(plan), indent=1) + "\n")
    return folder


def _write(plan: Plan, folder: RunFolder) -> None:
    for number in range(plan.partitions):
        for broker in plan.assignment(number):
            (folder.brokers / f"broker-{broker}" / "data" / f"{TOPIC}-{number}").mkdir(parents=True)
    writers = {
        "live": tables.write_live,
        "drain": tables.write_drain,
        "sends": tables.write_sends,
        "samples": tables.write_replicas,
        "views": tables.write_isr,
    }
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = {name: pool.submit(write, plan, folder) for name, write in writers.items()}
        logs = range(plan.partitions if plan.segments else 0)
        for log in [pool.submit(write_log, plan, plan.partition(number), folder.brokers) for number in logs]:
            log.result()
    tables.write_empty(folder)
    tables.write_offsets(plan, folder)
    tables.write_usage(plan, folder)
    write_small_files(plan, folder, {name: future.result() for name, future in rows.items()})
    folder.seal()


def expected_file(out: Path) -> Path:
    """Return the path of a folder's expected numbers."""
    return out.with_name(f"{out.name}.expected.json")


def expected(plan: Plan) -> Json:
    """Return the verdict, anomalies and delivery sums that the judge must report.

    With logs, lost records also violate I15. Without logs or with one replica, a clean run is unknown.
    """
    planted, provable = plan.planted, plan.segments and plan.replicas > 1
    durable = {"I15": planted.lost * plan.replicas} if planted.lost and plan.segments else {}
    return {
        "verdict": "fail" if planted.anomalies else "pass" if provable else "unknown",
        "anomalies": planted.anomalies,
        "violations": durable,
        "delivery": {
            "sent": plan.records,
            "acked": plan.records - planted.aborted,
            "indeterminate": 0,
            "failed": planted.aborted,
            "read": plan.records - planted.lost,
            "lost": planted.lost,
            "unseen": 0,
            "truncated_ack": 0,
            "invisible_ack": 0,
            "undrained": 0,
            "unknown_offset_ack": 0,
            "duplicated": planted.duplicates,
            "duplicate_copies": planted.duplicates,
            "phantom": planted.phantoms,
            "corrupt": planted.corrupt,
            "aborted_read": planted.aborted,
        },
    }


def differences(expected: Json, verdict: Json) -> list[str]:
    """Return a verdict's differences from the expected numbers, as sentences."""
    violated = {name: row["violations"] for name, row in verdict["invariants"].items() if row["violations"]}
    pairs = [
        ("verdict", expected["verdict"], verdict["verdict"]),
        ("anomalies", expected["anomalies"], verdict["anomalies"]),
        ("violations", expected["violations"], violated),
        *((name, count, verdict["delivery"].get(name)) for name, count in expected["delivery"].items()),
    ]
    return [f"{name}: {judged} instead of {wanted}" for name, wanted, judged in pairs if wanted != judged]


def plan_of(argv: Sequence[str]) -> tuple[Plan, Path]:
    """Return the command line's plan and folder."""
    parser = argparse.ArgumentParser(prog="python -m bench.folders", description="Write a run folder of any size.")
    parser.add_argument("--segments", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("out", type=Path)
    defaults = {each.name: each.default for each in fields(Plan) if each.name not in ("segments", "planted")}
    numbers = {**defaults, "records": 1000, **dict.fromkeys((each.name for each in fields(Planted)), 0)}
    for name, default in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=_whole, default=default)
    values = vars(parser.parse_args(argv))
    out: Path = values.pop("out")
    planted = Planted(**{each.name: values.pop(each.name) for each in fields(Planted)})
    return Plan(planted=planted, **values), out


def _whole(text: str) -> int:
    value = float(text)
    if not value.is_integer():
        raise argparse.ArgumentTypeError(f"{text} is no whole number")
    return int(value)


def main(argv: Sequence[str]) -> int:
    """Write a folder and print the time it took."""
    began_s = time.perf_counter()
    try:
        plan, out = plan_of(argv)
        write(plan, out)
    except PlimsollError as error:
        print(error, file=sys.stderr)
        return getattr(error, "exit_code", UNKNOWN)
    seconds = time.perf_counter() - began_s
    print(f"{out}: {plan.records:,} records in {seconds:.1f} s, {plan.records / seconds:,.0f} records/s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
