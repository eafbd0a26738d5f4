"""Provide client nodes' Python libraries as a folder for containers."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import sys
from functools import cache
from importlib.metadata import Distribution, distribution
from pathlib import Path

from clusters.paths import CACHE, ROOT, locked, staged_folder
from history.commands import run_command
from history.errors import HarnessError

log = logging.getLogger("plimsoll.client_libraries")

LIBRARIES = (
    *("confluent-kafka", "google-crc32c", "numpy", "pyarrow"),
    *("kafka-python", "cramjam", "crc32c", "lz4", "python-snappy", "zstandard"),  # its checksums and codecs
)
CLIENT_PACKAGES = ("clusters", "history", "kafka_files")  # of our own
IMAGE_PYTHON = "3.11"  # Debian bookworm's, which the node image has


def locked_requirements(lock: str, names: tuple[str, ...]) -> str:
    """Return some packages' blocks (version, hashes) of a hashed requirements file.

    Raises:
        HarnessError: a package is not in it.
    """
    blocks = []
    for name in names:
        block = re.search(rf"^{re.escape(name)}==.*\n(?: +--hash.*\n)*", lock, re.MULTILINE)
        if block is None:
            raise HarnessError(f"requirements.lock has no {name}; run `make lock`.")
        blocks.append(block[0])
    return "".join(blocks)


@cache
def client_libraries() -> Path:
    """Return the folder of client libraries for the image's Python, made once per lock file.

    On the same Python, this process's libraries are linked; otherwise they are fetched.

    Raises:
        HarnessError: they could not be fetched.
    """
    requirements = locked_requirements((ROOT / "requirements.lock").read_text(), LIBRARIES)
    folder = CACHE / "clients" / hashlib.sha256(requirements.encode()).hexdigest()[:12]
    with locked(CACHE / "clients" / ".lock"):
        if not folder.is_dir():
            with staged_folder(folder) as new:
                wanted = new / "requirements.txt"
                wanted.write_text(requirements)
                if installed := installed_here(requirements):
                    for library in installed:
                        link_files(library, new)
                else:
                    log.info("fetching the libraries of the client nodes, once (a few seconds)")
                    _fetch(wanted, new)
    return folder


def installed_here(requirements: str) -> list[Distribution]:
    """Return this process's client libraries; empty unless Python is the image's and all versions are locked ones."""
    if "{}.{}".format(*sys.version_info) != IMAGE_PYTHON:
        return []
    found = [distribution(name) for name in LIBRARIES]
    same = all(f"{name}=={library.version} " in requirements for name, library in zip(LIBRARIES, found, strict=True))
    return found if same else []


def link_files(library: Distribution, folder: Path) -> None:
    """Link a library's modules into a folder; on another file system, copy them."""
    for file in library.files or ():
        if ".." in file.parts or file.suffix == ".pyc":
            continue
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(file.locate(), target)
        except OSError:
            shutil.copy2(file.locate(), target)


def _fetch(wanted: Path, folder: Path) -> None:
    done = run_command(
        [
            *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(folder)),
            *("--python-version", IMAGE_PYTHON, "--only-binary", ":all:", "--no-deps", "--require-hashes"),
            *("-r", str(wanted)),
        ],
    )
    if done.returncode:
        raise HarnessError(f"The client libraries could not be fetched: {done.stderr.strip()[-500:]}")
