"""What ``make test`` says at its end."""

from pathlib import Path

import pytest

from tests.conftest import group_of
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


@pytest.mark.parametrize(
    ("test", "group"),
    [
        ("tests/integration/test_faults.py::test_a[docker-pause all]", "tests/integration/test_faults.py docker"),
        ("tests/integration/test_faults.py::test_b[leader-process]", "tests/integration/test_faults.py process"),
        ("tests/integration/test_wire.py::test_c[2.8.2-java]", "tests/integration/test_wire.py 2.8.2"),
        ("tests/spark/test_job.py::test_d[dockerless-1.5]", "tests/spark/test_job.py"),
        ("tests/spark/test_job.py::test_e", "tests/spark/test_job.py"),
    ],
)
def test_tests_of_one_cluster_are_one_group(test: str, group: str) -> None:
    """A file's tests stay together, apart from those with another runtime or version."""
    assert group_of(test) == group
