"""Add releases to ``jars.lock``: ``python -m clusters.kafka.jars_lock 4.4.1``.

pyspark's Ivy finds their jars; its Java takes a proxy or a truststore from ``JAVA_TOOL_OPTIONS``.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from clusters.kafka.jars import AGENT, AGENT_VERSION, LOCK, locked_jars
from history.commands import run_command
from history.errors import BadInput, HarnessError
from history.folder import sha256_of
from history.java import java_of
from history.scratch import scratch

_PATH = "[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"
_UNREACHABLE = re.compile("SERVER ERROR|Server access error|Host ")  # Ivy then reports "not found", too


def resolved(cache: Path, organisation: str, module: str, version: str) -> dict[str, str]:
    """Return the SHA-256 of a module's and its dependencies' jars, by path in Maven Central.

    Raises:
        BadInput: Maven Central has no such module, or not all that it needs.
        HarnessError: it could not be fetched.
    """
    spark = find_spec("pyspark")
    assert spark is not None
    (ivy,) = (Path(str(spark.origin)).parent / "jars").glob("ivy-*.jar")
    with scratch() as jars:
        arguments = ("-dependency", organisation, module, version, "-confs", "default", "-retrieve", f"{jars}/{_PATH}")
        done = run_command([java_of().command, "-jar", ivy, "-cache", cache, *arguments])
        output, name = done.stdout + done.stderr, f"{organisation}:{module}:{version}"
        if "not found" in output and not _UNREACHABLE.search(output):
            raise BadInput(f"Maven Central lacks {name} or a part of it; name another version.")
        # Ivy replaces a pom that did not arrive by one without dependencies.
        if done.returncode or any(b'default="true"' in pom.read_bytes() for pom in cache.glob("*/*/ivy-*.xml")):
            raise HarnessError(f"Ivy could not resolve {name}: {output[-800:].strip()}; try again.")
        found = {jar.relative_to(jars).parts: sha256_of(jar) for jar in jars.rglob("*.jar")}
    return {"/".join((group.replace(".", "/"), *rest)): digest for (group, *rest), digest in found.items()}


def folders_of(cache: Path, version: str) -> dict[str, dict[str, str]]:
    """Return the jars of a release's servers and tools, and of the metrics agent."""
    server = resolved(cache, "org.apache.kafka", "kafka_2.13", version)
    (slf4j,) = re.findall(r"/slf4j-api-(.*)\.jar", "\n".join(server))
    folders = {
        version: server | resolved(cache, "org.slf4j", "slf4j-simple", slf4j),
        f"jmx-{AGENT_VERSION}": resolved(cache, "io.prometheus.jmx", AGENT, AGENT_VERSION),
    }
    try:
        folders[f"tools-{version}"] = resolved(cache, "org.apache.kafka", "kafka-tools", version)
    except BadInput as late:
        sys.stderr.write(f"{late}\n")
    return folders


if __name__ == "__main__":
    with scratch() as poms:
        locked = dict(locked_jars())
        for each in sys.argv[1:]:
            locked |= folders_of(poms, each)
        LOCK.write_text(f"{json.dumps(locked, indent=0, sort_keys=True)}\n")
