"""The benchmark's steps, and figures from what other benchmarks wrote."""

import pytest

from bench import run, targets
from bench.judge import CASES
from bench.segments import OURS, Row


def row(value_bytes, file_bytes, seconds, *, reader=OURS, codec="none", records=1_000_000):
    """Return a reader's row on a segment."""
    return Row(reader, value_bytes, codec, file_bytes, records, seconds, seconds, 0)


def test_segments_are_told_by_the_median_round_of_the_largest():
    """The figure is the median round of the largest segment: records per second for 100 bytes, MB/s for 1 KiB."""
    rows = [
        row(100, 9, [1.0]),
        row(100, 90, [0.5, 9.0, 0.4]),
        row(1024, 800_000_000, [2.0]),
        row(1024, 900_000_000, [0.1], codec="gzip"),
        row(1024, 900_000_000, [0.1], reader="other"),
    ]
    figures = {each["target"]: each["figure"] for each in run.segment_rows(rows)}

    assert figures == {"segments_100_bytes": 2_000_000, "segments_1_kib": 400.0}


def test_every_target_is_measured_by_a_step():
    """Every target is measured by a step."""
    judged = {case.target for name, case in CASES.items() if name in run.JUDGED}
    pages = {name for name in targets.TARGETS if name.removesuffix("_page") in judged}
    others = {"small_import", "further_run", "growth_1m_to_50m", "accounting_over_duckdb", "accounting_over_sets"}

    others |= {"segments_100_bytes", "segments_1_kib", "late_99", "late_999"}
    others |= {"watch_cpu", "watched_broker_cpu", "watched_p99", "attached_load"}
    others |= {"records_100m_memory"}  # 46 GB and half an hour: python -m bench.judge 100m --record
    others |= {name for name in targets.TARGETS if name.startswith(("at_once", "unknown"))}  # hours: bench.at_once
    of_clients = {targets.beside_kafka(client, size) for client, *_ in targets.BESIDE_KAFKA for size in targets.SIZES}

    assert judged | pages | others | of_clients == targets.TARGETS.keys()
    assert "kafka_python_10_kB" in of_clients
    assert set(run.JUDGED) <= CASES.keys()


def test_all_are_met_only_if_the_last_figure_of_each_is():
    """All targets are met only if the last figure of each is; a target without a figure is not met."""
    met = [{"target": name, "met": True} for name in targets.TARGETS]

    assert targets.all_met(met)
    assert targets.all_met([{**met[0], "met": False}, *met])
    assert not targets.all_met([*met, {**met[0], "met": False}])
    assert not targets.all_met(met[1:])


def test_a_step_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]):
    """An unknown step is rejected before any measurement."""
    with pytest.raises(SystemExit):
        run.main(["spead"])

    assert "there is no step spead" in capsys.readouterr().err
