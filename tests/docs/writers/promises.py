"""Write docs/trust.md's section on Plimsoll's guarantees under its own faults, from docs/data/."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.acceptance import (
    flakiness,
    kills,
    matrix,
    nightly_runs,
    reliability,
    schedules,
    side_by_side,
    soak,
    start_cases,
    starts,
    under_airflow,
)
from tests.bad_input import documents as bad_input
from tests.bad_input import fuzz_files
from tests.model import exploration
from tests.mutations import mutate

Row = Mapping[str, Any]
Rows = Sequence[Row]
NOT_MEASURED = "not measured yet"
ANSWER = "answer to "


class Promise(NamedTuple):
    """A guarantee, the command or test that tries it, and its result."""

    words: str
    tried_by: str
    figure: Callable[[Rows], str]
    rows: Sequence[Path] = ()


def after_kills(rows: Rows) -> str:
    """Summarise ``tests.acceptance.kills``; a process that had ended is no kill."""
    left = sum(bool(row["left"] or row["clean"]) for row in rows)  # a failed clean may have missed leftovers
    judged = [run for row in rows for run in row["judged"]]
    passed = [run for run in judged if run["verdict"] == "pass"]
    unearned = sum(not run["whole"] for run in passed)
    accuse = sum(run["verdict"] == "fail" for run in judged)
    amid = kills.met([row for row in rows if row["number"] >= kills.AMID_FAULTS])
    return (
        f"{kills.met(rows)} kills ({amid} amid faults) of {len(rows)} tries: {left} left something behind; of "
        f"{len(judged)} judged runs {len(passed)} pass, {unearned} of them with an incomplete record, and {accuse} "
        f"report a violation"
    )


def failing_starts(rows: Rows) -> str:
    """Summarise ``tests.acceptance.starts``."""
    failing, controls = (
        [row for row in rows if (row["name"] in start_cases.CONTROLS) is each] for each in (False, True)
    )
    met, passed = (sum(not row["wrong"] for row in group) for group in (failing, controls))
    return (
        f"{met} of {len(failing)} starts; {passed} of {len(controls)} runs that do not need the removed resource pass"
    )


def bad_inputs(rows: Rows) -> str:
    """Summarise ``tests.bad_input.documents``."""
    own = [row for row in rows if not row["kind"].startswith(ANSWER)]
    hand = sum(row["by_hand"] for row in own)
    refused, tried = (sum(row[name] for row in own) for name in ("refused", "inputs"))
    return f"{refused:,} of {tried:,} rejected, {hand} of them written by hand"


def damaged_answers(rows: Rows) -> str:
    """Summarise ``tests.bad_input.damaged_answers``."""
    own = [row for row in rows if row["kind"].startswith(ANSWER)]
    tried, crashes = (sum(row[name] for row in own) for name in ("inputs", "crashes"))
    return f"{tried:,} answers: {crashes} crashes"


def fuzzed(rows: Rows) -> str:
    """Summarise ``tests.bad_input.fuzz_files``."""
    minutes = Counter[str]()
    for row in rows:
        minutes[fuzz_files.TARGETS[row["target"]].kind] += row["clean_minutes"]
    inputs = sum(row["inputs"] for row in rows)
    least = min(minutes, key=minutes.__getitem__)
    return (
        f"{len(minutes)} kinds of file, {len(rows)} readers, {inputs:,} inputs; {minutes.total():.1f} min "
        f"of a core since the last crash, at least {minutes[least]:.1f} for each kind ({least})"
    )


def clean_runs(rows: Rows) -> str:
    """Summarise ``tests.acceptance.reliability`` and ``tests.acceptance.matrix``."""
    clean = [row for row in rows if row["scenario"] in CLEAN]
    decided = [row for row in clean if row["verdict"] != "unknown" or row["anomalies"]]
    alarms = sum(not reliability.nothing_found(dict(row)) for row in decided)
    return f"{alarms} false alarms in {len(decided)} runs; {len(clean) - len(decided)} more are unknown"


def nightly(rows: Rows) -> str:
    """Summarise ``tests.acceptance.nightly_runs``."""
    runs = [run for row in rows for run in row["runs"]]
    controls = [run for run in runs if run["scenario"] == nightly_runs.CONTROL]
    lost = sum("lost_write" in run["shown"] for run in controls)
    minutes = sorted(row["minutes"] for row in rows)
    return (
        f"{sum(row['state'] == 'pass' for row in rows)} of {len(rows)} nightly runs pass ({len(runs)} runs), "
        f"{minutes[0]:g} to {minutes[-1]:g} min each; the positive control lost records in {lost} of {len(controls)}"
    )


def airflow_troubles(rows: Rows) -> str:
    """Summarise ``tests.acceptance.under_airflow``; the first row has no disturbance."""
    met = sum(not under_airflow.wrong(row) for row in rows)
    return f"{met} of {len(rows)} runs"


def soaked(rows: Rows) -> str:
    """Summarise ``tests.acceptance.soak``; unknown results and Kafka's known bugs are not failures.

    A row with a reason in ``withdrawn`` does not count.
    """
    bugs = [" and ".join(row.get("known_bugs", ())) for row in rows]
    told = "; ".join(
        f"{row['mode']} {row['minutes']:.0f} min: {row['verdict']}{f' by {bug}' if bug else ''}{_withdrawn(row)}"
        for row, bug in zip(rows, bugs, strict=True)
    )
    valid = [(row, bug) for row, bug in zip(rows, bugs, strict=True) if "withdrawn" not in row]
    accuse = sum(row["verdict"] == "fail" and not bug for row, bug in valid)
    left = sum(verdict == "unknown" for row in rows for verdict in row["invariants"].values())
    grew = max(share for row in rows for name, share in row["grew"].items() if not soak.KAFKAS_OWN.match(name))
    most = {name: max(row["most_mb"].get(name, 0) for row in rows) for name in soak.WATCHED}
    return (
        f"{told}. {accuse} of {len(valid)} valid verdicts report another violation, {left} invariants were not judged. "
        f"Plimsoll's processes grew by at most {grew:.0%}; "
        f"peaks: {', '.join(f'{mb:,} MB ({name})' for name, mb in most.items())}; "
        f"a recording has at most {max(row['record_mb'] for row in rows):,} MB"
    )


def _withdrawn(row: Row) -> str:
    return f", withdrawn: {row['withdrawn']}" if "withdrawn" in row else ""


def drawn(rows: Rows) -> str:
    """Summarise ``tests.acceptance.schedules``; the bound excludes those without a verdict."""
    tried, unknown, violated = (
        sum(row["schedules"] for row in rows),
        *(sum(len(row[name]) for row in rows) for name in ("unknown", "violations")),
    )
    versions = ", ".join(sorted({row["kafka"] for row in rows}))
    return (
        f"{tried} schedules of {len(rows)} kinds on Kafka {versions}: {violated} violate a guarantee, at most "
        f"{mutate.upper_bound(violated, tried - unknown):.1%} do; {unknown} could not be judged"
    )


def together(rows: Rows) -> str:
    """Summarise ``tests.acceptance.side_by_side``."""
    runs = [run for row in rows for run in row["runs"]]
    touched = sum(bool(side_by_side.wrong(row)) for row in rows)
    passed = sum(run["verdict"] == "pass" for run in runs)
    of_two = sum(len({run["user"] for run in row["runs"] if run.get("user")}) > 1 for row in rows)
    return (
        f"{len(rows)} times four runs at once, {of_two} of them of two users: {touched} with effects on another run or "
        f"leftovers; {passed} of {len(runs)} pass"
    )


def suites(rows: Rows) -> str:
    """Summarise ``tests.acceptance.flakiness``."""
    told = []
    for words, loaded in (("on a quiet host", False), ("with a busy loop on each core", True)):
        tries = [row for row in rows if flakiness.TRIES[row["try"]] is loaded]
        told.append(f"{sum(map(flakiness.clean, tries))} of {len(tries)} {words}")
    failed = sorted({name for row in rows for name in row["which"]})
    return f"the whole suite passed {', '.join(told)}" + (f"; failed: {', '.join(failed)}" if failed else "")


CLEAN = {matrix.MAIN, *(claim.scenario for claim in reliability.CAMPAIGN if claim.words == reliability.CLEAN)}
PROMISES = (
    Promise(
        "After the kill of any process, one `clean` removes everything, and an incomplete record never passes",
        "`tests.acceptance kills`",
        after_kills,
        (kills.RESULTS,),
    ),
    Promise(
        "A start that fails gives the reason, the remedy and the documented exit code, and leaves nothing behind",
        "`tests.acceptance starts`",
        failing_starts,
        (starts.RESULTS,),
    ),
    Promise(
        "After any trouble of Airflow (tasks marked or cleared, workers or schedulers killed, an unreachable "
        "database) the DAG run ends, its cluster is removed, and only a complete record passes",
        "`tests.acceptance under_airflow`",
        airflow_troubles,
        (under_airflow.RESULTS,),
    ),
    Promise(
        "Bad input is rejected in one sentence, before anything starts",
        "`tests.bad_input.documents`",
        bad_inputs,
        (bad_input.RESULTS,),
    ),
    Promise(
        "The prober survives cut, delayed and damaged answers of a broker",
        "`tests.bad_input.damaged_answers`",
        damaged_answers,
        (bad_input.RESULTS,),
    ),
    Promise(
        "A file never makes a reader crash, hang or grow without bound",
        "`tests.bad_input.fuzz_files`",
        fuzzed,
        (fuzz_files.RESULTS,),
    ),
    Promise(
        "A run without a violation of a guarantee gives no false alarm",
        "`tests.acceptance reliability`, `tests.acceptance matrix`",
        clean_runs,
        (reliability.RESULTS, matrix.RESULTS),
    ),
    Promise(
        "The judge's verdict on random histories, also with missing evidence, agrees with an independent model of a "
        "cluster",
        "`tests.model.explore`",
        exploration.figure,
        (exploration.RESULTS,),
    ),
    Promise(
        "The ten-minute nightly profile passes, and its positive control is detected",
        "`tests.acceptance nightly_runs`",
        nightly,
        (nightly_runs.RESULTS,),
    ),
    Promise(
        "A client that is killed at any byte loses its last open batch at most",
        "`tests/clusters/clients/test_ledger.py`",
        lambda _: "every byte of a stream, in CI",
    ),
    Promise(
        "A killed campaign continues where it was, without losing an archived row",
        "`tests/campaigns/test_crash_consistency.py`",
        lambda _: "before each operation on a file, and with each new file cut, in CI",
    ),
    Promise(
        "Nothing reaches a shell, leaves its folder, listens beyond its host or runs on a page",
        "[security](security.md#promises-and-their-tests)",
        lambda _: "each with its tests, all but one of them in CI",
    ),
    Promise(
        "Memory stays bounded for hours of faults, without a false alarm",
        "`tests.acceptance soak`",
        soaked,
        (soak.RESULTS,),
    ),
    Promise(
        "Random schedules of faults on the newest release give no false alarm",
        "`tests.acceptance schedules`",
        drawn,
        (schedules.RESULTS,),
    ),
    Promise(
        "Concurrent runs never affect each other",
        "`tests.acceptance side_by_side`",
        together,
        (side_by_side.RESULTS,),
    ),
    Promise("Tests pass every time or never", "`tests.acceptance flakiness`", suites, (flakiness.RESULTS,)),
)


def section(promises: Sequence[Promise] = PROMISES) -> list[str]:
    """Return the lines of the section."""
    return [
        "## Does it survive its own faults?",
        "",
        "| promise | tried by (`python -m`) | figure |",
        "|---|---|---|",
        *(f"| {each.words} | {each.tried_by} | {_figure(each)} |" for each in promises),
    ]


def _figure(promise: Promise) -> str:
    rows = [row for path in promise.rows if path.exists() for row in json.loads(path.read_text())]
    return promise.figure(rows) if rows or not promise.rows else NOT_MEASURED
