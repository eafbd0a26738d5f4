"""Answers of all claims from recordings."""

import inspect
from pathlib import Path

import pytest

from claims.answer import decisive, refuted, shown, unseen
from claims.answers import answer, answers, experiment_of
from claims.table import CLAIMS, EXPERIMENTS, LINES, NOTES, WALKTHROUGHS
from clusters.scenario.scenario import load_scenario
from history.errors import BadInput
from tests.claims.rows import judged, recording, still

LEVEL = recording([*still(1, 0, 2, 5, 5), *still(2, 0, 2, 5, 5)])
BELOW = recording([*still(1, 0, 2, 5, 5)], found=judged("I2"))


def test_one_counterexample_outweighs_examples() -> None:
    """A counterexample outweighs examples, and an example outweighs an experiment without result."""
    yes, no, nothing = shown("a"), refuted("b"), unseen("c")

    assert decisive([yes, no, nothing]) is no
    assert decisive([nothing, yes]) is yes
    assert decisive([nothing]) is nothing


def test_the_answer_names_the_experiment_that_gave_it() -> None:
    """The answer names its experiment: one recording refutes what another shows."""
    claim = CLAIMS["C14"]

    assert answer(claim, {"propagation": LEVEL, "eviction": BELOW})[1] == "eviction"
    assert answer(claim, {"propagation": LEVEL})[0].verdict == "shown"


def test_a_claim_without_its_recording_says_which_is_missing() -> None:
    """A claim whose experiment was not recorded is not observable, and names the experiment."""
    given = answers({"propagation": LEVEL})

    assert given.keys() == CLAIMS.keys()
    assert given["C48"].verdict == "not observable"
    assert given["C48"].sentence == "No run of eviction was recorded."
    assert given["C14"].run_id == LEVEL.run_id


def test_a_folder_tells_its_experiment() -> None:
    """A run folder's name yields its experiment; other runs are rejected."""
    assert experiment_of(Path("runs/20261121-163102-claims-eviction-3-9-1-daa3")) == "eviction"
    assert experiment_of(Path("runs/20261121-163102-claims-log-start-3-9-1-daa3")) == "log_start"
    with pytest.raises(BadInput, match="no run of a claims experiment"):
        experiment_of(Path("runs/20261121-163102-steady-3-9-1-daa3"))


def test_the_table_is_complete() -> None:
    """The table has 48 claims with notes, and either an experiment or the reason why none can decide."""
    assert list(CLAIMS) == [f"C{number}" for number in range(1, 49)]
    for claim in CLAIMS.values():
        assert set(claim.notes) <= NOTES.keys()
        assert set(claim.experiments) <= {*EXPERIMENTS, *WALKTHROUGHS}
        assert (
            bool(claim.experiments)
            == bool(claim.ask)
            == bool(claim.shows)
            == bool(claim.refutes)
            != bool(claim.unobservable)
        )
    assert sum(bool(claim.unobservable) for claim in CLAIMS.values()) <= 4


def test_what_the_table_promises_an_answer_can_give() -> None:
    """A verdict that a claim's code cannot return is in brackets in the table; a default can return both."""
    for name, claim in CLAIMS.items():
        source = inspect.getsource(claim.ask) if claim.ask else "default_is("
        for verdict, told in (("shown", claim.shows), ("refuted", claim.refutes)):
            if "default_is(" not in source:
                assert (f"{verdict}(" in source) != told.startswith("("), (name, verdict)


def test_every_experiment_is_a_scenario() -> None:
    """Every experiment is a scenario, and the table lists every line of versions once."""
    names = [f"claims_{name}" for name in (*EXPERIMENTS, *WALKTHROUGHS)]
    assert [load_scenario(name).name for name in names] == names
    assert len(set(LINES)) == len(LINES)


def test_no_answer_reads_a_version() -> None:
    """Answers depend on recorded rows alone; no code of a claim reads the Kafka version."""
    folder = Path(__file__).parents[2] / "claims"
    asking = {claim.ask.__module__.partition(".")[2] for claim in CLAIMS.values() if claim.ask}

    assert len(asking) == 5
    assert [name for name in (*asking, "moments") if ".kafka" in (folder / f"{name}.py").read_text()] == []
