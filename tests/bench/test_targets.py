"""Performance targets and their results."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import targets


@pytest.mark.parametrize(
    ("name", "figure", "met"),
    [
        ("records_1_26m", 30.0, True),
        ("records_1_26m", 30.1, False),
        ("accounting_over_duckdb", 1.5, True),
        ("accounting_over_duckdb", 1.4, False),
        ("heavy_loss", 0, True),
        ("heavy_loss", 1, False),
    ],
)
def test_a_target_is_met_up_to_its_bound(name: str, figure: float, met: bool) -> None:
    """A target is met up to its limit: seconds from below, ratios from above."""
    found = targets.row(name, figure, rounds=5)

    assert (found["target"], found["figure"], found["met"], found["rounds"]) == (name, figure, met, 5)
    assert found["unit"] == targets.TARGETS[name].unit


def test_a_figure_of_no_target_is_an_error() -> None:
    """A figure of an undeclared target is an error."""
    with pytest.raises(KeyError):
        targets.row("records_13m", 1.0)


def test_results_are_appended_and_the_last_one_is_told(tmp_path: Path) -> None:
    """Results are appended, and the last one is shown with its limit; unmeasured targets are also shown."""
    file, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text(f"above\n{targets.BEGIN}old\n{targets.END}\nbelow\n")
    for figure in (99.0, 20.0):
        targets.record([targets.row("records_1_26m", figure)], file, page)
    told = {line.split()[0]: line for line in targets.lines(targets.read(file))}

    assert [row["figure"] for row in targets.read(file)] == [99.0, 20.0]
    assert told.keys() == targets.TARGETS.keys()
    assert "at most 30 s" in told["records_1_26m"]
    assert "20 s: met" in told["records_1_26m"]
    assert "not measured" in told["soak_2h"]
    assert page.read_text().startswith(f"above\n{targets.BEGIN}| target |")
    assert page.read_text().endswith(f"{targets.END}\nbelow\n")
    assert "| 99 (not met), 20 |" in page.read_text()


def test_a_page_without_a_place_for_the_table_is_an_error(tmp_path: Path) -> None:
    """A page without a place for the table is an error, and is not overwritten."""
    page = tmp_path / "page.md"
    page.write_text("a page\n")

    with pytest.raises(ValueError, match=r"page.md has no table to write"):
        targets.write_page([], page)
    assert page.read_text() == "a page\n"


def test_the_page_has_the_last_figures() -> None:
    """The page has the last figures, as written by ``python -m bench.targets --write``."""
    assert "\n".join(targets.table(targets.read())) in targets.PAGE.read_text()


def test_a_table_shows_what_was_not_met() -> None:
    """A table shows a target's last two figures, older first; a target without figures is "not measured"."""
    rows = [targets.row("soak_2h", figure) for figure in (1.0, 250.0, 301.0)]
    told = {line.split("`")[1]: line for line in targets.table(rows)[2:]}

    assert told["soak_2h"].endswith("| 250, 301 (not met) |")
    assert told["demo"].endswith("| not measured |")
