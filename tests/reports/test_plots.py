"""Figures show what was observed, with gaps where nothing was."""

from pathlib import Path

import pytest

from reports import plots
from reports.plots import authoritative, figures, thin, with_distance
from reports.run_data import Row, read_run
from reports.timeline import Span
from tests.reports.sample_run import BACK_S, KILL_S, at, write_sample_run


def _sample(broker: int, t: int, end: int | None, high: int | None = None) -> Row:
    return {"broker_id": broker, "t_ns": t, "log_end_offset": end, "high_watermark": high, "leader_epoch": 4}


def _view(t: int, observer: str, epoch: int, isr: list[int]) -> Row:
    return {"t_ns": t, "observer": observer, "leader": 1, "leader_epoch": epoch, "isr": isr}


def test_distance_is_measured_from_the_furthest_replica_of_that_moment() -> None:
    """A replica's distance is measured from the furthest replica at the same moment, in any order of rows."""
    rows = with_distance([_sample(3, 7, 1_000, 990), _sample(1, 7, 3_000, 1_000)])

    assert [(row["log_end_offset_behind"], row["high_watermark_behind"]) for row in rows] == [
        (2_000, 2_010),
        (0, 2_000),
    ]


def test_a_replica_that_does_not_answer_is_no_reference() -> None:
    """A replica that does not answer has no distance and is no reference for the others."""
    rows = with_distance([_sample(1, 1, 500), _sample(2, 1, 400), _sample(1, 2, None), _sample(2, 3, 410)])

    assert [row["log_end_offset_behind"] for row in rows] == [0, 100, None, 0]


def test_thinning_keeps_both_sides_of_a_gap() -> None:
    """Thinning to a tenth keeps the rows of a gap and those around it."""
    rows = [_sample(1, t, None if t in {43, 44} else t) for t in range(100)]

    kept = [row["t_ns"] for row in thin(rows, 10)]

    assert {42, 43, 44, 45} <= set(kept)
    assert len(kept) < 20


def test_thinning_hides_no_truncation() -> None:
    """Thinning keeps a fall of log end offset or high watermark that lasts two samples."""
    rows = [_sample(1, t, t - 30 if t in {43, 44} else t) for t in range(100)]
    lowered = [{**_sample(1, t, t), "high_watermark": t - 30 if t in {43, 44} else t} for t in range(100)]

    for told in (rows, lowered):
        kept = [row["t_ns"] for row in thin(told, 10)]
        assert {42, 43} <= set(kept)
        assert len(kept) < 20


def test_few_rows_are_not_thinned() -> None:
    """Rows within the limit are not thinned."""
    rows = [_sample(1, t, t) for t in range(10)]

    assert rows == thin(rows, 10)


def test_the_controller_decides_what_the_isr_is() -> None:
    """Where the controller's views exist, a broker's stale view is not drawn."""
    own = _view(1, "controller", 4, [1, 2])

    assert [own] == authoritative([own, _view(2, "3", 4, [1, 2, 3])])


def test_without_the_controller_a_stale_epoch_is_left_out() -> None:
    """Without the controller, a view of an older epoch than one already seen is left out."""
    old, new = _view(1, "1", 4, [1, 2]), _view(2, "2", 5, [2]) | {"leader": 2}
    stale = _view(3, "1", 4, [1, 2, 3])

    assert [old, new] == authoritative([old, new, stale])


@pytest.mark.parametrize("stale", ["0", "3"])
def test_without_the_controller_a_leaders_own_view_counts(stale: str) -> None:
    """Without the controller, a leader's view counts; an isolated follower's stale ISR in the same epoch does not."""
    full, shrunk, again = _view(1, "1", 4, [1, 2, 3]), _view(3, "1", 4, [1, 2]), _view(9, "1", 4, [1, 2, 3])
    others = [_view(t, stale, 4, [1, 2, 3]) for t in (2, 4)] + [_view(8, stale, 4, [1, 2])]

    assert [full, shrunk, again] == authoritative([full, shrunk, again, *others])


def test_without_the_controller_the_first_to_tell_that_nobody_leads_counts() -> None:
    """Without the controller, the first view of an epoch without a leader counts."""
    led, nobody = _view(1, "1", 4, [1]), _view(2, "2", 5, [1]) | {"leader": -1}

    assert [led, nobody] == authoritative([led, nobody, nobody | {"t_ns": 3, "observer": "3", "isr": [1, 3]}])


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:  # type: ignore[type-arg]  # plain JSON
    """The figures of the run without loss."""
    folder: Path = tmp_path_factory.mktemp("runs") / "run-1"
    return figures(read_run(write_sample_run(folder)))


def test_a_dead_brokers_line_has_a_gap(drawn: dict) -> None:  # type: ignore[type-arg]
    """While a broker is dead, its series are null without a joining line; the other brokers' are not."""
    lines = [trace for trace in drawn["replicas"]["data"] if trace["meta"]["series"] in {"LEO", "HW"}]

    for trace in lines:
        dead = [y for x, y in zip(trace["x"], trace["y"], strict=True) if KILL_S <= x < BACK_S]
        assert (trace["meta"]["broker"] == 1) == all(y is None for y in dead)
        assert trace["connectgaps"] is False
        assert trace["line"]["shape"] == "hv"


def test_the_new_leader_epoch_is_marked_once(drawn: dict) -> None:  # type: ignore[type-arg]
    """A new leader epoch is marked once in each view; the run's first epoch is not marked."""
    marked = [trace for trace in drawn["replicas"]["data"] if trace["meta"]["series"] == "epoch"]

    assert [trace["text"] for trace in marked] == [["epoch 5"], ["epoch 5"]]


def test_faults_are_shaded_and_named_in_every_figure(drawn: dict) -> None:  # type: ignore[type-arg]
    """Each fault has a band and a label in every figure, with the same numbers."""
    for figure in drawn.values():
        texts = [note["text"] for note in figure["layout"]["annotations"]]
        bands = [shape for shape in figure["layout"]["shapes"] if shape["type"] == "rect"]
        assert {"F1 lag", "F2 slow", "F3 kill"} <= set(texts)
        assert len(bands) == 3


def test_of_labels_on_one_line_those_are_left_out_that_another_covers() -> None:
    """Of labels on one line, those that another covers are left out; their markers and hover texts remain."""
    labels = [(0.0, "epoch 1"), (7.9, "epoch 2"), (8.0, "epoch 3"), (16.0, "epoch 4")]

    assert plots._uncovered(labels, [0.0, float(plots.LETTERS)]) == ["epoch 1", "", "epoch 3", "epoch 4"]


def test_labels_that_would_cover_each_other_stand_on_lines_of_their_own() -> None:
    """Labels that would overlap are on separate lines; one that begins behind another's end shares its line."""
    spans = [(0.0, "F1 reassign"), (2.0, "F2 kill"), (9.0, "F3 lag"), (14.9, "F4 kill"), (20.0, "F5 lag")]

    assert [line for _, _, line in plots._on_lines(spans, [0.0, 150.0])] == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("lines", "labels"), [(3, ["F1 reassign", "F2 reassign", "F3 reassign"]), (2, ["F1", "F2", "F3"]), (0, [])]
)
def test_many_faults_are_shaded_without_names(monkeypatch: pytest.MonkeyPatch, lines: int, labels: list[str]) -> None:
    """Bands have numbers where names take too many lines, and no labels where numbers do, too."""
    monkeypatch.setattr(plots, "MOST_LINES", lines)
    spans = [Span("reassign", "phase", 5.0 * at, 5.0 * at + 2, number=at + 1) for at in range(3)]

    assert [text for _, text, _ in plots._placed(spans, [0.0, 150.0])] == labels


def test_faults_without_labels_are_shaded_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults without labels are still shaded; the table of faults names them."""
    monkeypatch.setattr(plots, "MOST_LINES", 0)
    layout = figures(read_run(write_sample_run(tmp_path / "run-1")))["replicas"]["layout"]

    assert not any(note["text"].startswith("F") for note in layout["annotations"])
    assert sum(shape["type"] == "rect" for shape in layout["shapes"]) == 3


def test_isr_lanes_tell_leading_from_following_from_out(drawn: dict) -> None:  # type: ignore[type-arg]
    """The ISR's lanes show when a broker leads, follows or is out."""
    lanes = {(t["meta"].get("broker"), t["meta"]["state"]): t["x"] for t in drawn["isr"]["data"]}

    assert lanes[3, "out of the ISR"] == [9.5, 17.0, None]
    assert (3, "leads") not in lanes
    assert lanes[2, "leads"][0] == 22.9


def test_nothing_seen_draws_nothing(tmp_path: Path) -> None:
    """A run without timelines has no figures."""
    run = read_run(write_sample_run(tmp_path / "run-1"))
    for name in ("timeline_replicas", "timeline_isr", "timeline_sends"):
        del run.tables[name]

    assert figures(run) == {}
    assert at(0) == run.origin_ns
