"""Answers of cases, and rows as evidence."""

import pytest

from claims.answer import Case, Evidence, answer_of, decided, logged, sent
from tests.claims.rows import line, recording, send, state
from tests.evidence.probed import WHERE

ROW = Evidence("replicas/", 1, "seen")
YES, NO = Case(True, [ROW] * 4, 3), Case(False, [ROW])


@pytest.mark.parametrize(
    ("cases", "verdict", "sentence"),
    [
        ([YES, NO, NO], "refuted", "It fails (2 of 5 cases)."),
        ([YES], "shown", "It holds (3 of 3 cases)."),
        ([NO], "refuted", "It fails (1 of 1 case)."),
        ([], "not observable", "The runs have no case of it."),
    ],
)
def test_one_counterexample_outweighs_examples(cases: list[Case], verdict: str, sentence: str) -> None:
    """A counterexample outweighs examples; without cases a claim is not observable."""
    answer = answer_of(cases, "it holds", "it fails")

    assert (answer.verdict, answer.sentence) == (verdict, sentence)


def test_a_few_rows_are_enough() -> None:
    """An answer has at most six rows of evidence."""
    assert len(answer_of([YES, YES], "it holds", "").evidence) == 6


def test_a_line_as_evidence_knows_no_machine() -> None:
    """A log line as evidence keeps the broker's folder and drops the path above it."""
    text = "[Log partition=orders-0, dir=/home/me/runs/r/work/broker-3/data] x"
    (row,) = logged(line(1, "truncating", 3, leo=4) | {"text": text})

    assert row.text == "[Log partition=orders-0, dir=broker-3/data] x"
    assert row.source == "brokers/broker-3/server.log:1"


def test_a_state_names_the_place_of_its_record() -> None:
    """States of ZooKeeper are in its folder, others in the controller's."""
    rows = decided(state(0, source="znode"), state(0))

    assert [row.source for row in rows] == ["brokers/zookeeper/data/", "brokers/controller/data/"]


def test_a_send_has_its_offset_or_its_error() -> None:
    """An acknowledged send has its offset, a rejected one its error."""
    sends = [send(1, 5), send(2, None, outcome="info", error="timeout", done_ns=None)]
    of = recording(sends=sends).partitions[WHERE]

    assert sent(of, 0).text == "orders-0: write-1 record 5, acks=1: offset 5"
    assert sent(of, 1) == Evidence("sends/", None, "orders-0: write-1 record 0, acks=1: timeout")
