"""Make a class-data archive (JEP 310), so that later starts take less CPU.

A build's first cluster lists the classes. JVMs ignore an unsuitable archive.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from clusters.kafka.tools import tool_node
from clusters.paths import locked
from clusters.runtimes.nodes import Node, opened
from clusters.runtimes.runtime import Runtime
from clusters.runtimes.tools import run_tool
from history.errors import HarnessError
from history.java import Java

log = logging.getLogger("plimsoll.class_archive")

LIST = "classes.txt"
_NUMBER = re.compile(r" id: \d+$")


def archive_of(jars: Path, java: Java, mode: str) -> Path:
    """Return a build's archive, which may not exist."""
    return jars / f"{mode}-{hashlib.sha256(str(java).encode()).hexdigest()[:8]}.jsa"


def with_archive(node: Node, archive: Path) -> Node:
    """Return the server with a flag that maps the archive, or lists classes."""
    flag = f"-XX:SharedArchiveFile={archive}" if archive.is_file() else f"-XX:DumpLoadedClassList={node.folder / LIST}"
    at = node.arguments.index("-cp")
    return replace(node, arguments=(*node.arguments[:at], flag, *node.arguments[at:]))


def make(archive: Path, runtime: Runtime, java: Java, nodes: Sequence[Node]) -> None:
    """Make an archive from class lists; failures only log a warning."""
    jars = archive.parent
    with locked(jars.parent / f".{jars.name}.lock"):
        if archive.is_file():
            return
        try:
            if lists := [text for node in nodes if (text := _loaded(node))]:
                log.info("archiving the classes of Kafka %s for later starts, once (about 10 s)", jars.name)
                _archive(archive, runtime, java, nodes[0], merged(lists))
        except (OSError, HarnessError) as error:
            log.warning("could not archive the classes: %s", error)


def _loaded(node: Node) -> str:
    path = node.folder / LIST
    with suppress(FileNotFoundError), opened(node, path, os.O_RDONLY) as file, open(file, closefd=False) as loaded:
        return loaded.read()
    return ""


def _archive(archive: Path, runtime: Runtime, java: Java, beside: Node, classes: str) -> None:
    tool = tool_node(java, archive.parent, beside, "class-archive")
    loaded, made, new = tool.folder / LIST, tool.folder / archive.name, archive.with_suffix(".new")
    flags = ("-Xshare:dump", f"-XX:SharedClassListFile={loaded}", f"-XX:SharedArchiveFile={made}")
    loaded.write_text(classes)
    try:
        run_tool(runtime, replace(tool, arguments=(*flags, *tool.arguments)))
        with (
            opened(tool, made, os.O_RDONLY) as descriptor,
            open(descriptor, "rb", closefd=False) as written,
            new.open("wb") as copy,
        ):
            shutil.copyfileobj(written, copy)
        new.rename(archive)
    finally:
        new.unlink(missing_ok=True)
        made.unlink(missing_ok=True)


def merged(lists: Iterable[str]) -> str:
    """Merge class lists, without ids or an incomplete last line."""
    lines = (line for text in lists for line in text[: text.rfind("\n") + 1].splitlines())
    named = (_NUMBER.sub("", line) for line in lines if " source: " not in line)
    return "".join(f"{line}\n" for line in dict.fromkeys(named))
