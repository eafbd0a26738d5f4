"""Comparisons whose truth is known are counted, others are not."""

import json

import pytest

from bench import comparisons
from campaigns.compare.campaign import result
from tests.campaigns.comparison import NOISE, campaign, rows

SIDE = {"kafka": "3.9.1", "name": "Kafka 3.9.1", "changes": {}}
METRIC = "latency_p99_ms@steady"
SLOWDOWN = {"metric": METRIC, "size": 0.10, "changes": {}, "words": "a tenth of the CPU", "shows_in": METRIC}
ITSELF = campaign(base=SIDE, head=SIDE)
INJECTED = campaign(base=SIDE, head=SIDE, injected_slowdown=SLOWDOWN)


def test_a_version_against_itself_counts():
    """Its primary verdicts, and those of its calibration."""
    row = comparisons.row_of(result(ITSELF, rows(ITSELF, noise=[0.5 * n for n in NOISE])))

    assert row is not None
    assert (row["verdicts"], row["injected"], row["pairs"]) == (["equivalent"], None, 10)
    assert row["calibration"] == ["equivalent"]


@pytest.mark.parametrize(("change", "found"), [(0.10, True), (0.03, False)])
def test_an_injected_slowdown_counts(change, found):
    """Whether the injected metric was called a regression."""
    row = comparisons.row_of(result(INJECTED, rows(INJECTED, change)))

    assert row is not None
    shown = {"metric": SLOWDOWN["metric"], "size": 0.10, "words": SLOWDOWN["words"], "found": found}
    assert {name: row["injected"][name] for name in shown} == shown
    assert [effect["n"] for effect in row["injected"]["took_effect"]] == [10]


def test_what_is_not_known_or_not_finished_does_not_count():
    """Two versions; a injected slowdown of no known size; a comparison that lacks runs; one whose scenario changed."""
    two, sizeless = campaign(), campaign(base=SIDE, head=SIDE, injected_slowdown={**SLOWDOWN, "size": None})

    assert comparisons.row_of(result(two, rows(two))) is None
    assert comparisons.row_of(result(sizeless, rows(sizeless))) is None
    assert comparisons.row_of(result(ITSELF, rows(ITSELF)[:-1])) is None
    changed = [{**row, "scenario_digest": "another"} if n == 0 else row for n, row in enumerate(rows(ITSELF))]
    assert comparisons.row_of(result(ITSELF, changed)) is None


def test_the_page_counts_with_bounds():
    """No regression in one allows 95 %; one of two found; nothing counted yet is no claim."""
    itself = comparisons.row_of(result(ITSELF, rows(ITSELF)))
    injected = [comparisons.row_of(result(INJECTED, rows(INJECTED, change))) for change in (0.10, 0.03)]
    page = comparisons.render([itself, *injected])

    assert "Called a regression: **0 of 1, at most 95% at 95 % confidence**." in page
    assert "before anything else: 0 of 3, at most 63% at 95 % confidence." in page
    assert "something was called worse: 0 of 4, at most 53% at 95 % confidence." in page
    assert "| 10% | 10 | 1 of 2 | 1% to 99% |" in page
    assert (
        "| c1 | 3.9.1 | steady | latency_p99_ms@steady | 10 of 10 | +10.0 % (+8.4 to +11.6 %) | regression | a tenth of"
        in page
    )
    assert "Called a regression: **none has run yet**." in comparisons.render([])


def test_rows_stay_when_their_site_is_gone(tmp_path, monkeypatch):
    """What was counted is kept; the same comparison is not counted twice."""
    monkeypatch.setattr(comparisons, "RESULTS", tmp_path / "comparisons.json")
    monkeypatch.setattr(comparisons, "PAGE", tmp_path / "comparisons.md")
    told = tmp_path / "site" / "compare" / "c1" / "result.json"
    told.parent.mkdir(parents=True)
    result(ITSELF, rows(ITSELF)).write(told)

    for site in ("site", "site", "elsewhere"):
        comparisons.main(tmp_path / site)

    assert [row["campaign_id"] for row in json.loads(comparisons.RESULTS.read_text())] == ["c1"]
    assert "**0 of 1," in comparisons.PAGE.read_text()
