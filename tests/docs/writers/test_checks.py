"""docs/checks.md describes every check."""

import re

from history.anomalies import SEVERITY
from judge.checks import invariants
from tests.docs.writers.checks import pages


def test_every_check_is_described():
    """Each invariant and each anomaly has an entry; anomalies of unread acknowledged records share one."""
    headings = set(re.findall(r"^### (\w+)", pages()["checks.md"], re.MULTILINE))
    shared = {"lost_write", "truncated_ack", "unknown_offset_ack", "invisible_ack", "undrained", "unseen"}

    assert set(invariants.INVARIANTS) <= headings
    assert set(SEVERITY) - shared <= headings


def test_every_invariant_names_the_claims_it_serves():
    """Every invariant begins with its claims or at-least-once delivery; the heading names only S2."""
    entries = re.split(r"^### (?=I\d)", pages()["checks.md"].split("## Anomalies")[0], flags=re.MULTILINE)[1:]

    assert [entry.split(":")[0] for entry in entries if not re.search(r"\n\n(C\d+|At-least-once)[,. ]", entry)] == []
    assert [entry.split(":")[0] for entry in entries if entry.partition("\n")[0].endswith("(S2)")] == [
        "I22",
        "I23",
        "I38",
    ]
