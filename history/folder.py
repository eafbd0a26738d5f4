"""The layout of a run folder, and its seal."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from history.errors import EvidenceError
from history.remote import AT_ONCE, AnyPath, RemotePath

SEAL = "sealed.json"
STAGES = "stages.jsonl"
_OPEN = {Path("/dev/stdout"): 1, Path("/dev/stderr"): 2}
_OPEN_BY_NUMBER = {Path("/dev/fd"), Path("/proc/self/fd")}


@dataclass(frozen=True)
class RunFolder:
    """``runs/<run_id>/``; ``work/`` in it exists until collection.

    Folders may be in an object store (``history.remote``).
    """

    path: Path

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def stages(self) -> Path:
        """Return the file of stage times, unsealed because judging follows sealing."""
        return self.path / STAGES

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def hooks(self) -> Path:
        return self.path / "hooks"

    @property
    def clients(self) -> Path:
        return self.path / "clients"

    @property
    def brokers(self) -> Path:
        return self.path / "brokers"

    @property
    def verdict(self) -> Path:
        return self.path / "verdict"

    @property
    def latency_log(self) -> Path:
        return self.verdict / "latency.hlog"

    @property
    def verdict_file(self) -> Path:
        return self.verdict / "verdict.json"

    def read_verdict(self) -> dict[str, Any]:
        """Return the verdict, else {}."""
        try:
            content = json.loads(self.verdict_file.read_text())
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    @property
    def report(self) -> Path:
        return self.path / "report"

    def table(self, name: str) -> Path:
        return self.path / name

    def judged(self, name: str) -> Path:
        return self.verdict / name

    def _below(self, parts: Collection[str]) -> Iterator[Path]:
        found = self.path.rglob("*")
        return (path for path in found if path.relative_to(self.path).parts[0] in parts) if parts else found

    def _sealed_files(self, parts: Collection[str] = ()) -> list[Path]:
        outside = {self.verdict, self.report, self.work, self.stages}
        return sorted(
            file
            for file in self._below(parts)
            if file.is_file()
            and not file.is_symlink()
            and file.name != SEAL
            and not outside.intersection([file, *file.parents])
        )

    def seal(self) -> None:
        digests = self._digests()
        write_atomically(self.path / SEAL, json.dumps(digests, indent=1))

    @property
    def is_sealed(self) -> bool:
        return (self.path / SEAL).is_file()

    def require_intact(self, *parts: str) -> None:
        """Check the record or these parts.

        Raises: EvidenceError: they differ, or there is no seal.
        """
        if broken := self.check_seal(*parts):
            more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
            which = f"The run folder {self.path.resolve().name}"
            raise EvidenceError(f"{which} is not what was sealed: {'; '.join(broken[:3])}{more}.")

    def check_seal(self, *parts: str) -> list[str]:
        """Return a sentence per difference.

        Raises: EvidenceError: there is no seal.
        """
        seal = self.path / SEAL
        if not seal.is_file():
            raise EvidenceError(f"{self.path} is no run folder that was collected to the end: {SEAL} is missing.")
        try:
            sealed: dict[str, str] = dict(json.loads(seal.read_bytes()))
        except (ValueError, TypeError, RecursionError) as error:
            raise EvidenceError(f"{seal} cannot be read as a list of files: {error}.") from error
        if parts:
            sealed = {name: digest for name, digest in sealed.items() if name.split("/")[0] in parts}
        found = self._digests(parts)
        missing = [f"{name} is missing" for name in sealed.keys() - found.keys()]
        added = [f"{name} was added after sealing" for name in found.keys() - sealed.keys()]
        changed = [
            f"{name} was changed after sealing" for name in sealed.keys() & found.keys() if found[name] != sealed[name]
        ]
        return sorted(missing + added + changed + self._links(parts))

    def _links(self, parts: Collection[str]) -> list[str]:
        """Return a sentence per symbolic link, which may lead outside the record."""
        found = self._below(parts) if isinstance(self.path, Path) else []
        return [f"{file.relative_to(self.path)} is a symbolic link" for file in found if file.is_symlink()]

    def _digests(self, parts: Collection[str] = ()) -> dict[str, str]:
        files = self._sealed_files(parts)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            digests = pool.map(sha256_of, files)
            return {str(file.relative_to(self.path)): digest for file, digest in zip(files, digests, strict=True)}


def sha256_of(file: Path) -> str:
    """Return a file's SHA-256."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner can read."""
    path.touch(mode=0o600)
    path.write_text(text)


def write_atomically(path: AnyPath, text: str) -> None:
    """Write a file by renaming, except streams.

    Raises: OSError: with the file's name.
    """
    if isinstance(path, RemotePath):
        path.write_text(text)
    elif is_stream(path):
        number = _descriptor(path)
        with _named(path), open(path if number is None else number, "w", closefd=number is None) as stream:
            stream.write(text)
    else:
        with replacing(path) as partial:
            partial.write_text(text)


def read_notes(path: Path) -> dict[str, Any]:
    """Return a JSON object that earlier tasks wrote; empty before the first."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return found


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces ``path`` on success.

    Raises: OSError: with the file's name.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with _named(path):
            yield partial
            partial.rename(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def is_stream(path: Path) -> bool:
    """Return whether a path must not be replaced: a device, a pipe, or an open file."""
    if _descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _descriptor(path: Path) -> int | None:
    """Return an open path's descriptor; reopening truncates, and fails for sockets."""
    if path in _OPEN:
        return _OPEN[path]
    return int(path.name) if path.parent in _OPEN_BY_NUMBER and path.name.isdecimal() else None
