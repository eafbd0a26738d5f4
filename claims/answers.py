"""Answer the claims from recordings: ``python -m claims.answers RUN…`` takes one run folder per experiment."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from claims import answer as answered
from claims.answer import decisive, unseen
from claims.recording import Recording, open_recording
from claims.table import CLAIMS, EXPERIMENTS, WALKTHROUGHS, Claim
from history.errors import BadInput
from history.remote import check_reachable, path_of
from history.results.claims import Answer, Evidence


def answer(claim: Claim, recordings: Mapping[str, Recording]) -> tuple[answered.Answer, str]:
    """Return the decisive answer and its experiment."""
    if claim.ask is None:
        return unseen(claim.unobservable), ""
    given = {name: claim.ask(recordings[name]) for name in claim.experiments if name in recordings}
    if not given:
        return unseen(f"No run of {' or '.join(claim.experiments)} was recorded."), ""
    best = decisive(list(given.values()))
    return best, next(name for name, each in given.items() if each is best)


def answers(recordings: Mapping[str, Recording]) -> dict[str, Answer]:
    """Return every claim's answer and its run."""
    found = {}
    for name, claim in CLAIMS.items():
        best, experiment = answer(claim, recordings)
        found[name] = Answer(
            verdict=best.verdict,
            sentence=best.sentence,
            experiment=experiment,
            run_id=recordings[experiment].run_id if experiment else "",
            evidence=[Evidence(**row._asdict()) for row in best.evidence],
        )
    return found


def read_runs(runs: Mapping[str, Path]) -> dict[str, Recording]:
    """Open the run folders of experiments."""
    return {name: open_recording(run) for name, run in runs.items()}


def experiment_of(run: Path) -> str:
    """Return the experiment named in a run folder's name.

    Raises:
        BadInput: it is not a claims experiment.
    """
    for experiment in (*EXPERIMENTS, *WALKTHROUGHS):
        if f"claims-{experiment.replace('_', '-')}" in run.name:
            return experiment
    raise BadInput(f"{run} is no run of a claims experiment; their scenarios are called claims_….")


def main(arguments: list[str]) -> None:
    """Print a line for each claim."""
    runs = [path_of(argument) for argument in arguments]
    for run in runs:
        check_reachable(run)
    recordings = read_runs({experiment_of(run): run for run in runs})
    for name, each in answers(recordings).items():
        sys.stdout.write(f"{name:4}{each.verdict:15}{each.sentence}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
