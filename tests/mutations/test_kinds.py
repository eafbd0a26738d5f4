"""The kinds of damage cover the checks."""

import json

import pyarrow.parquet as pq
import pytest

from history.anomalies import SEVERITY
from judge.checks import invariants
from tests.evidence.folders import clean, polled
from tests.mutations.kinds import HARMLESS, KINDS
from tests.mutations.recording import Recording

# Checks that no damage to these recordings can trigger.
ELSEWHERE = {
    "unseen",  # follows from missing logs, which are kinds of their own
    "unknown_offset_ack",  # our producers' acknowledgements carry an offset; imported histories may not
    "hanging_transaction",  # needs longer without a fault than a transaction may be open
    "behaviour_change",  # by design of a version, not by damage
}


def test_every_check_has_damage_that_it_must_see():
    """Every check without a kind of damage is listed as an exception above."""
    found = {name for kind in KINDS for name in kind.found_by}
    checks = {*SEVERITY, *invariants.INVARIANTS, "source_disagreement"}

    assert checks - found == ELSEWHERE & checks
    assert found <= checks


def test_kinds_are_told_apart():
    """Each kind of damage has a unique name and sentence, and names the checks that must find it."""
    both = [*KINDS, *HARMLESS]
    assert len({kind.name for kind in both}) == len({kind.words for kind in both}) == len(both) >= 25
    assert [kind.name for kind in KINDS if not kind.words.endswith(".") or not (kind.found_by or kind.reason)] == []


@pytest.fixture
def copy(tmp_path):
    """A copy of a run whose live consumer read each of 40 records once."""
    history = clean(40)
    history.polls += [polled(n, n, final=False) for n in range(40)]
    history.clients["consumer-1"] = {"role": "consumer", "clean": True, "rows": 40, "seeks": 0}
    return Recording.copy(history.write(tmp_path / "original").path, tmp_path / "copy", "seed")


def changed(copy, name):
    """Return the live reads, the seeks and the consumer's summary after a change that the judge can read."""
    next(kind for kind in [*KINDS, *HARMLESS] if kind.name == name).damage(copy)
    read = Recording(copy.folder, copy.dice).reads("live")
    return (
        read,
        pq.read_table(copy.folder.table("seeks")).to_pylist(),
        json.loads((copy.folder.clients / "consumer-1.json").read_text()),
    )


@pytest.mark.parametrize(("name", "seeks"), [("reader_sought_back", 1), ("records_read_again", 0)])
def test_records_are_read_a_second_time_and_none_is_left_out(copy, name, seeks):
    """Records are read a second time without a gap: legal with a recorded seek, a violation without one."""
    read, recorded, summary = changed(copy, name)

    offsets = [row["offset"] for row in read]
    back = next(at for at in range(1, len(offsets)) if offsets[at] <= offsets[at - 1])
    assert (offsets[:back], offsets[back:]) == (list(range(offsets[back - 1] + 1)), list(range(offsets[back], 40)))
    assert [row["position"] for row in read] == list(range(len(read)))
    assert (summary["rows"], summary["seeks"], len(recorded)) == (len(read), seeks, seeks)
    assert all(row["offset"] == row["seq"] for row in read)


def test_a_recorded_seek_stands_where_the_reader_went_back(copy):
    """A recorded seek has the position of the first record read again, and its offsets from and to."""
    read, (seek,), _ = changed(copy, "reader_sought_back")

    behind = read[seek["position"]]
    assert (seek["to_offset"], seek["consumer_id"], seek["pass"]) == (behind["offset"], "consumer-1", "live")
    assert seek["from_offset"] == read[seek["position"] - 1]["offset"] + 1 > seek["to_offset"]
