"""What ``make test`` says at its end."""

from pathlib import Path

from tests.run import budget_table, spent_by_folder

RESULTS = """<testsuites><testsuite>
<testcase classname="tests.spark.test_job" name="a" time="80.5"/>
<testcase classname="tests.spark.deep.test_b" name="b" time="49.4"/>
<testcase classname="tests.imports.test_cli" name="c" time="61"/>
<testcase classname="tests.test_imports" name="d" time="0.25"/>
</testsuite></testsuites>"""


def test_seconds_stand_beside_their_budget(tmp_path: Path) -> None:
    """By the folder below tests; one that overran its budget is marked, one just below it is not."""
    results = tmp_path / "results.xml"
    results.write_text(RESULTS)

    assert budget_table(spent_by_folder(results)).splitlines() == [
        "folder         seconds  budget",
        "spark              130     130",
        "imports             61      20  over",
        "(none)               0      20",
    ]


def test_a_part_that_did_not_end_has_no_times(tmp_path: Path) -> None:
    """Its results were never written."""
    assert spent_by_folder(tmp_path / "results.xml") == {}
