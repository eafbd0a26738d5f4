"""Commands on clusters that somebody else runs, besides ``watch``."""

from __future__ import annotations

from pathlib import Path

from clusters.scenario.scenario import load_scenario
from commands.outcome import Outcome
from history.errors import BadInput, HarnessError
from history.exit_codes import UNKNOWN
from history.manifest import words_of


def dry_run(scenario: str, file: Path | None, *, rate: float | None) -> Outcome:
    """Say what a run would do; create nothing. Raise BadInput if it is impossible or not permitted there."""
    from clusters.run.attached import evidence_of  # slow import
    from clusters.run.dry_run import described, lines
    from clusters.run.prepare import attached_plan, with_rate

    if file is None:
        raise BadInput("--dry-run needs --cluster: it says what a run would do on a cluster that somebody else runs.")
    given = with_rate(load_scenario(scenario), rate)
    plan = attached_plan(given, file, seed=0, labels={})
    facts = described(plan, given, words_of(evidence_of(plan.foreign.description)))
    return Outcome(lines=list(lines(facts)), facts=facts)


def clean_cluster(file: Path, *, everything: bool) -> Outcome:
    """End faults and delete topics that crashed runs have left on a cluster."""
    from clusters.run.clean_cluster import clean_cluster as cleaned  # slow import

    done: list[str] = []
    try:
        done.extend(cleaned(file, everything=everything))
    except HarnessError as error:
        return Outcome(UNKNOWN, lines=done, facts={"done": done}, error=str(error))
    return Outcome(lines=done or ["nothing is left of any run"], facts={"done": done})
