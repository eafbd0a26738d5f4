"""Judge new histories of the model in each run of the suite; pytest's last lines show the seeds."""

import pytest

from tests.model import explore
from tests.model.seeds import FRESH, SEED, fresh_seed

EACH = 4


@pytest.mark.parametrize("part", range(FRESH // EACH))
def test_the_judge_says_what_the_model_knows(part):
    """Each wrong answer is shown with the command that repeats it."""
    first = fresh_seed() + part * EACH
    answers = {explore.command(seed): explore.answer(seed)[1] for seed in range(first, first + EACH)}

    assert {command: wrong for command, wrong in answers.items() if wrong} == {}


def test_a_seed_of_the_environment_is_taken(monkeypatch):
    """Without one, two seeds almost always differ."""
    monkeypatch.setenv(SEED, "77")
    assert fresh_seed() == 77
    monkeypatch.delenv(SEED)
    assert len({fresh_seed() for _ in range(3)}) > 1
