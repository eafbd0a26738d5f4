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
        "walkthroughs": [{"title": "Fetches", "words": "One by one.", "columns": ["ms", "HW"], "rows": [[5, None]]}],
        "answers": {
            name: {
                "verdict": verdicts.get(name, "shown"),
                "sentence": f"{kafka} on {name}.",
                "evidence": [{"source": "replicas/", "at_s": 1.5, "text": f"row {n}"} for n in range(5)],
            }
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
    """The page has a row for each claim and a column for each version, with evidence of differences.

    Claims that were not observable have their reason.
    """
    versions = {
        kafka: condensed(result(kafka, **told))
        for kafka, told in (("3.6.2", {}), ("3.7.2", {"C48": "refuted", "C9": "not observable"}))
    }
    text = page(versions)

    assert "| | claim | notes | 3.6.2 | 3.7.2 |" in text
    assert "| C48 | Alone in the ISR a leader has HW = LEO at once. | N4 | shown | **refuted** |" in text
    differ = text.partition("## Where versions differ")[2].partition("## What was not observable")[0]
    assert "refuted, as on 3.7.2: 3.7.2 on C48." in differ
    assert "`replicas/` at 1.500 s: row 2" in differ
    assert "**C14**" not in differ
    assert "**C9**" not in differ
    assert "- **C9** on 3.7.2: 3.7.2 on C9." in text
    assert "### Fetches\n\nKafka 3.7.2. One by one.\n\n| ms | HW |\n|---|---|\n| 5 | – |\n" in text
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

    assert "| | claim | notes | 3.6.1, 3.6.2 (kraft) | 3.6.2 (zookeeper) | 3.7.2 (kraft) |" in text
    assert "| C48 | Alone in the ISR a leader has HW = LEO at once. | N4 | shown | shown | **refuted** |" in text
