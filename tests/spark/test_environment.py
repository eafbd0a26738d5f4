"""The Python that executors are sent."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from spark import environment
from spark.submit import ROOT

pytestmark = pytest.mark.pipeline  # 90 MB are packed

# What a task of the judge imports, and which files that takes.
PROGRAM = """
import ctypes, hashlib, json, sys, zlib
import cramjam, numpy, pyarrow.parquet
import judge.partition
files = [module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)]
mapped = [line.split()[-1] for line in open("/proc/self/maps") if ".so" in line]
print(json.dumps({"files": files, "mapped": sorted(set(mapped)), "path": sys.path}))
"""
GLIBC = re.compile(r"/(ld-linux|libc|libdl|libm|libmvec|libpthread|libresolv|librt|libutil)[-.][^/]*$")


def test_it_needs_nothing_of_its_host_but_glibc(tmp_path: Path) -> None:
    """Every module and shared library that it loads lies in the archive, or in the project's own packages."""
    home = tmp_path / environment.NAME
    with tarfile.open(environment.packed()) as archive:
        archive.extractall(home, filter="tar")
    done = subprocess.run(
        [str(tmp_path / environment.PYTHON), "-c", PROGRAM],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    found = json.loads(done.stdout)
    own = tuple(f"{ROOT / package}/" for package in ("history", "kafka_files", "evidence", "judge", "expectations"))
    assert [name for name in found["files"] if not name.startswith((str(home), *own))] == []
    assert [name for name in found["mapped"] if not name.startswith(str(home)) and not GLIBC.search(name)] == []
    assert any("/libarrow.so" in name for name in found["mapped"])


def test_it_is_packed_once() -> None:
    """The second call finds the first one's archive."""
    first = environment.packed()
    packed_at = first.stat().st_mtime_ns

    assert environment.packed() == first
    assert first.stat().st_mtime_ns == packed_at
