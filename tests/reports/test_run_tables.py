"""Cells of a run's tables, with names for what is unknown."""

from pathlib import Path

import pytest

from history.events import Event
from reports.cells import DASH, milliseconds, percent
from reports.run_data import RunData, read_run
from reports.run_tables import (
    anomalies,
    cases,
    invariants,
    loss_sentences,
    offsets,
    ordered_cases,
    recovery,
    server_table,
)
from tests.reports.sample_run import write_sample_run


@pytest.fixture
def clean(tmp_path: Path) -> RunData:
    """The run without loss."""
    return read_run(write_sample_run(tmp_path / "run-1"))


@pytest.fixture
def lossy(tmp_path: Path) -> RunData:
    """The run that lost 900 records with acks=1."""
    return read_run(write_sample_run(tmp_path / "run-2", acks1=True))


def test_a_censored_time_is_a_lower_bound() -> None:
    """A censored time is shown as a lower bound."""
    assert milliseconds(4000.0, censored=True) == "≥ 4,000 ms"
    assert milliseconds(4000.0) == "4,000 ms"


def test_a_time_that_was_never_seen_is_no_number() -> None:
    """A time that was not measured is a dash."""
    assert milliseconds(None) == "–"


def test_a_small_rate_is_not_rounded_to_zero() -> None:
    """A small rate is not rounded to zero; zero is shown as zero."""
    assert percent(0.0001) == "0.01 %"
    assert percent(1e-9) == "below 0.0001 %"
    assert percent(0.0) == "0 %"


def test_disagreement_is_said_in_words_and_in_the_cell(lossy: RunData, clean: RunData) -> None:
    """A disagreement of replicas is shown in a sentence and by a mark in its cells."""
    marked = [cell.text for row in offsets(lossy).rows for cell in row if cell.mark == "differs"]

    assert marked == ["≠ 39,026", "≠ 39,026", "≠ 39,043"]
    assert offsets(lossy).notes == ["orders-0: the replicas disagree on log end offset at the end."]
    assert offsets(clean).notes == ["At the end the replicas of every partition agree."]


def test_loss_is_an_interval_whose_unknown_part_is_named(lossy: RunData) -> None:
    """Loss is an interval; its upper end counts the records that the drain did not reach."""
    said = loss_sentences(lossy)[0]

    assert "[2.25 %, 2.30 %] of 39,926 acknowledged" in said
    assert "900 are lost for certain; the upper end also counts the unseen ones: 17 not reached by the drain." in said


def test_finding_no_loss_comes_with_what_it_means(clean: RunData) -> None:
    """A run without loss shows what it implies: one run leaves a true rate of up to 95 % possible."""
    said = " ".join(loss_sentences(clean))

    assert "None is lost for certain; none is unseen." in said
    assert said.startswith("Loss rate under the injected faults: ")
    assert "0 of 1 runs leaves a true rate of up to 95 % of runs possible" in said


def test_a_run_without_faults_names_none(clean: RunData) -> None:
    """The loss rate of a run without faults is labelled as such."""
    clean.events[:] = [event for event in clean.events if event.kind not in ("inject", "injected")]

    assert loss_sentences(clean)[0].startswith("Loss rate without a fault: ")


def test_unseen_records_are_not_called_a_clean_run(clean: RunData) -> None:
    """A run with an unseen record has no sentence about runs without loss."""
    clean.tables["delivery"][0].update(unseen=1, undrained=1)

    assert "0 of 1 runs" not in " ".join(loss_sentences(clean))


def test_nothing_acknowledged_shows_nothing_about_loss(clean: RunData) -> None:
    """A run without acknowledged records has no loss rate."""
    clean.tables["delivery"][0].update(acked=0, loss_rate_low=None, loss_rate_high=None)

    assert loss_sentences(clean) == [
        "Nothing was acknowledged, so nothing could be lost: this run shows nothing about loss."
    ]


def test_cases_are_counted_by_kind_and_permission(lossy: RunData) -> None:
    """Cases are counted by kind and permission, first those that nothing permits."""
    shown = [tuple(cell.text for cell in row[:4]) for row in anomalies(lossy).rows]

    assert shown == [("inconsistent offset", "S1", "1", "no"), ("lost write", "S1", "900", "yes")]


def test_an_undecided_case_is_neither_permitted_nor_forbidden(lossy: RunData) -> None:
    """An undecided case comes between forbidden and permitted ones, with the missing evidence."""
    open_case = {"anomaly": "duplicate", "severity": "S1", "allowed": None, "allowed_why": None, "cases": 7}
    lossy.tables["anomaly_counts"] += [open_case | {"undecided": "the history of orders-0 is missing"}]
    shown = [tuple(cell.text for cell in row) for row in anomalies(lossy).rows]

    assert shown[1] == ("duplicate", "S1", "7", "unknown", "the history of orders-0 is missing")
    assert [row[3] for row in shown] == ["no", "unknown", "yes"]


def test_the_first_200_cases_are_shown(lossy: RunData) -> None:
    """The first 200 cases are shown with their total, including the case that nothing permits."""
    shown = cases(lossy)

    assert len(shown.rows) == 200
    assert shown.caption == "The first 200 of 901 cases."
    assert shown.rows[0][0].text == "inconsistent offset"
    assert shown.rows[1][4].text.startswith("producer-1 #21100 was acknowledged at offset 21100 by broker 1 in epoch 4")


def test_what_is_lost_stands_before_what_follows_from_it(lossy: RunData) -> None:
    """Among cases with equal permission, lost records come first, then duplicates, then other consequences."""
    of = {"severity": "S1", "topic": "orders", "partition": 0, "offset": 1, "allowed": True}
    lossy.tables["anomalies"] = [{"anomaly": name, **of} for name in ("inconsistent_offset", "duplicate", "lost_write")]

    assert [row["anomaly"] for row in ordered_cases(lossy)] == ["lost_write", "duplicate", "inconsistent_offset"]


def test_failed_and_unknown_invariants_stand_first(lossy: RunData) -> None:
    """Failed and unknown invariants come first, in numerical order within a verdict."""
    shown = [(row[0].text, row[1].text) for row in invariants(lossy).rows]

    assert shown[:3] == [("I10", "fail"), ("I15", "unknown"), ("I1", "pass")]
    assert shown.index(("I2", "pass")) < shown.index(("I12", "pass"))


def test_a_violated_invariant_shows_its_known_bug(lossy: RunData) -> None:
    """The row of an invariant has the issue of its known bug; the others have none."""
    assert {row[0].text: row[6].text for row in invariants(lossy).rows[:2]} == {"I10": "HW-WAITS", "I15": "–"}


def test_recovery_keeps_censored_times(clean: RunData) -> None:
    """Each recovery time is a row: measured, a lower bound, an upper bound, or unknown."""
    values = {row[0].text: row[1].text for row in recovery(clean).rows}

    assert values["elect: time until a new leader was elected"] == "912 ms"
    assert values["hw_stall: time in which the high watermark stood still"] == "≥ 4,000 ms"
    assert values["rebalanced: time from the heal until leadership was balanced again"] == "≤ 2,000 ms"
    assert values["catch_up: time from the heal until the ISR was full again"] == DASH


def test_ends_and_restarts_of_servers_are_shown(clean: RunData) -> None:
    """Ends and restarts of servers are shown with cause or last log lines; clients' starts are not."""
    at_ns = clean.origin_ns + 5_000_000_000
    clean.events[:] = [
        Event(at_ns, "", "node_started", target="broker-2", detail={"incarnation": 2, "role": "broker"}),
        Event(at_ns, "", "node_started", target="producer", detail={"incarnation": 2, "role": "producer"}),
        Event(at_ns, "", "node_started", target="broker-1", detail={"incarnation": 1, "role": "broker"}),
        Event(
            at_ns,
            "",
            "server_exited",
            target="broker-2",
            detail={"incarnation": 2, "exit_status": 137, "log": ["ERROR"]},
        ),
    ]
    shown = server_table(clean)

    assert shown.caption == "Servers that ended by themselves: 1; starts after the first: 1."
    assert [[cell.text for cell in row][1:] for row in shown.rows] == [
        ["broker-2", "started again (start 2)", DASH],
        ["broker-2", "ended by itself with exit status 137 (start 2): no fault explains it", "ERROR"],
    ]


def test_a_run_whose_servers_stayed_up_has_no_such_table(clean: RunData) -> None:
    """A run whose servers stayed up has no table of restarts; first starts are not listed."""
    clean.events[:] = [event for event in clean.events if event.kind != "node_started"]

    assert clean.server_events == []
