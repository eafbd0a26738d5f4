"""A copier's output against its input: each committed record is there exactly once."""

import numpy as np

from evidence.partition import Copied, Drain
from judge.checks import exactly_once
from tests.evidence.folders import polled
from tests.evidence.partitions import evidence


def copy(offset, of, **other):
    """The final drain's read of the copy of the input at an offset."""
    return polled(offset, of, producer_id="copier-0", **other)


def found(polls, *, inputs=(0, 1, 4), committed=5, drained=True, whole=True):
    """Anomaly → the inputs whose copies are wrong; control records stand at the other offsets of the input."""
    of = evidence(polls=polls, drain=Drain(9, 9, drained))
    copied = Copied("copier-0", np.array(inputs, dtype=np.int64), committed, whole)
    each = [
        (case.anomaly, [of.names.name(int(value))[1] for value in case.values])
        for case in exactly_once.cases(of, copied)
    ]
    return {anomaly: inputs for anomaly, inputs in each if inputs}


WHOLE = [copy(0, 0), copy(1, 1), copy(3, 4)]


def test_lost_output_is_a_committed_input_without_a_copy():
    """One whose offset is not committed is not owed yet; where the drain broke off nothing is missing for certain."""
    assert found(WHOLE[:2])["lost_output"] == [4]
    assert found([])["lost_output"] == [0, 1, 4]
    assert list(found(WHOLE)) == []
    assert list(found(WHOLE[:2], committed=4)) == []
    assert list(found(WHOLE[:2], drained=False)) == []
    assert list(found([], inputs=())) == []


def test_duplicate_output_is_an_input_with_two_copies():
    """An offset that was read twice is one copy, and so is what a live consumer read beside the drain."""
    assert found([*WHOLE, copy(5, 1)])["duplicate_output"] == [1]
    assert list(found([*WHOLE, copy(1, 1)])) == []
    assert list(found([*WHOLE, copy(5, 1, final=False)])) == []


def test_a_copy_of_what_is_not_committed_is_a_phantom():
    """Where the drain of the input broke off the input may be there; another producer's records are no copies."""
    assert found([*WHOLE, copy(5, 3)]) == {"phantom_record": [3]}
    assert found([*WHOLE, copy(5, 3)], whole=False) == {}
    assert found([*WHOLE, polled(5, 3)]) == {}


def test_a_case_names_the_input_and_the_places():
    """So that a person can look them up."""
    of = evidence(polls=[*WHOLE[1:], copy(5, 1)], drain=Drain(9, 9, complete=True))
    cases = {
        case.anomaly: case for case in exactly_once.cases(of, Copied("copier-0", np.array([0, 1, 4]), 5, whole=True))
    }

    assert cases["lost_output"].example(0)["evidence"] == {"input_offset": 0, "committed": 5}
    assert cases["duplicate_output"].example(0)["explanation"] == "The input at offset 1 has copies at offsets 1, 5."
