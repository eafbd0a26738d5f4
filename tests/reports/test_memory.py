"""Memory on a run's page: each process's samples, and whether it grew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reports.memory import growth, memory_figure, memory_table, used
from reports.run_data import read_run
from tests.reports.sample_run import write_sample_run


@pytest.mark.parametrize(
    ("values", "grew"),
    [
        ([1.0] * 3 + [10.0] * 9, 0.0),  # it warms up
        ([10.0] * 9 + [15.0] * 3, 0.5),
        ([10.0] * 9 + [5.0] * 3, -0.5),
        ([10.0] * 10 + [90.0] + [10.0], 0.0),  # one moment is no growth
        ([10.0] * 8 + [15.0] * 3, None),
        ([], None),
    ],
)
def test_growth_is_from_the_second_quarter_to_the_last(values: list[float], grew: float | None) -> None:
    """By medians; of fewer than twelve samples it is not known."""
    assert growth(values) == (grew if grew is None else pytest.approx(grew))


def test_each_process_has_its_line_and_its_row(tmp_path: Path) -> None:
    """In order of time, in MB; other counters are no memory."""
    run = read_run(write_sample_run(tmp_path / "run"))
    told = [("producer", 2, 3e6), ("producer", 1, 2e6), ("broker-1", 1, 5e6)]
    rows = [{"source": name, "t_ns": t_ns, "name": "memory_bytes", "value": value} for name, t_ns, value in told]
    rows.append({"source": "broker-1", "t_ns": 1, "name": "cpu_ns", "value": 7e9})
    run = replace(run, tables={**run.tables, "usage": rows})

    assert [(own.name, own.mb) for own in used(run)] == [("broker-1", [5.0]), ("producer", [2.0, 3.0])]
    assert [(trace["name"], trace["y"]) for trace in memory_figure(run)["data"]] == [
        ("broker-1", [5.0]),
        ("producer", [2.0, 3.0]),
    ]
    assert [[cell.text for cell in row] for row in memory_table(run).rows][1] == [
        "producer",
        "2 MB",
        "3 MB",
        "3 MB",
        "–",
    ]
