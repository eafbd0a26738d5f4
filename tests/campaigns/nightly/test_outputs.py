"""Machine-readable outputs: the summary, JUnit cases, and expired run folders."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from campaigns.nightly import campaign as nightly
from campaigns.nightly.outputs import expired, linked, prune, summary
from campaigns.nightly.settings import check
from history.results.nightly import Alert, NightlyResult
from tests.campaigns.nightly.test_campaign import LATE, SLOW, WAIVER, failing, result, with_reruns
from tests.campaigns.nightly_runs import FIRST, SETTINGS, campaign_of, history
from tests.junit_schema import outcomes_of


def cases(told: NightlyResult) -> dict[str, str]:
    """Return the outcome of every case by name, without the control's case."""
    found = outcomes_of(told)
    del found["control/transactions on 3.9.1"]
    return found


CONTROL = "correctness.transactions/3.9.1"
OLD, NEW = "correctness.steady/3.9.1", "correctness.steady/4.3.0"
P99 = "performance.steady.4.3.0/latency_p99_ms"
P99_OLD = "performance.steady.3.9.1/latency_p99_ms"


def test_a_quiet_nightly_run_passes() -> None:
    """A quiet nightly run has a passed case per scenario and version, per control, and per series."""
    assert cases(result(history(LATE + 1))) == dict.fromkeys((CONTROL, OLD, NEW, P99, P99_OLD), "pass")


def test_no_basis_is_skipped_and_not_passed() -> None:
    """A series without basis is skipped, with the number of nightly runs as reason."""
    told = result(history(2), 1)

    assert (cases(told)[P99], cases(told)[NEW]) == ("skipped", "pass")
    assert "2 of the 9 nightly runs" in next(case.why for case in told.cases() if case.name == "latency_p99_ms")


@pytest.mark.parametrize(
    ("factor", "outcome"), [(1.2, "fail"), (1.0, "pass"), (1.03, "unknown")], ids=["confirmed", "refuted", "open"]
)
def test_only_what_is_confirmed_fails(factor: float, outcome: str) -> None:
    """Only a confirmed slowdown fails; an unsettled candidate is an error."""
    assert cases(result(with_reruns(history(LATE + 1, SLOW), factor)))[P99] == outcome


def test_a_correctness_failure_fails_and_a_waived_one_is_skipped() -> None:
    """A correctness failure fails, a waived one is skipped, and its performance has no value."""
    rows = failing(history(LATE + 1), LATE)
    known = result(rows, waivers=[{**WAIVER, "found": ["lost_write"]}])

    assert (cases(result(rows))[NEW], cases(result(rows))[P99]) == ("fail", "skipped")
    assert (cases(known)[NEW], cases(known)[OLD]) == ("skipped", "pass")


@pytest.mark.parametrize("missing", [True, False])
def test_a_run_that_is_missing_or_unknown_is_an_error(missing: bool) -> None:
    """A missing run, or one without a verdict, is an error."""
    rows = failing(history(LATE + 1), LATE, verdict="unknown")
    if missing:
        rows = [found for found in rows if found["verdict"] == "pass"]

    assert (cases(result(rows))[NEW], cases(result(rows))[OLD]) == ("unknown", "pass")


def test_the_summary_is_short() -> None:
    """The summary has sentence and alerts as text, and counts for programs."""
    told = summary(result(with_reruns(history(LATE + 1, SLOW), 1.2)))

    assert told["text"].splitlines()[0] == told["sentence"]
    assert len(told["text"].splitlines()) == 2
    assert (told["state"], told["runs"], told["control"]) == ("fail", {"pass": 10}, "steady")
    assert told["series"] == {"steady": 2, "confirmed": 1}


# --- retention ---------------------------------------------------------------------------------------


def gone(rows: list[dict[str, Any]], kept: tuple[str, ...] = (), **retention: int) -> set[str]:
    """Return the nightly runs whose folders expire on the fifth one."""
    settings = check({**SETTINGS, "retention": retention})
    found = expired(rows, settings, FIRST + timedelta(days=5), kept)
    started = {row["run_id"]: row["started_at"] for row in rows}
    assert [started[run] for run in found] == sorted(started[run] for run in found)
    return {run[:10] for run in found}


def test_old_run_folders_may_go() -> None:
    """Run folders expire by age or by number."""
    assert gone(history(5), days=3) == {"nightly-00", "nightly-01"}
    assert gone(history(5), days=30) == set()
    assert gone(history(5), runs=8) == {"nightly-00", "nightly-01", "nightly-02"}


def test_what_a_failure_leads_to_stays() -> None:
    """Failed runs and the runs of a confirmed slowdown do not expire."""
    failed = failing(history(5), 0)
    told = result(with_reruns(history(LATE + 1, SLOW), 1.2))

    assert not any("4.3.0" in run for run in expired(failed, check(SETTINGS), FIRST + timedelta(days=31)))
    assert len(linked(told)) == 6
    rows = with_reruns(history(LATE + 1, SLOW), 1.2)
    may_go = expired(rows, check(SETTINGS), FIRST + timedelta(days=100), linked(told))
    assert len(may_go) == len(history(LATE + 1))


def test_runs_that_no_nightly_run_made_stay() -> None:
    """Runs that no nightly run recorded do not expire."""
    rows = [{**row, "labels": {}} for row in history(5)]

    assert gone(rows, days=1) == set()


def test_the_nightly_run_that_raised_it_is_what_links_to_it() -> None:
    """The nightly run with an alert, even a suppressed one, links to its runs."""
    told = nightly.result(campaign_of(LATE, alerts=0), with_reruns(history(LATE + 1, SLOW), 1.2))

    assert len(linked(told)) == 6


def test_folders_are_removed_but_not_what_any_nightly_run_leads_to(tmp_path: Path) -> None:
    """Only expired folders of archived runs are removed, unless a nightly run links to them."""
    rows = history(5)
    for run in [*(row["run_id"] for row in rows), "by-hand"]:
        (tmp_path / "runs" / run).mkdir(parents=True)
    kept = rows[0]["run_id"]
    (tmp_path / "nightly_runs" / "nightly-00").mkdir(parents=True)
    alert = Alert(kind="performance", status="new", text="", runs=[kept])
    raised = result(rows[:4], 0).model_copy(update={"alerts": [alert]})
    raised.write(tmp_path / "nightly_runs" / "nightly-00" / "result.json")
    settings = check({**SETTINGS, "retention": {"days": 3}})

    removed = prune(tmp_path / "runs", tmp_path / "nightly_runs", rows, settings, FIRST + timedelta(days=5))

    left = {path.name for path in (tmp_path / "runs").iterdir()}
    assert {run[:10] for run in removed} == {"nightly-00", "nightly-01"}
    assert left.isdisjoint(removed)
    assert {kept, "by-hand"} <= left
    assert prune(tmp_path / "runs", tmp_path / "nightly_runs", rows, settings, FIRST + timedelta(days=5)) == []


def test_a_run_id_of_the_archive_leads_nowhere_else(tmp_path: Path) -> None:
    """Run ids of the archive that lead outside of the runs folder, also by a link, are ignored."""
    for place in ("runs/ours", "other/run", "elsewhere"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere")
    ids = ["..", ".", "../other/run", str(tmp_path / "elsewhere"), "link", "ours"]
    rows = [{**row, "run_id": run} for row, run in zip(history(len(ids)), ids, strict=False)]
    settings = check({**SETTINGS, "retention": {"days": 1}})

    removed = prune(tmp_path / "runs", tmp_path / "nightly_runs", rows, settings, FIRST + timedelta(days=99))

    assert removed == ["ours"]
    assert all((tmp_path / place).is_dir() for place in ("runs", "other/run", "elsewhere"))
