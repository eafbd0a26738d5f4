"""The project stays within the sizes that CONTRIBUTING.md lists."""

import pytest

from tests.docs import budgets
from tests.docs.texts import ROOT, docs_of_code, messages_of_code, page_text, words, yaml_text

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
CODE = '''
"""Read a segment."""
LIMIT = 3  # Kafka's own limit


def read(path):
    """Return its batches."""
    raise ValueError(f"The segment {path} ends inside a batch.")
'''


def test_every_measure_has_a_budget() -> None:
    """The table lists each of them, under the same name."""
    assert budgets.budgets(CONTRIBUTING).keys() == {*budgets.MEASURES, *budgets.PARTS}


@pytest.mark.parametrize("measure", budgets.MEASURES)
def test_a_measure_is_within_its_budget(measure: str) -> None:
    """A budget that is not met yet has a ceiling, so that the size shrinks only."""
    permitted = budgets.budgets(CONTRIBUTING)[measure]

    assert budgets.MEASURES[measure]() <= permitted, "see python -m tests.docs.budgets"


def test_no_part_is_over_its_limit() -> None:
    """Pages, files, functions and classes; exceptions are listed by name and only shrink."""
    permitted = budgets.exceptions()

    assert {name: size for name, size in budgets.oversized().items() if size > permitted.get(name, 0)} == {}


def test_every_exception_is_needed() -> None:
    """An entry whose part is small enough by now is removed from the table."""
    assert budgets.exceptions().keys() - budgets.oversized().keys() == set()


def test_the_table_is_read() -> None:
    """A ceiling counts while it is larger than the budget; a row of another form does not count."""
    text = "\n".join(
        [
            "| measure | budget | ceiling |",
            "|---|---|---|",
            "| words of docs | 10,000 | 12,500 |",
            "| lines of bench | 5,000 | |",
            "| minutes, quiet | 8 (two cores) | 18 |",
        ]
    )

    assert budgets.budgets(text) == {"words of docs": 12_500, "lines of bench": 5_000}


def test_what_people_read_is_told_from_code() -> None:
    """Docstrings and comments, sentences of messages, prose without code, comments of YAML."""
    assert docs_of_code(CODE).split("\n") == ["Read a segment.", "Return its batches.", "Kafka's own limit"]
    assert messages_of_code(CODE) == " ends inside a batch."
    assert page_text("Run `make demo`:\n```\nmake demo\n```\nand read.").split() == ["Run", ":", "and", "read."]
    assert words("| a | [b c](docs/d.md) | – |") == 3
    assert yaml_text("# The load.\nrate: 200/s # per second\nname: a#b\n") == "The load.\nper second"
