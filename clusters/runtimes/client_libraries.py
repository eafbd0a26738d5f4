"""The Python libraries that client nodes need, as a folder to be mounted into containers."""

from __future__ import annotations

import hashlib
import logging
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from clusters.paths import CACHE, ROOT, aside, locked
from history.errors import HarnessError

log = logging.getLogger("plimsoll.client_libraries")

LIBRARIES = ("confluent-kafka", "kafka-python", "pyarrow")
IMAGE_PYTHON = "3.11"  # Debian bookworm's, which the node image has


def locked_requirements(lock: str, names: tuple[str, ...]) -> str:
    """The blocks (version and hashes) of some packages out of a hashed requirements file.

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
    """The folder with the client libraries for the image's Python, fetched once per lock file.

    Raises:
        HarnessError: they could not be fetched.
    """
    requirements = locked_requirements((ROOT / "requirements.lock").read_text(), LIBRARIES)
    folder = CACHE / "clients" / hashlib.sha256(requirements.encode()).hexdigest()[:12]
    with locked(CACHE / "clients" / ".lock"):
        if not folder.is_dir():
            log.info("fetching the libraries of the client nodes, once (a few seconds)")
            with aside(folder) as new:
                _fetch(requirements, new)
    return folder


def _fetch(requirements: str, folder: Path) -> None:
    wanted = folder / "requirements.txt"
    wanted.write_text(requirements)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(folder)),
            *("--python-version", IMAGE_PYTHON, "--only-binary", ":all:", "--no-deps", "--require-hashes"),
            *("-r", str(wanted)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise HarnessError(f"The client libraries could not be fetched: {done.stderr.strip()[-500:]}")
