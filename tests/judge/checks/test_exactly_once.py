"""A copier's output compared with its input: each committed record must be copied exactly once."""

import numpy as np
import pytest

from evidence.columns import NULL
from evidence.facts import Drain, Input
from history.partition import TopicPartition
from judge.checks import exactly_once
from tests.evidence.folders import MS, S, polled, sample
from tests.evidence.partitions import evidence

INPUT = TopicPartition("input", 0)


def copy(offset, of, **other):
    """Return the final drain's read of the copy of this input."""
    return polled(offset, of, producer_id="copier-0", **other)


def found(polls, *, inputs=(0, 1, 4), committed=5, drained=True, whole=True, of_input=None, **of_output):
    """Return the inputs whose copies are wrong by anomaly; the input's other offsets are control records."""
    copied = {"input": Input(INPUT, committed, whole, **(of_input or {})), "input_offsets": np.array(inputs, np.int64)}
    of = evidence(polls=polls, drain=Drain(9, 9, drained), **copied, **of_output)
    each = [(case.anomaly, [of.names.name(int(v))[1] for v in case.values]) for case in exactly_once.cases(of)]
    return {anomaly: inputs for anomaly, inputs in each if inputs}


COPIED = {"input": Input(INPUT, 5, whole=True), "input_offsets": np.array([0, 1, 4])}
WHOLE = [copy(0, 0), copy(1, 1), copy(3, 4)]


def test_lost_output_is_a_committed_input_without_a_copy():
    """A committed input without a copy is lost output, if the drain reached the end and the offset is committed."""
    assert found(WHOLE[:2])["lost_output"] == [4]
    assert found([])["lost_output"] == [0, 1, 4]
    assert list(found(WHOLE)) == []
    assert list(found(WHOLE[:2], committed=4)) == []
    assert list(found(WHOLE[:2], drained=False)) == []
    assert list(found([], inputs=())) == []


def test_duplicate_output_is_an_input_with_two_copies():
    """An input with copies at two offsets is duplicate output; one offset read twice is one copy."""
    assert found([*WHOLE, copy(5, 1)])["duplicate_output"] == [1]
    assert list(found([*WHOLE, copy(1, 1)])) == []
    assert list(found([*WHOLE, copy(5, 1, final=False)])) == []


@pytest.mark.parametrize(
    ("live", "samples", "shown_s"),
    [
        ([(1, 1, 8), (5, 1, 12)], [], [12]),
        ([(6, 7, 14), (5, 1, 15)], [], [14]),  # a later offset was read sooner
        ([(1, 1, 8)], [], [None]),  # the first copy alone
        ([], [(9, 5), (11, 6), (13, 7)], [11]),
        ([(5, 1, 12)], [(11, 6)], [11]),
    ],
)
def test_a_duplicate_output_is_shown_when_its_second_copy_was_seen(live, samples, shown_s):
    """A duplicate output is dated by a live read at or above it, or by a high watermark above it."""
    reads = [copy(offset, of, final=False, received_ns=at_s * S) for offset, of, at_s in live]
    probed = [sample(1, at_s * S - MS, high, 9) for at_s, high in samples]
    of = evidence(polls=[*WHOLE, copy(5, 1), *reads], samples=probed, drain=Drain(9, 9, complete=True), **COPIED)
    cases = exactly_once.cases(of)
    (duplicate,) = (case for case in cases if case.anomaly == "duplicate_output")

    assert [None if ns == NULL else ns // S for ns in duplicate.shown_ns.tolist()] == shown_s


def test_a_copy_of_what_is_not_committed_is_a_phantom():
    """A copy of an uncommitted input is a phantom, if the input was drained to its end."""
    assert found([*WHOLE, copy(5, 3)]) == {"phantom_record": [3]}
    assert found([*WHOLE, copy(5, 3)], whole=False) == {}
    assert found([*WHOLE, polled(5, 3)]) == {}


def test_what_was_deleted_of_the_output_took_the_first_copies():
    """Deleted output takes the first copies: a missing copy above a remaining one is lost."""
    assert found(WHOLE[1:], deleted_before=1) == {}
    assert found([], deleted_before=4) == {}
    assert found([copy(1, 1)], deleted_before=1) == {"lost_output": [4]}
    assert found(WHOLE[1:], deleted_before=0) == {"lost_output": [0]}


def test_what_was_deleted_of_the_input_is_no_phantom_in_the_output():
    """A copy of input that was deleted is no phantom; above the deletion offset it is."""
    assert found([*WHOLE, copy(5, 3)], inputs=(4,), of_input={"deleted_before": 4}) == {}
    assert found([*WHOLE, copy(5, 3)], inputs=(4,), of_input={"deleted_before": 3}) == {"phantom_record": [3]}


def test_compaction_may_have_taken_input_and_output():
    """With compaction, a missing copy and a copy without its input are no violations; a duplicate still is."""
    assert found([*WHOLE[1:], copy(5, 1)], kept=False) == {"duplicate_output": [1]}
    assert found(WHOLE[1:], of_input={"kept": False}) == {"lost_output": [0]}
    assert found([*WHOLE, copy(5, 3)], of_input={"kept": False}) == {}


@pytest.mark.parametrize(("output", "read", "permits"), [(True, True, False), (False, True, True), (True, False, True)])
def test_where_committed_records_may_be_gone_each_case_is_permitted(output, read, permits):
    """If committed records of input or output may be lost, each case is permitted and still counted."""
    copied = COPIED | {"input": Input(INPUT, 5, whole=True, clean=read)}
    drained = Drain(9, 9, complete=True)
    of = evidence(polls=[*WHOLE[1:], copy(5, 1), copy(6, 3)], drain=drained, clean=output, **copied)
    cases = list(exactly_once.cases(of))

    assert [(case.anomaly, case.values.size) for case in cases] == [
        ("lost_output", 1),
        ("duplicate_output", 1),
        ("phantom_record", 1),
    ]
    assert [case.why is not None and bool(case.why(0)) for case in cases] == [permits] * 3


def test_a_case_names_the_input_and_the_places():
    """A case names the input offset and the offsets of its copies."""
    of = evidence(polls=[*WHOLE[1:], copy(5, 1)], drain=Drain(9, 9, complete=True), **COPIED)
    cases = {case.anomaly: case for case in exactly_once.cases(of)}

    assert cases["lost_output"].example(0)["evidence"] == {"input_offset": 0, "committed": 5}
    assert cases["duplicate_output"].example(0)["explanation"] == "The input at offset 1 has copies at offsets 1, 5."
