"""Rows of explored histories."""

from tests.model.exploration import figure, keep, read

ROW = {
    "generator": "abc", "judge": "def", "first_seed": 5, "next_seed": 105, "date": "2026-11-29", "histories": 100,
    "minutes": 2.0, "cpu_minutes": 1.0, "verdicts": {"pass": 100}, "failing": [],
}  # fmt: skip


def test_a_row_takes_the_place_of_its_earlier_self(tmp_path):
    """A row replaces the earlier one of the same generator, judge and first seed; another judge has its own row."""
    file = tmp_path / "rows.json"
    for row in (ROW, ROW | {"next_seed": 205}, ROW | {"judge": "new"}):
        keep(row, file)

    assert [(row["judge"], row["next_seed"]) for row in read(file)] == [("def", 205), ("new", 105)]
    assert read(tmp_path / "none.json") == []


def test_the_figure_names_the_newest_seeds_and_sums_all():
    """The figure names the newest generator's seeds, generator and judge, and sums all histories."""
    older = ROW | {"judge": "old", "failing": [{"seed": 7, "kind": "x"}]}
    other = ROW | {"first_seed": 500, "next_seed": 600}

    assert figure([older, ROW, other]) == (
        "200 histories in 4 min (2 of CPU), seeds 5 to 104 and 500 to 599 of generator abc, judge "
        "def: 0 wrong answers; 300 histories in 6 min (3 of CPU) with earlier generators and judges"
    )
