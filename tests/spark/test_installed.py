"""Which pyspark a process that Spark started imports."""

import sys
from pathlib import Path

import pyspark
import pytest

from spark.installed import prefer_installed

COPY = str(Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip")


def test_archives_are_left_out_where_the_libraries_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All other places stay, in their order."""
    places = ["/tmp/own.zip", *(place for place in sys.path if not place.endswith(".zip"))]
    monkeypatch.setattr(sys, "path", [COPY, *places])
    prefer_installed()

    assert sys.path == places


def test_archives_stay_where_nothing_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host that has Spark alone imports Spark's own copy."""
    monkeypatch.setattr(sys, "path", [COPY, str(tmp_path)])
    prefer_installed()

    assert sys.path == [COPY, str(tmp_path)]
