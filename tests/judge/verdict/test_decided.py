"""What the checks could not decide is missing evidence."""

from judge.verdict import decided
from tests.evidence.folders import manifest


def test_undecided_things_are_evidence_that_is_missing():
    """An undecided invariant, an undrained record and an unseen positive control are missing evidence."""
    row = {"unseen": 3, "truncated_ack": 1, "invisible_ack": 1, "unknown_offset_ack": 1}

    assert decided.invariants_decided([{"invariant": "I1", "verdict": "pass", "reason": None}])[1] is None
    open_one = {"invariant": "I1", "verdict": "unknown", "reason": "no samples", "violations": 0}
    assert decided.invariants_decided([open_one])[1] == "I1 is undecided: no samples."
    assert decided.invariants_decided([open_one | {"violations": 2}])[1] == (
        "I1 is undecided (violations that are not proven: 2): no samples."
    )
    assert decided.sends_decided(row)[1] is None
    assert "fate of 1 acknowledged record is unknown" in decided.sends_decided({**row, "invisible_ack": 0})[1]
    assert "replica" in decided.sends_decided({**row, "invisible_ack": 0})[1]
    assert "replica" not in decided.sends_decided({**row, "invisible_ack": 0}, logs=False)[1]
    assert decided.control_seen("lost_write", {"truncated_ack": 4})[1] is None
    assert decided.offsets_hold(manifest(), {"bad_ack_offset": 2})[1] is None  # the logs show it
    imported = manifest().model_copy(update={"origin": "ledger"})
    assert "2 acknowledgements name" in decided.offsets_hold(imported, {"bad_ack_offset": 2})[1]
    assert "1 acknowledgement names" in decided.offsets_hold(imported, {"bad_ack_offset": 1})[1]
    assert decided.control_seen(None, {})[1] is None
    assert "must show duplicate" in decided.control_seen("duplicate", {"lost_write": 1})[1]
