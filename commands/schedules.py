"""Commands on randomised schedules: soak and fuzz."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from pathlib import Path

from campaigns import fuzz as fuzzing
from campaigns.places import Places
from clusters import rotation
from clusters.builds import build_of
from clusters.runtimes import CAPABILITIES, choose_runtime
from commands.outcome import EXIT_CODES, Outcome, say
from commands.runs import record_and_judge
from history.errors import BadInput
from history.folder import write_atomically

MAX_MINUTES = 240


def soak(*, kafka: str, minutes: float, seed: int | None, fault_mix: Path | None, runtime: str, runs: Path) -> Outcome:
    """Draw one schedule, keep it as a file, and run it.

    Raises:
        BadInput: an option is wrong; nothing was written.
    """
    seed = secrets.randbelow(2**31) if seed is None else seed
    if not 0 < minutes <= MAX_MINUTES:
        raise BadInput(f"MINUTES={minutes:g} is no length of a schedule; above 0 and up to {MAX_MINUTES} are.")
    made = rotation.rotation(_fault_mix(fault_mix, runtime), seed=seed, length_s=60 * minutes)
    build_of(kafka)  # refused before anything is written
    file = Places.beside(runs).site / "soak" / f"{made.name}-{made.digest[:8]}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, rotation.as_yaml(made))
    say(f"seed: {seed}\nschedule: {file}")
    return record_and_judge(str(file), kafka=kafka, runtime=runtime, seed=seed, runs=runs)


def fuzz(
    *,
    kafka: str,
    schedules: int,
    seed: int,
    length_s: float,
    shrink_runs: int,
    fault_mix: Path | None,
    name: str | None,
    runtime: str,
    runs: Path,
) -> Outcome:
    """Try schedules until one violates a guarantee, then shrink it.

    Raises:
        BadInput: an option is wrong; nothing was written.
    """
    from clusters import experiment  # heavy

    if schedules < 1:
        raise BadInput(f"SCHEDULES={schedules} is no number of schedules; 1 or more are.")
    if not 0 < length_s <= 60 * MAX_MINUTES:
        raise BadInput(f"SECONDS={length_s:g} is no length of a schedule; above 0 and up to {60 * MAX_MINUTES} are.")
    name = name or f"{re.sub(r'[^a-z0-9.]+', '-', kafka.lower()).strip('-.')}-{seed}"
    question = fuzzing.Question(kafka, schedules, seed, length_s, shrink_runs, runtime=runtime)
    places, mix = Places.beside(runs), _fault_mix(fault_mix, runtime)
    build_of(kafka)  # refused before anything is written
    folder = fuzzing.open_folder(question, name, places)
    try:
        journal = fuzzing.Journal(folder / "journal.jsonl")
        execute = fuzzing.executor(question, folder, name, places)
        search = fuzzing.Search(question, mix, journal, execute, say)
        counterexample = search.run()
    finally:
        experiment.reap()  # of a run that broke off
    undecided = search.undecided()
    state = fuzzing.state(counterexample, undecided)
    lines = fuzzing.conclusion(counterexample, undecided, question, folder, places)
    facts = {"folder": folder, "state": state, "lines": lines}
    return Outcome(EXIT_CODES[state], [*lines, f"state: {state}"], facts)


def _fault_mix(file: Path | None, runtime: str) -> rotation.Menu:
    """The fault mix, without what the runtime or the host's kernel cannot do."""
    mix, chosen = rotation.read_menu(file or rotation.MENU), choose_runtime(runtime)
    without: Collection[str] = ()
    if chosen == "docker":
        from clusters.runtimes.kernel import lacking  # heavy

        without = lacking(rotation.step_keys(mix))
    return rotation.possible(mix, CAPABILITIES[chosen], without)
