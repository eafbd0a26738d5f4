"""The tables' schemas."""

from __future__ import annotations

import pyarrow as pa
import pytest

from history.tables import JUDGED, OFFSETS, RECORDED, REPLICAS

EVERY = {**RECORDED, **JUDGED}


@pytest.mark.parametrize("table", EVERY)
def test_a_column_stands_once(table: str) -> None:
    """Two columns of one name could not be read by name."""
    names = EVERY[table].names

    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("table", EVERY)
def test_moments_are_whole_nanoseconds(table: str) -> None:
    """A float would round CLOCK_MONOTONIC after some weeks of uptime."""
    moments = [field for field in EVERY[table] if field.name.endswith("_ns")]

    assert [field.name for field in moments if field.type != pa.int64()] == []


def test_a_capture_is_a_probe_sample_and_more() -> None:
    """So that the judge reads both with the same functions."""
    assert OFFSETS.names[: len(REPLICAS) + 1] == ["capture", *REPLICAS.names]


def test_recorded_and_judged_tables_do_not_share_names() -> None:
    """Recording never writes what the judge rebuilds."""
    assert RECORDED.keys() & JUDGED.keys() == set()
