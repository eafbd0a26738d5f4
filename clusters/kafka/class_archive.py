"""An archive of the classes that servers load: a start from it takes less CPU, and is the same otherwise.

The servers of the first cluster of a build write down what they load. Once it is up the archive is made from that,
beside the jars, and every later start maps it. A JVM leaves alone what does not fit its own build or its class path
(application class-data sharing, JEP 310).
"""

from __future__ import annotations

import hashlib
import logging
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from clusters.paths import locked
from clusters.runtimes.nodes import Node
from history.java import Java

log = logging.getLogger("plimsoll.class_archive")

LIST = "classes.txt"  # in a server's folder
LIMIT_S = 120.0
_NUMBER = re.compile(r" id: \d+$")


def archive_of(jars: Path, java: Java, mode: str) -> Path:
    """The file of a build's archive, made or not."""
    return jars / f"{mode}-{hashlib.sha256(str(java).encode()).hexdigest()[:8]}.jsa"


def with_archive(node: Node, archive: Path) -> Node:
    """A server that maps the archive, or writes down what it loads while there is none."""
    flag = f"-XX:SharedArchiveFile={archive}" if archive.is_file() else f"-XX:DumpLoadedClassList={node.folder / LIST}"
    at = node.arguments.index("-cp")
    return replace(node, arguments=(*node.arguments[:at], flag, *node.arguments[at:]))


def make(archive: Path, java: Sequence[str], nodes: Iterable[Node]) -> None:
    """Make an archive from what running servers wrote down; where that fails, later ones start as these did.

    ``java`` is the command, with the flags of those that will map it.
    """
    lists = [file for node in nodes if (file := node.folder / LIST).is_file()]
    jars = archive.parent
    with locked(jars.parent / f".{jars.name}.lock"):
        if archive.is_file() or not lists:
            return
        log.info("archiving the classes of Kafka %s for later starts, once (about 10 s)", jars.name)
        try:
            _archive(archive, java, merged(file.read_text() for file in lists))
        except (OSError, subprocess.SubprocessError) as error:
            said = error.stdout[-300:] if isinstance(error, subprocess.CalledProcessError) else ""
            log.warning("no classes were archived: %s %s", error, said)


def _archive(archive: Path, java: Sequence[str], classes: str) -> None:
    loaded, new = archive.with_suffix(".txt"), archive.with_suffix(".new")
    asked = ["-Xshare:dump", f"-XX:SharedClassListFile={loaded}", f"-XX:SharedArchiveFile={new}"]
    command = [*java, *asked, "-cp", f"{archive.parent}/*"]
    try:
        loaded.write_text(classes)
        subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
        new.rename(archive)
    finally:
        loaded.unlink(missing_ok=True)
        new.unlink(missing_ok=True)


def merged(lists: Iterable[str]) -> str:
    """Each class of several lists once, in their order and without its number, by which a list of one JVM's refers to
    classes of loaders of its own; a last line that is not whole yet is left out.
    """
    lines = (line for text in lists for line in text[: text.rfind("\n") + 1].splitlines())
    named = (_NUMBER.sub("", line) for line in lines if " source: " not in line)
    return "".join(f"{line}\n" for line in dict.fromkeys(named))
