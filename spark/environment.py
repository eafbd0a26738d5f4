"""Pack this process's Python and libraries for Spark's executors, whose hosts then need nothing installed.

The archive has the interpreter, its standard library, the libraries that ``requirements.lock`` names by digest, and the
shared libraries that these need, except glibc. It works wherever it is unpacked. A ``venv`` links to a host's
interpreter, and ``uv pip install --target`` needs the same minor version there.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from history.commands import run_command
from history.errors import HarnessError
from history.scratch import scratch

# Dependencies of the packages that executors import.
LIBRARIES = (
    *("numpy", "pyarrow", "cramjam", "google-crc32c"),
    *("pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection"),
)
NAME = "environment"  # of the folder that executors unpack it to
PYTHON = f"./{NAME}/bin/python"

_FOLDER = Path(__file__).parents[1] / ".cache" / "executors"
_STANDARD = f"python{sys.version_info.major}.{sys.version_info.minor}"
_NOT_NEEDED = re.compile(
    r"(^|/)(__pycache__|site-packages|dist-packages|test|tests|include|idlelib|tkinter|turtledemo|ensurepip|lib2to3|"
    r"config-[^/]*)(/|$)|_tkinter|_flight\.|\.(a|pyi|pyx|pxd|pyc|h|hpp)$"
)
_GLIBC = re.compile(r"^(ld-linux|linux-vdso|libanl|libc|libdl|libm|libmvec|libpthread|libresolv|librt|libutil)[.-]")
# Spark's own PYTHONPATH stays first.
_START = f"""\
#!/bin/sh
home=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONHOME="$home" PYTHONNOUSERSITE=1
export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$home/libraries"
export LD_LIBRARY_PATH="$home/shared${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$home/bin/{_STANDARD}" "$@"
"""


def packed() -> Path:
    """Return the archive (``.tar.gz``), made once per Python and set of locked libraries.

    Raises:
        HarnessError: a library, or part of the interpreter, is missing here.
    """
    installed = [(name, distribution(name).version) for name in LIBRARIES]
    made_of = [sys.version, sys.base_prefix, installed, Path(__file__).read_text()]
    archive = _FOLDER / f"{hashlib.sha256(repr(made_of).encode()).hexdigest()[:12]}.tar.gz"
    if not archive.is_file():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        descriptor, new = tempfile.mkstemp(prefix=f".{archive.name}-", dir=_FOLDER)
        os.close(descriptor)
        try:
            _write(Path(new))
            Path(new).chmod(0o644)
            Path(new).replace(archive)
        finally:
            Path(new).unlink(missing_ok=True)
    return archive


def _write(archive: Path) -> None:
    files = dict(_files())
    files |= {f"shared/{path.name}": path for path in _shared(list(files.values()))}
    with scratch() as folder, tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for name, path in sorted(files.items()):
            tar.add(path.resolve(), name, recursive=False)
        start = folder / "python"
        start.write_text(_START)
        start.chmod(0o755)
        tar.add(start, "bin/python")


def _files() -> Iterator[tuple[str, Path]]:
    """Yield name in the archive → file: interpreter, standard library, libraries."""
    yield f"bin/{_STANDARD}", Path(sys.base_prefix, "bin", _STANDARD)
    for place in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib", vars={"platbase": sys.base_prefix})}:
        yield from ((f"{sys.platlibdir}/{_STANDARD}/{name}", path) for name, path in _tree(Path(place)))
    for name in LIBRARIES:
        for file in distribution(name).files or ():
            if ".." not in file.parts and not _NOT_NEEDED.search(str(file)):
                yield f"libraries/{file}", Path(str(file.locate()))


def _tree(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not _NOT_NEEDED.search(name):
            yield name, path


def _shared(files: list[Path]) -> set[Path]:
    """Return the host's shared libraries that files load, except glibc."""
    loading = [str(path) for path in files if ".so" in path.name or path.parent.name == "bin"]
    done = run_command(["ldd", *loading], 60)
    if not done.stdout:
        raise HarnessError(f"ldd does not say what {loading[0]} needs: {done.stderr.strip() or 'nothing printed'}.")
    found = {name: Path(path) for name, path in re.findall(r"^\s+(\S+) => (/\S+) ", done.stdout, re.MULTILINE)}
    packed_folders = {path.resolve().parent for path in files}
    return {
        path
        for name, path in found.items()
        if not _GLIBC.match(name) and path.resolve().parent not in packed_folders and path.parent not in packed_folders
    }
