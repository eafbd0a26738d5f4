"""Custom expectations yield the same results for rows and for files."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from expectations.checkpoint import Suite, run
from expectations.slices import of_files
from expectations.suites import to_pandas

ROWS = pa.table(
    {
        "outcome": ["ok", "ok", "fail", None],
        "sent": pa.array([1, 5, 3, 4], pa.int64()),
        "done": pa.array([2, 4, None, 9], pa.int64()),
        "weight": pa.array([1, 10, 100, 1000], pa.int64()),
    }
)


@pytest.fixture(params=["rows", "files"])
def frame(request, tmp_path):
    """The same rows as a DataFrame, and as two files of several row groups."""
    if request.param == "rows":
        return to_pandas(ROWS)
    files = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    pq.write_table(ROWS[:3], files[0], row_group_size=2)
    pq.write_table(ROWS[3:], files[1])
    return of_files(files)


def validated(frame, tmp_path, *expectations):
    """Return the results of expectations on a frame."""
    return run([Suite("rows", frame, expectations)], tmp_path)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ([["outcome", "==", "ok"]], [1, 5]),
        ([["outcome", "!=", "ok"]], [3]),  # a null is not unlike anything, as in SQL
        ([["outcome", "in", ["ok", "info"]]], [1, 5]),
        ([["outcome", "not in", ["ok", "info"]]], [3]),
        ([["outcome", "is null"]], [4]),
        ([["done", "is not null"], ["outcome", "==", "ok"]], [1, 5]),
        ([["done", "<", {"column": "sent"}]], [5]),
        ([["done", "<=", 4]], [1, 5]),
        ([["done", ">", 8], ["outcome", "==", "ok"]], []),
    ],
)
def test_the_rows_that_satisfy_all_terms_are_counted_and_shown(frame, where, rows, tmp_path):
    """Rows that satisfy all terms are counted and shown; a comparison with null is not satisfied."""
    from expectations.custom import ExpectNoRowsWhere

    (result,) = validated(frame, tmp_path, ExpectNoRowsWhere(where=where, show=["sent"]))

    assert result.met is (not rows)
    assert result.observed["element_count"] == 4
    assert result.observed.get("unexpected_count", 0) == len(rows)
    assert sorted(row["sent"] for row in result.observed.get("partial_unexpected_list", [])) == rows


def test_a_row_counts_as_often_as_its_weight_says(frame, tmp_path):
    """A row counts by its weight, whatever the number of rows shown."""
    from expectations.custom import ExpectNoRowsWhere

    (result,) = validated(frame, tmp_path, ExpectNoRowsWhere(where=[["sent", ">", 2]], weight_column="weight"))

    assert result.observed["unexpected_count"] == 1110


def test_rows_that_weigh_nothing_break_nothing(tmp_path):
    """Rows of weight 0, such as examples that are counted elsewhere, break no rule."""
    from expectations.custom import ExpectNoRowsWhere

    frame = to_pandas(pa.table({"kind": ["a", "b"], "weight": [0, 1]}))
    light = ExpectNoRowsWhere(where=[["kind", "==", "a"]], weight_column="weight")
    heavy = ExpectNoRowsWhere(where=[["kind", "==", "b"]], weight_column="weight")

    assert [result.met for result in validated(frame, tmp_path, light, heavy)] == [True, False]


def test_nulls_are_named_with_their_columns(frame, tmp_path):
    """Required columns with nulls are named with their counts."""
    from expectations.custom import ExpectColumnsToNotBeNull

    filled, lacking = validated(
        frame,
        tmp_path,
        ExpectColumnsToNotBeNull(columns=["sent", "weight"]),
        ExpectColumnsToNotBeNull(columns=["sent", "done", "outcome"]),
    )

    assert filled.met
    assert not lacking.met
    assert lacking.observed["details"] == {"done": 1, "outcome": 1}


def test_types_are_named_as_arrow_names_them(frame, tmp_path):
    """A missing or undeclared column and one of another type are named with Arrow's type names."""
    from expectations.custom import ExpectColumnsToHaveTypes

    types = {"outcome": "string", "sent": "int64", "done": "int64", "weight": "int64"}
    same, absent, other = validated(
        frame,
        tmp_path,
        ExpectColumnsToHaveTypes(types=types | {"later": "int64"}, optional=["later"]),
        ExpectColumnsToHaveTypes(types=types | {"later": "int64"}),
        ExpectColumnsToHaveTypes(types={"outcome": "int32", "sent": "int64", "done": "int64"}),
    )

    assert same.met
    assert absent.observed["observed_value"] == "later is missing"
    assert other.observed["observed_value"] == "outcome is string, not int32; weight is not declared"
