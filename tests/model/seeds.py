"""Where a series of seeds begins, and what a seed means: the digests of the generator and of the judge."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

SEED = "PLIMSOLL_MODEL_SEED"
FRESH = 32  # histories that a run of the test suite tries
ROOT = Path(__file__).resolve().parents[2]
GENERATOR = ("replicated_log", "consumer_group", "cluster", "damages", "truth", "plans", "folder", "judged_run")
JUDGE = ("judge", "evidence", "kafka_files")


def fresh_seed() -> int:
    """Return the seed that the environment names, or a new one."""
    return int(os.environ.get(SEED) or int.from_bytes(os.urandom(4)))


def generator() -> str:
    """Return the digest of everything that makes a history, and its truth, of a seed."""
    return _digest(Path(__file__).with_name(f"{name}.py") for name in GENERATOR)


def judge() -> str:
    """Return the digest of the judge's source."""
    return _digest(sorted(file for folder in JUDGE for file in (ROOT / folder).rglob("*.py")))


def _digest(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]
