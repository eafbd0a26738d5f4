"""Answer the claims from recordings: ``python -m claims.answers RUN…`` takes one run folder per experiment."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from claims import answer as recorded
from claims.recording import Recording, open_recording
from claims.table import CLAIMS, EXPERIMENTS, WALKTHROUGHS, Claim
from history.errors import BadInput
from history.remote import check_reachable, path_of
from history.results.claims import Answer, Evidence


def answer(claim: Claim, recordings: Mapping[str, Recording]) -> tuple[recorded.Answer, str]:
    """Return the decisive answer and its experiment."""
    if claim.query is None:
        return recorded.Answer("not observable", claim.unobservable), ""
    names = [name for name in claim.query.experiments if name in recordings]
    if not names:
        return recorded.Answer("not observable", f"No run of {' or '.join(claim.query.experiments)} was recorded."), ""
    given = [recorded.answer_of(claim.query.cases(recordings[name]), claim.shows, claim.refutes) for name in names]
    return min(zip(given, names, strict=True), key=lambda each: get_args(recorded.Verdict).index(each[0].verdict))


def answers(recordings: Mapping[str, Recording]) -> dict[str, Answer]:
    """Return every claim's answer and its run."""
    return {name: _result(recordings, *answer(claim, recordings)) for name, claim in CLAIMS.items()}


def _result(recordings: Mapping[str, Recording], of: recorded.Answer, experiment: str) -> Answer:
    manifest = recordings[experiment].run.manifest if experiment else None
    run_id, started_ns = (manifest.run_id, manifest.started_ns) if manifest else ("", 0)
    at_s = [None if row.t_ns is None else round((row.t_ns - started_ns) / 1e9, 3) for row in of.evidence]
    return Answer(
        verdict=of.verdict,
        sentence=of.sentence,
        experiment=experiment,
        run_id=run_id,
        evidence=[
            Evidence(source=row.source, at_s=at, text=row.text) for row, at in zip(of.evidence, at_s, strict=True)
        ],
    )


def read_runs(runs: Mapping[str, Path]) -> dict[str, Recording]:
    """Open the run folders of experiments."""
    return {name: open_recording(run) for name, run in runs.items()}


def experiment_of(run: Path) -> str:
    """Return the experiment named in a run folder's name; raise BadInput if it is not a claims experiment."""
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
