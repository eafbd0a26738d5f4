"""The page on the claims."""

from typing import Any

from claims.table import CLAIMS
from tests.docs.writers.claims import condensed, page, taken_in


def result(kafka: str, **verdicts: str) -> dict[str, Any]:
    """Return a result whose claims are shown, except for the given verdicts."""
    return {
        "kafka": kafka,
        "modes": ["kraft"],
        "created_at": "2026-11-21T08:00:00+00:00",
        "answers": {
            name: {"verdict": verdicts.get(name, "shown"), "sentence": f"{kafka} on {name}.", "evidence": []}
            for name in CLAIMS
        },
    }


def test_a_newer_result_takes_the_place_of_its_version_and_mode() -> None:
    """A newer result replaces the one of its version and mode; versions are sorted by their numbers."""
    old = taken_in({}, [result("3.10.0-SNAPSHOT"), result("3.9.1", C1="refuted")])
    new = taken_in(old, [result("3.9.1"), {**result("3.9.1"), "modes": ["zookeeper"]}])

    assert list(new) == ["3.9.1 (kraft)", "3.9.1 (zookeeper)", "3.10.0-SNAPSHOT (kraft)"]
    assert new["3.9.1 (kraft)"]["answers"]["C1"]["verdict"] == "shown"


def test_the_page_has_a_row_for_each_claim_and_a_column_for_each_version() -> None:
    """The page has a row for each claim, with a column for each version; what was not observable has its reason."""
    versions = {
        kafka: condensed(result(kafka, **told))
        for kafka, told in (("3.6.2", {}), ("3.7.2", {"C48": "refuted", "C9": "not observable"}))
    }
    text = page(versions)

    known, changes = CLAIMS["C48"].known, CLAIMS["C48"].changes
    assert "| | claim | notes | known | 3.6.2 | 3.7.2 | the answer changes |" in text
    assert f"HW = LEO at once. | N4 | {known} | shown | **refuted** | {changes} |" in text
    assert "- **C9** on 3.7.2: 3.7.2 on C9." in text
    assert "3.6.2: 48, 0, 0; 3.7.2: 46, 1, 1. Recorded on 2026-11-21." in text


def test_neighbours_that_answer_alike_share_a_column() -> None:
    """Adjacent versions of one mode with equal answers share a column."""
    told = [
        result("3.6.1"),
        result("3.6.2"),
        {**result("3.6.2"), "modes": ["zookeeper"]},
        result("3.7.2", C48="refuted"),
    ]
    text = page(taken_in({}, told))

    assert "| | claim | notes | known | 3.6.1, 3.6.2 (kraft) | 3.6.2 (zookeeper) | 3.7.2 (kraft) | the answer" in text
    assert f" | {CLAIMS['C48'].known} | shown | shown | **refuted** | " in text
