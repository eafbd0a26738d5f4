"""Plimsoll's version, commit and source digest."""

from __future__ import annotations

import hashlib
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from zipfile import ZipFile

from pydantic import BaseModel, ConfigDict

ROOT = Path(__file__).resolve().parent.parent
JUDGE = ("judge", "evidence", "expectations", "kafka_files")  # these determine a verdict
PRODUCT = (
    *JUDGE,
    *(
        "campaigns",
        "claims",
        "clusters",
        "commands",
        "dags",
        "history",
        "imports",
        "operators",
        "reports",
        "service",
        "spark",
    ),
)
DIGITS = 12
_GIT_LIMIT_S = 10.0


class Product(BaseModel):
    """``commit`` is empty without a repository."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: str
    commit: str
    source: str

    def __str__(self) -> str:
        known = (self.commit[:DIGITS], f"source {self.source}")
        return f"{self.version} ({', '.join(filter(None, known))})"


@cache
def product() -> Product:
    """Return the running Plimsoll."""
    return Product(version=version(), commit=_commit(), source=_digest(PRODUCT))


def version() -> str:
    """Return its version."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


@cache
def judge_digest() -> str:
    """Return the digest of the source that determines verdicts."""
    return _digest(JUDGE)


def _digest(packages: Iterable[str]) -> str:
    found = hashlib.sha256()
    for name, content in sorted(_python_files(frozenset(packages))):
        found.update(f"{name}\0".encode())
        found.update(hashlib.sha256(content).digest())
    return found.hexdigest()[:DIGITS]


def _python_files(packages: frozenset[str]) -> Iterator[tuple[str, bytes]]:
    """Yield Python files' contents, also from a Spark driver's archive."""
    if ROOT.is_file():
        with ZipFile(ROOT) as archive:
            for name in archive.namelist():
                if name.endswith(".py") and name.partition("/")[0] in packages:
                    yield name, archive.read(name)
        return
    for package in packages:
        for file in (ROOT / package).rglob("*.py"):
            yield file.relative_to(ROOT).as_posix(), file.read_bytes()


def _commit() -> str:
    if not (ROOT / ".git").exists():  # not an enclosing repository's
        return ""
    try:
        asked = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=_GIT_LIMIT_S).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
