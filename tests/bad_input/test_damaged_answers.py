"""The wire probe against brokers whose answers are cut, late or damaged, over real sockets."""

from __future__ import annotations

import pytest

from tests.bad_input import damaged_answers
from tests.bad_input.damaged_answers import QUESTIONS, answers_of, attempt, cut, flipped, pauses


@pytest.fixture(scope="module")
def answers() -> dict[str, list[bytes]]:
    """What brokers answer to each question, frame by frame."""
    return {name: answers_of(question) for name, question in QUESTIONS.items()}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_whole_answer_is_read(name: str, answers: dict[str, list[bytes]]) -> None:
    """The near miss of everything below: undamaged, the same answers give a value."""
    assert attempt(QUESTIONS[name], answers[name]).outcome == "value"


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_that_is_cut_is_an_error_of_the_connection(name: str, answers: dict[str, list[bytes]]) -> None:
    """Wherever the connection ends within an answer: OSError, and no value."""
    told = [attempt(QUESTIONS[name], frames) for frames in cut(answers[name])]

    assert {each.outcome for each in told} == {"error"}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_damaged_answer_ends_no_probe(name: str, answers: dict[str, list[bytes]]) -> None:
    """A flipped byte gives the documented error, or a value where the protocol has no checksum; nothing else."""
    told = [attempt(QUESTIONS[name], frames) for frames in flipped(answers[name], step=7)]

    assert [each for each in told if each.outcome not in ("error", "value")] == []


def test_damage_to_records_is_told() -> None:
    """Their batch has a checksum: no damaged record is sound, though the frame around it may be read."""
    assert damaged_answers.silent(QUESTIONS["consume"], step=3) == []


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_that_comes_late_is_a_timeout_or_whole(name: str, answers: dict[str, list[bytes]]) -> None:
    """Nothing more within the time limit, whatever came before, is an error; the rest after a pause is a value."""
    question, frames = QUESTIONS[name], answers[name]
    ends = [attempt(question, each, stay_open=True, timeout_s=0.05) for each in cut(frames, step=17)]
    paused = [attempt(question, frames, pause=each) for each in pauses(frames, step=5)]

    assert {each.outcome for each in ends} == {"error"}
    assert {each.why for each in ends} <= {"TimeoutError", "OSError"}
    assert {each.outcome for each in paused} == {"value"}
    assert {each.answer for each in pauses(frames, step=5)} == set(range(len(frames)))
