"""Cases that violate no guarantee: sources that disagree, and behaviour that depends on the version."""

from judge.checks.behaviour import behaviour_change, source_disagreement
from kafka_files.states import State
from tests.evidence.folders import MS, TP, S, isr_view, sample
from tests.evidence.probed import facts_of, partition

WHERE = tuple(TP.values())


def told(cases):
    """Return (beginning of the explanation, reason of the permission) of each case."""
    rows = [(cases.example(n)["explanation"], cases.why(n)) for n in range(cases.values.size)]
    return [(sentence.split(" with")[0], why and why.split(" (")[1]) for sentence, why in rows]


def test_source_disagreement_is_not_permitted():
    """If a broker's first offset of an epoch differs from the epoch files, the sources disagree; equal ones do not."""
    said = {"kind": "leader_started", "broker_id": 3, **TP, "leader_epoch": 2, "log_end_offset": 30, "line": 7}

    assert told(source_disagreement(partition(starts={2: 29}, lines=[said]))) == [
        ("Broker 3 began epoch 2 at offset 30; epoch files begin it at 29.", None)
    ]
    assert told(source_disagreement(partition(starts={2: 30}, lines=[said]))) == []


def test_behaviour_change_is_permitted():
    """An election of the last known leader, or from the ELR, is a permitted change of behaviour."""
    before = State(*WHERE, "metadata_log", 0, 0, -1, 1, 0, (1, 2, 3), (), last_known_elr=(3,))
    after = State(*WHERE, "metadata_log", 1, S, 3, 2, 1, (1, 2, 3), (3,), recovering=True)
    shrunk = State(*WHERE, "metadata_log", 0, 0, 1, 1, 0, (1, 2, 3), (1,), elr=(3,))
    from_elr = State(*WHERE, "metadata_log", 1, S, 3, 2, 1, (1, 2, 3), (3,))

    def changes(*states):
        return told(behaviour_change(partition(states=states)))

    last_known = "Broker 3 was elected in epoch 2 as the last known leader,"
    out_of_elr = "Broker 3 was elected in epoch 2 out of the ELR,"
    assert changes(before, after) == [(last_known, "KIP-966)")]
    assert changes(before, after._replace(recovering=False)) == []
    assert changes(shrunk, from_elr) == [(out_of_elr, "KIP-966)")]


def test_behaviour_change_below_min_isr():
    """Up to 3.6 the HW moves below min.insync.replicas: a permitted change of behaviour; from 3.7 on it is none."""
    alone = State(*WHERE, "metadata_log", 0, 0, 1, 0, 0, (1, 2, 3), (1,))
    moves, stands = ([sample(1, n * S + MS, hw, 9) for n, hw in ((4, 5), (5, top))] for top in (9, 5))

    def changes(samples, **gates):
        known = facts_of(states=[alone], effective_min_isr=2, **gates)
        shown = [isr_view(S, 1, 0, [1])]
        return told(behaviour_change(partition(samples, shown, facts=known)))

    lax = {"strict_min_isr": False, "lax_min_isr": True}
    assert changes(moves, **lax) == [("The high watermark went from 5 to 9", "KAFKA-15583)")]
    assert changes(stands, **lax) == []
    assert changes(moves) == []
