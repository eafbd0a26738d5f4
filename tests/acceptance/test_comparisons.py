"""Comparisons whose truth is known are counted, others are not."""

import json

import pytest

from campaigns.compare.campaign import result
from tests.acceptance import comparisons
from tests.campaigns.comparison import NOISE, campaign, rows

SIDE = {"kafka": "3.9.1", "name": "Kafka 3.9.1", "changes": {}}
METRIC = "latency_p99_ms@steady"
SLOWDOWN = {"metric": METRIC, "size": 0.10, "changes": {}, "words": "a tenth of the CPU", "shows_in": METRIC}
ITSELF = campaign(base=SIDE, head=SIDE)
INJECTED = campaign(base=SIDE, head=SIDE, injected_slowdown=SLOWDOWN)


def test_a_version_against_itself_counts():
    """A version against itself counts with its primary verdicts and those of its calibration."""
    row = comparisons.row_of(result(ITSELF, rows(ITSELF, noise=[0.5 * n for n in NOISE])))

    assert row is not None
    assert (row["verdicts"], row["injected"], row["pairs"]) == (["equivalent"], None, 10)
    assert row["calibration"] == ["equivalent"]


@pytest.mark.parametrize(("change", "found"), [(0.10, True), (0.03, False)])
def test_an_injected_slowdown_counts(change, found):
    """An injected slowdown counts with whether its metric was called a regression."""
    row = comparisons.row_of(result(INJECTED, rows(INJECTED, change)))

    assert row is not None
    shown = {"metric": SLOWDOWN["metric"], "size": 0.10, "words": SLOWDOWN["words"], "found": found}
    assert {name: row["injected"][name] for name in shown} == shown
    assert [effect["n"] for effect in row["injected"]["took_effect"]] == [10]


def test_what_is_not_known_or_not_finished_does_not_count():
    """Two versions, an unknown slowdown, missing runs or a changed scenario do not count."""
    two, sizeless = campaign(), campaign(base=SIDE, head=SIDE, injected_slowdown={**SLOWDOWN, "size": None})

    assert comparisons.row_of(result(two, rows(two))) is None
    assert comparisons.row_of(result(sizeless, rows(sizeless))) is None
    assert comparisons.row_of(result(ITSELF, rows(ITSELF)[:-1])) is None
    changed = [{**row, "scenario_digest": "another"} if n == 0 else row for n, row in enumerate(rows(ITSELF))]
    assert comparisons.row_of(result(ITSELF, changed)) is None


def test_rows_stay_when_their_site_is_gone(tmp_path, monkeypatch):
    """Rows remain after their site is removed, and the same comparison is not counted twice."""
    monkeypatch.setattr(comparisons, "RESULTS", tmp_path / "comparisons.json")
    told = tmp_path / "site" / "compare" / "c1" / "result.json"
    told.parent.mkdir(parents=True)
    result(ITSELF, rows(ITSELF)).write(told)

    for site in ("site", "site", "elsewhere"):
        assert comparisons.main([str(tmp_path / site)]) == 0

    assert [row["campaign_id"] for row in json.loads(comparisons.RESULTS.read_text())] == ["c1"]
