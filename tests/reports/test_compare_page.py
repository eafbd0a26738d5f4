"""The page of a comparison: the answer first, figures that agree with their tables, and the limits."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from campaigns.compare.campaign import result
from history.results.compare import Effect, PhaseLatency
from reports.compare_page import PERCENTILES, render
from reports.compare_plots import LOOKS, forest, latency, pairs_figure
from reports.page import write
from tests.campaigns.comparison import campaign, rows
from tests.reports.in_browser import WIDTHS, Opened, open_page
from tests.reports.sample_comparison import a_result

RESULT = a_result()
LINKS = {run.run_id: f"../../../runs/{run.run_id}/report/index.html" for run in RESULT.runs.each}
SECTIONS = ["summary", "effects", "pairs", "phases", "correctness", "behaviour", "noise", "why", "limits", "runs"]


def effect(**values: Any) -> Effect:
    """Return an effect of the sample with other values and a margin of 5 %."""
    return RESULT.effects[0].model_copy(update={"margin": 0.05, "verdict": "inconclusive", **values})


# --- the page as text ------------------------------------------------------------------------------


def test_the_first_heading_is_the_first_sentence():
    """The first heading is the result's sentence; the body element has the state for programs."""
    html = render(RESULT, LINKS)
    heading = re.search(r"<h1[^>]*>(.*?)</h1>", html)

    assert heading
    assert re.sub("<.*?>", "", heading[1]) == RESULT.sentence
    assert '<body data-verdict="fail">' in html
    assert "<strong>regression</strong>" in html


def test_every_section_is_there_in_order():
    """Every section is present in order, also before any run; then each names what is missing."""
    empty = render(result(campaign(), []), {})

    assert re.findall(r'<h2 id="([\w-]+)">', render(RESULT, LINKS)) == SECTIONS
    assert re.findall(r'<h2 id="([\w-]+)">', empty) == SECTIONS
    assert empty.count('class="absent"') >= 5


def test_runs_are_linked_where_their_pages_are():
    """Each value of a pair links to its run; a run without a page is named without a link."""
    html, bare = render(RESULT, LINKS), render(RESULT, {})
    run = RESULT.effects[0].pairs[0].runs[0]

    assert html.count(f'href="../../../runs/{run}/report/index.html"') >= 2
    assert "report/index.html" not in bare
    assert run in bare


def test_a_page_before_anything_was_compared():
    """Before any comparison, the sections say so."""
    assert "Nothing was compared yet." in render(result(campaign(), []), {})
    assert "Nothing was compared yet." not in render(RESULT, LINKS)


def test_a_page_of_base_with_itself_alone():
    """A page of base against itself alone has no verdict, and proposes the number of pairs for this host's noise."""
    plan = campaign(pairs=0, aa_pairs=5)
    html = render(result(plan, rows(plan)), {})

    assert "How many pairs does a comparison need here? 5 pairs of Kafka 3.9.0 with itself." in html
    assert "is proposed" in html
    assert "pairs that detect twice the margin" in html
    assert 'id="effects"' not in html
    assert 'id="effects"' in render(RESULT, LINKS)
    assert "effects-primary" not in html
    assert "effects-primary" in render(RESULT, LINKS)


def test_versions_host_and_view_are_told():
    """The page shows the versions, the host and the flags that were compared."""
    html = render(RESULT, LINKS)

    for fact in (
        "3.9.0, KRaft, jars jars-3.9.0",
        "same settings",
        "10, after 5 of base with itself",
        "30 of 30",
        "production",
    ):
        assert f"<dd>{fact}</dd>" in html
    assert "a difference comes from what is compared alone" in html
    assert "a difference is what an upgrade brings" in render(a_result(view="default_settings"), LINKS)
    unfinalised = render(a_result(view="unfinalised"), LINKS)
    assert "before the upgrade is finalised" in unfinalised
    assert "before an upgrade is finalised was not tested" in html
    assert "before an upgrade is finalised was not tested" not in unfinalised


def test_what_was_left_out_is_told_with_its_reason():
    """Each run that was left out is listed once with its reason."""
    html = render(RESULT, LINKS)
    table = html[html.index('id="table-left-out"') :].partition("</table>")[0]

    assert table.count("<tr>") == 3
    assert "the share of CPU time taken by other machines was 9%, above 5%" in table
    assert "its verdict is unknown: Inconclusive: the drain ended early." in table


def test_a_load_that_head_missed_has_its_row():
    """A load that head missed has a row by phase with runs of both sides; without any there is no table."""
    plan = campaign()
    short = {item.name: {"value": 0.9} for item in plan.items if item.labels["role"] == "head"}
    html = render(result(plan, rows(plan, place=("achieved_ratio", "steady"), base=1.0, noise=[0.0], about=short)), {})
    table = html[html.index('id="table-missed') :].partition("</table>")[0]

    assert "10 of 10" in table
    assert "0 of 16" in table
    assert 'id="table-missed' not in render(RESULT, LINKS)


def test_zookeeper_against_kraft_is_called_what_it_is():
    """A comparison of ZooKeeper with KRaft is named as such, in names and in a sentence."""
    plan = campaign()
    about = {item.name: {"mode": "zookeeper"} for item in plan.items if item.labels["role"] != "head"}
    html = render(result(plan, rows(plan, about=about)), {})

    assert "Kafka 3.9.1 (KRaft) is equivalent to Kafka 3.9.0 (ZooKeeper)" in re.sub("<.*?>", "", html)
    assert "this compares two ways to run a cluster" in html
    assert "two ways to run a cluster" not in render(RESULT, LINKS)


def test_text_of_a_run_cannot_become_markup():
    """A run's text that looks like a script is shown as text."""
    plan = campaign()
    about = {plan.items[0].name: {"verdict": "unknown", "sentence": "<script>alert(1)</script>"}}

    assert "<script>alert(1)" not in render(result(plan, rows(plan, about=about)), {})


def test_every_verdict_has_a_mark_of_its_own():
    """Every verdict has its symbol in addition to its colour."""
    assert len({symbol for _, symbol in LOOKS.values()}) == len({colour for colour, _ in LOOKS.values()}) == 4


def test_an_interval_that_says_nothing_does_not_flatten_the_others():
    """The axis keeps the scale of eight known effects although a ninth has an interval up to a factor of a hundred."""
    known = effect(mean=1.0, low=-2.0, high=4.0, verdict="equivalent")
    wild = effect(mean=5.0, low=-99.0, high=9_900.0)

    low, high = forest([known] * 8 + [wild], ["x"] * 9)["layout"]["xaxis"]["range"]
    assert (low, high) == pytest.approx((-13.8, 13.8))


def test_a_long_label_is_whole():
    """A long label breaks into a second line with a higher row; a short label does not change."""
    label = "time from the heal until the ISR was full again, follower pauses"
    long, short = (forest([effect()] * 2, [name, "p99 latency, steady"])["layout"] for name in (label, "p99"))

    assert [name["text"] for name in long["annotations"]] == [
        "time from the heal until the ISR was full again,<br>follower pauses",
        "p99 latency, steady",
    ]
    assert long["height"] > short["height"]


def test_an_interval_that_says_nothing_does_not_flatten_the_pairs():
    """Pairs of +3 and +5 % stay distinguishable although their interval is from a fortieth to fortyfold."""
    own = RESULT.effects[0].pairs[0]
    pairs = [own.model_copy(update={"pair": str(n), "ran_first": n - 1, "change": 1.0 + 2 * n}) for n in (1, 2)]
    low, high = pairs_figure(effect(pairs=pairs, low=-97.5, high=3_900.0, mean=4.0), "x")["layout"]["yaxis"]["range"]

    assert (low, high) == pytest.approx((-15.3, 15.5), abs=0.1)


def test_a_mark_is_drawn_for_each_pair_that_has_a_ratio():
    """Each pair with a ratio has a mark by the side that ran first; pairs with a censored time have none."""
    elections = next(effect for effect in RESULT.effects if effect.metric == "elect_s")
    data = pairs_figure(elections, "elections")["data"]

    assert [(trace["name"], trace["x"]) for trace in data] == [
        ("base ran first", [3, 5, 9]),
        ("head ran first", [6, 8, 10]),
    ]


def test_a_phase_without_a_valid_latency_is_a_gap():
    """A phase without a valid latency is a gap in its line."""
    rows_of_phases = [
        PhaseLatency(scenario="s", metric="latency_p99_ms", phase=phase, base=base, head=[9.0])
        for phase, base in (("one", [4.0, 8.0]), ("two", []), ("three", [5.0]))
    ]
    base, head = latency(rows_of_phases, PERCENTILES)["data"]

    assert (base["y"], base["error_y"]["array"]) == ([6.0, None, 5.0], [2.0, None, 0.0])
    assert base["connectgaps"] is False
    assert head["y"] == [9.0, 9.0, 9.0]


def test_latencies_that_are_close_have_an_even_scale():
    """Latencies that differ by less than a factor of five have a linear scale; others have a log scale."""
    row = PhaseLatency(scenario="s", metric="latency_p99_ms", phase="one", base=[40.0], head=[190.0])
    scales = [latency([row.model_copy(update={"head": [most]})], PERCENTILES)["layout"]["yaxis"] for most in (190, 210)]

    assert [scale["type"] for scale in scales] == ["linear", "log"]


# --- the page in a browser -------------------------------------------------------------------------


def _open(browser: Browser, site: Path, width: int = 1280) -> Opened:
    page = write(render(RESULT, LINKS), site / "compare" / "c1" / "index.html", site)
    return open_page(browser, page, width)


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_from_disk_for_everybody(browser: Browser, tmp_path: Path, width: int) -> None:
    """The page opens from disk without network, messages, overflow or serious axe-core findings."""
    opened = _open(browser, tmp_path, width)

    assert (opened.strangers, opened.overflow, opened.inaccessible(), opened.complaints) == ([], 0, [], [])


def _percent(cell: str) -> float:
    return float(cell.removesuffix(" %").replace("−", "-").replace(",", ""))


@pytest.mark.browser
def test_figures_hold_what_their_tables_hold(browser: Browser, tmp_path: Path) -> None:
    """Effects, pairs and medians are drawn with the digits of their tables."""
    opened = _open(browser, tmp_path)

    for role in ("primary", "secondary"):
        table = opened.table(f"effects-{role}")
        marks = {
            y: (x, t["name"])
            for t in opened.drawn(f"effects-{role}")
            if t["name"] in LOOKS
            for x, y in zip(t["x"], t["y"], strict=True)
        }
        assert len(marks) == len(table) > 2
        for row, (drawn, verdict) in marks.items():
            assert table[row][1] == verdict
            assert drawn == pytest.approx(_percent(table[row][2]), abs=0.5)
    pairs = {int(row[0]): (row[1], _percent(row[4])) for row in opened.table("pairs-0")}
    drawn_pairs = {x: (t["name"], y) for t in opened.drawn("pairs-0") for x, y in zip(t["x"], t["y"], strict=True)}
    assert drawn_pairs.keys() == pairs.keys() == {1, 2, 3, 5, 6, 8, 9, 10}
    for number, (first, change) in pairs.items():
        assert drawn_pairs[number][0] == f"{first} ran first"
        assert drawn_pairs[number][1] == pytest.approx(change, abs=0.5)
    medians = sorted(float(cell.replace(",", "")) for row in opened.table("latency-0") for cell in (row[2], row[6]))
    drawn_medians = sorted(y for trace in opened.drawn("latency-0") for y in trace["y"])
    assert drawn_medians == pytest.approx(medians, rel=0.01)


@pytest.mark.browser
def test_runs_can_be_searched(browser: Browser, tmp_path: Path) -> None:
    """A search leaves the runs whose row contains every word."""
    opened = _open(browser, tmp_path)

    opened.page.fill("#filter-runs", "comparison head unknown")

    assert opened.page.locator("#table-runs tbody tr:visible").count() == 1
