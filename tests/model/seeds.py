"""Choose the first seed of a series, and identify what a seed means by digests of generator and judge."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

SEED = "PLIMSOLL_MODEL_SEED"
FRESH = 32  # histories per run of the test suite
ROOT = Path(__file__).resolve().parents[2]
GENERATOR = (
    *("parts", "clients", "replicated_log", "consumer_group", "cluster"),
    *("damages", "truth", "plans", "folder", "judged_run"),
)
JUDGE = ("judge", "evidence", "kafka_files")


def fresh_seed() -> int:
    """Return the seed from the environment, or a new one."""
    return int(os.environ.get(SEED) or int.from_bytes(os.urandom(4)))


def generator() -> str:
    """Return the digest of the sources that make a history, and its right answer, from a seed."""
    return _digest(Path(__file__).with_name(f"{name}.py") for name in GENERATOR)


def judge() -> str:
    """Return the digest of the judge's source."""
    return _digest(sorted(file for folder in JUDGE for file in (ROOT / folder).rglob("*.py")))


def _digest(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]
