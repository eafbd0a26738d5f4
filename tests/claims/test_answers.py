"""Answers of all claims from recordings."""

from pathlib import Path

import pytest

from claims.answers import answer, answers, experiment_of
from claims.table import CLAIMS, EXPERIMENTS, LINES, NOTES, WALKTHROUGHS, notes_of
from clusters.scenario.scenario import load_scenario
from history.errors import BadInput
from tests.claims import test_cluster, test_elections, test_isr, test_storage, test_watermarks
from tests.claims.rows import checked, event, recording, state, verdict_of

LEVEL = recording(invariants=[checked("I2")])
BELOW = recording(invariants=[checked("I2", violations=1)])
MODULES = (test_cluster, test_elections, test_isr, test_storage, test_watermarks)
CASES = [case for module in MODULES for case in module.CASES]
OF_FILES = {"C42"}  # whose tests write files
OF_STATES = {"C20", "C24", "C32", "C33"}  # decided by a first state


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
    assert given["C14"].run_id == "synthetic"


def test_a_folder_tells_its_experiment() -> None:
    """A run folder's name yields its experiment; other runs are rejected."""
    assert experiment_of(Path("runs/20261121-163102-claims-eviction-3-9-1-daa3")) == "eviction"
    assert experiment_of(Path("runs/20261121-163102-claims-log-start-3-9-1-daa3")) == "log_start"
    with pytest.raises(BadInput, match="no run of a claims experiment"):
        experiment_of(Path("runs/20261121-163102-steady-3-9-1-daa3"))


def test_the_table_is_complete() -> None:
    """The table has 48 claims with notes, and either a query or the reason why none can decide it."""
    assert list(CLAIMS) == [f"C{number}" for number in range(1, 49)]
    for name, claim in CLAIMS.items():
        experiments = claim.query.experiments if claim.query else ()
        assert notes_of(name)
        assert set(experiments) <= {*EXPERIMENTS, *WALKTHROUGHS}
        assert bool(experiments) == bool(claim.shows) == bool(claim.refutes) != bool(claim.unobservable)
    assert {number for note in NOTES.values() for number in note.claims} == set(range(1, 49))
    assert sum(bool(claim.unobservable) for claim in CLAIMS.values()) <= 4


@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.items() if claim.query and name not in OF_FILES])
def test_what_the_table_promises_an_answer_can_give(name: str) -> None:
    """Each verdict has a test; a verdict that a claim's query cannot return is in brackets in the table."""
    verdicts = {verdict for claim, _, verdict in CASES if claim == name}

    assert ("shown" in verdicts) != CLAIMS[name].shows.startswith("(")
    assert ("refuted" in verdicts) != CLAIMS[name].refutes.startswith("(")
    assert "not observable" in verdicts or name in OF_STATES


@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.items() if claim.query and name not in OF_STATES])
def test_nothing_recorded_is_nothing_observed(name: str) -> None:
    """A recording without rows neither shows nor refutes a claim."""
    assert verdict_of(name, recording([], [state(0)], events=[event(0, "run_started")])) == "not observable"


def test_every_experiment_is_a_scenario() -> None:
    """Every experiment is a scenario, and the table lists every line of versions once."""
    names = [f"claims_{name}" for name in (*EXPERIMENTS, *WALKTHROUGHS)]
    assert [load_scenario(name).name for name in names] == names
    assert len(set(LINES)) == len(LINES)


def test_no_answer_reads_a_version() -> None:
    """Answers depend on recorded rows alone; no code of a claim reads the Kafka version."""
    sources = (Path(__file__).parents[2] / "claims").glob("*.py")

    assert [source.name for source in sources if "kafka_version" in source.read_text().replace("_versions", "")] == []
