"""The judge's findings as literal rows."""

import pyarrow as pa
import pytest

from expectations.suites import validate
from expectations.tallies import Tallies
from history.anomalies import SEVERITY
from history.tables import JUDGED
from tests.evidence.folders import manifest

COMPLETE = [("seal intact", None), ("final drain complete", None)]


def counted(*rows):
    """Return rows of ``anomaly_counts``: (anomaly, why it is permitted, cases)."""
    return pa.Table.from_pylist(
        [
            {
                "anomaly": name,
                "severity": SEVERITY[name],
                "allowed": why is not None,
                "allowed_why": why,
                "cases": found,
            }
            for name, why, found in rows
        ],
        JUDGED["anomaly_counts"],
    )


def undecided(anomaly, why, found):
    """Return a row of ``anomaly_counts`` whose cases lack this evidence."""
    row = {"anomaly": anomaly, "severity": SEVERITY[anomaly], "allowed": None, "undecided": why, "cases": found}
    return pa.Table.from_pylist([row], JUDGED["anomaly_counts"])


def example(anomaly, offset, **other):
    """Return a row of ``anomalies``."""
    row = {"anomaly": anomaly, "severity": SEVERITY[anomaly], "topic": "orders", "partition": 0, "offset": offset}
    return row | {"allowed": False, "explanation": f"offset {offset} is gone", "evidence": "{}"} | other


def examples(*rows):
    """Return a table of such rows."""
    return pa.Table.from_pylist(list(rows), JUDGED["anomalies"])


def checked(*rows):
    """Return rows of ``invariants``: (invariant, severity, violations)."""
    return pa.Table.from_pylist(
        [
            {"invariant": name, "title": "a statement", "severity": severity, "checked": 10, "violations": violations}
            | {"verdict": "fail" if violations else "pass", "reason": "a reason", "evidence": "{}"}
            | {"known_bug": ""}
            for name, severity, violations in rows
        ],
        JUDGED["invariants"],
    )


@pytest.fixture
def judged(tmp_path):
    """Validate the summaries of a run that is complete and clean except for the given ones."""

    def judge(evidence=COMPLETE, **other):
        given = {
            "anomalies": examples(),
            "anomaly_counts": counted(),
            "invariants": checked(("I1", "S1", 0)),
            "tallies": Tallies(),
            "manifest": manifest(),
            "permitted": {},
            "reads": dict.fromkeys(SEVERITY, ()),
            "data_docs": tmp_path,
        }
        return validate(evidence, **(given | other))

    return judge
