"""JUnit XML as CI systems read it: elements with their attributes and children, and counts equal to the cases'.

Based on the schema of Jenkins' xUnit plugin (junit-10.xsd), and stricter: a case has one outcome with its reason.
"""

import re
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from history.results.base import Summary
from history.results.cases import junit

COUNT, SECONDS, TEXT = r"\d+", r"\d+\.\d{3}", r"(?s).+"
TIMESTAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
WHY = {"type": "fail|unknown|skipped", "message": TEXT}
COUNTS = {"tests": COUNT, "failures": COUNT, "errors": COUNT}
ATTRIBUTES = {
    "testsuites": {"name": TEXT, **COUNTS, "time": SECONDS},
    "testsuite": {"name": TEXT, **COUNTS, "skipped": COUNT, "time": SECONDS, "timestamp": TIMESTAMP},
    "testcase": {"name": TEXT, "classname": TEXT, "time": SECONDS},
    "failure": WHY,
    "error": WHY,
    "skipped": WHY,
}
CHILDREN = {"testsuites": {"testsuite"}, "testsuite": {"testcase"}, "testcase": {"failure", "error", "skipped"}}
OUTCOMES = {"failure": "fail", "error": "unknown", "skipped": "skipped"}


def outcomes(xml: str) -> dict[str, str]:
    """Return the outcome of each case by its full name, from XML that is valid by the schema."""
    root = ET.fromstring(xml)
    assert root.tag == "testsuites"
    _check(root)
    for counted in (root, *root):
        _check_counts(counted)
    return {f"{case.get('classname')}/{case.get('name')}": _outcome(case) for case in root.iter("testcase")}


def outcomes_of(result: Summary) -> dict[str, str]:
    """Return a campaign's outcomes without the whole; a passed campaign has no failed or unknown case."""
    found = outcomes(junit(result.report("plimsoll", datetime(2026, 11, 23, tzinfo=UTC))))
    assert found.pop(f"plimsoll/plimsoll {result.campaign_id}") == (result.state or "pass")
    allowed = {"fail": {"fail", "unknown"}, "unknown": {"unknown"}}.get(result.state, set())
    assert set(found.values()) <= {"pass", "skipped", *allowed}
    return found


def _check(element: ET.Element) -> None:
    wanted = ATTRIBUTES[element.tag]
    assert set(element.keys()) == wanted.keys(), element.attrib
    for name, pattern in wanted.items():
        assert re.fullmatch(pattern, element.attrib[name]), (element.tag, name, element.attrib[name])
    assert len(element) <= 1 or element.tag != "testcase"
    for child in element:
        assert child.tag in CHILDREN.get(element.tag, ()), (element.tag, child.tag)
        _check(child)


def _check_counts(element: ET.Element) -> None:
    found = [_outcome(case) for case in element.iter("testcase")]
    counts = {"tests": len(found), "failures": found.count("fail"), "errors": found.count("unknown")}
    if element.tag == "testsuite":
        counts["skipped"] = found.count("skipped")
    assert {name: int(element.attrib[name]) for name in counts} == counts


def _outcome(case: ET.Element) -> str:
    return OUTCOMES[case[0].tag] if len(case) else "pass"
