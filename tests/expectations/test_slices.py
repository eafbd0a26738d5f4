"""Queries on rows that are read slice by slice."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from expectations.slices import MAX_EXAMPLES, duplicated, null_counts, of_files, rows_where, types

KEYS = pa.table({"who": ["a", "b", "a", None, "a", None], "number": [1, 1, 2, 3, 1, 3]})


def files(tmp_path, *tables):
    """Write tables as files with row groups of two rows."""
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=2)
    return of_files([tmp_path / f"{number}.parquet" for number in range(len(tables))])


@pytest.mark.parametrize(
    ("columns", "rows", "values"),
    [
        (["who", "number"], 4, [("a", 1), (None, 3)]),
        (["number"], 5, [(1,), (3,)]),
        (["who"], 5, [("a",), (None,)]),
    ],
)
def test_duplicates_are_found_across_row_groups_and_files(columns, rows, values, tmp_path):
    """Duplicates are found across row groups and files if all columns are equal; null equals null."""
    found, examples = duplicated(files(tmp_path, KEYS[:3], KEYS[3:]), columns)

    assert found == rows
    assert sorted((tuple(row.values()) for row in examples), key=str) == values


def test_rows_whose_hashes_are_alike_are_compared(tmp_path, monkeypatch):
    """Rows with equal hashes are compared, so that a constant hash yields the same count."""
    monkeypatch.setattr("expectations.slices._hash", lambda values: pa.array([0] * len(values)).to_numpy().astype("u8"))

    assert duplicated(files(tmp_path, KEYS), ["who", "number"])[0] == 4


def test_a_column_that_a_file_lacks_is_null_there(tmp_path):
    """A column that a file lacks is null there for conditions, null counts and examples."""
    frame = files(tmp_path, KEYS, KEYS.append_column("later", pa.array(range(6))))

    assert null_counts(frame, ["later", "who"]) == [6, 4]
    assert rows_where(frame, [["later", "is null"]])[:2] == (12, 6)
    assert rows_where(frame, [["later", ">=", 4]], show=["later"]) == (12, 2, [{"later": 4}, {"later": 5}])
    assert rows_where(frame, [["later", "is null"]], show=["later"])[2][0] == {"later": None}


def test_types_that_differ_between_files_are_both_told(tmp_path):
    """Types that differ between files are both named."""
    other = pa.table({"who": ["a"], "number": pa.array([1], pa.int32())})

    assert types(files(tmp_path, KEYS, other)) == {"who": "string", "number": "int32 or int64"}


def test_so_many_examples_are_shown_and_all_are_counted(tmp_path):
    """All rows are counted, and the first ones in the order of the files are shown."""
    many = pa.table({"number": range(100)})
    rows, found, examples = rows_where(files(tmp_path, many), [["number", ">=", 50]])

    assert (rows, found, len(examples)) == (100, 50, MAX_EXAMPLES)
    assert examples[0] == {"number": 50}
