"""Every generated page is what its writer makes now."""

import pytest

from tests.docs.writers.__main__ import main
from tests.docs.writers.registry import DOCS, WRITERS, module, names


@pytest.mark.parametrize("writer", WRITERS)
def test_the_pages_are_current(writer: str) -> None:
    """Pages are current, and there are no others; ``make docs`` writes them."""
    made = module(writer).pages()

    assert {str(page.relative_to(DOCS)) for each in WRITERS[writer] for page in DOCS.glob(each)} == made.keys()
    assert [name for name, text in made.items() if (DOCS / name).read_text() != text] == []


def test_results_are_for_a_writer_that_takes_them(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown writer is refused; the pages of every writer are known."""
    with pytest.raises(SystemExit):
        main(["nothing"])

    assert "invalid choice: 'nothing'" in capsys.readouterr().err
    assert {"checks.md", "known-bugs.md", "dev/segments.md"} <= names()
