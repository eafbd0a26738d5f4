"""Results as JUnit XML and as Markdown."""

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

from history.results.cases import MAX_ROWS, Case, Report, junit, markdown
from tests.junit_schema import outcomes

AT = datetime(2026, 11, 23, 20, 0, tzinfo=UTC)
CASES = [
    Case("correctness.steady", "4.3.0", "fail", "5 records are gone.", ["run-1", "run-2"]),
    Case("correctness.steady", "3.9.1", "pass", "Every guarantee held."),
    Case("performance.steady", "latency_p99_ms", "unknown", "It was not rerun."),
    Case("performance.steady", "elect_s", "skipped", "2 of 9 nightly runs."),
]
REPORT = Report("plimsoll nightly n1", "fail", "1 correctness failure.", AT, CASES, {"page": "site/x.html"}, 12.3456)


def test_junit_has_a_case_for_everything_and_one_for_the_whole() -> None:
    """JUnit has a case for each result and one for the whole; unknown is an error and skipped is skipped."""
    assert outcomes(junit(REPORT)) == {
        "plimsoll/plimsoll nightly n1": "fail",
        "correctness.steady/4.3.0": "fail",
        "correctness.steady/3.9.1": "pass",
        "performance.steady/latency_p99_ms": "unknown",
        "performance.steady/elect_s": "skipped",
    }
    root = ET.fromstring(junit(REPORT))
    assert [suite.get("name") for suite in root] == ["plimsoll", "correctness", "performance"]
    assert [suite.get("time") for suite in root] == ["12.346", "0.000", "0.000"]
    assert root[1][0][0].text == "run-1\nrun-2"


def test_a_report_without_cases_says_what_it_came_to() -> None:
    """A report without cases has its result, and so does that of a rejected command."""
    refused = Report("plimsoll run", "unknown", "There is no scenario 'stedy'.", AT)

    assert outcomes(junit(refused)) == {"plimsoll/plimsoll run": "unknown"}
    assert markdown(refused) == "### plimsoll run: unknown\n\nThere is no scenario 'stedy'.\n\n"


@pytest.mark.parametrize(
    "broken",
    [
        '<testsuites name="x" tests="1" failures="0" errors="0" time="0.000"/>',
        '<testsuites name="x" tests="0" failures="0" errors="0" time="soon"/>',
        '<testsuites name="x" tests="0" failures="0" errors="0" time="0.000"><testcase/></testsuites>',
        '<testsuite name="x"/>',
    ],
    ids=["counts", "time", "children", "root"],
)
def test_the_schema_refuses_what_is_no_junit(broken: str) -> None:
    """The tests' schema rejects invalid JUnit (control of the other tests)."""
    with pytest.raises(AssertionError):
        outcomes(broken)


def test_xml_holds_whatever_a_sentence_holds() -> None:
    """XML escapes angle brackets and omits control characters, which XML cannot contain."""
    told = junit(Report("x", "fail", "a <b> & \x1b[31mred", AT))

    assert outcomes(told) == {"plimsoll/x": "fail"}
    assert "a &lt;b&gt; &amp; [31mred" in told


def test_markdown_shows_what_somebody_has_to_look_at() -> None:
    """Markdown shows failures first, then unknown results; the others are counted."""
    assert markdown(REPORT).splitlines() == [
        "### plimsoll nightly n1: fail",
        "",
        "1 correctness failure.",
        "",
        "- page: `site/x.html`",
        "- cases: 1 pass, 1 fail, 1 unknown, 1 skipped",
        "",
        "| result | case | why |",
        "|---|---|---|",
        "| fail | correctness.steady 4.3.0 | 5 records are gone. |",
        r"| unknown | performance.steady latency\_p99\_ms | It was not rerun. |",
    ]


def test_markdown_is_not_broken_by_what_a_sentence_holds() -> None:
    """A Markdown cell keeps to one line without bars or tags; a long table names the number of omitted rows."""
    odd = markdown(Report("x", "fail", "", AT, [Case("g", "n", "fail", "a | b\n<script> `c`")]))
    long = markdown(Report("x", "fail", "", AT, [Case("g", str(n), "fail", "w") for n in range(MAX_ROWS + 3)]))

    assert odd.splitlines()[-1] == r"| fail | g n | a \| b \<script\> \`c\` |"
    assert long.endswith("\nAnd 3 more.\n")
    assert long.count("| fail |") == MAX_ROWS
