"""Make a build of Kafka slower by a known amount: ``python -m tests.acceptance slow_build FOLDER [MS]``.

The class that checks a batch's CRC first waits MS milliseconds, once per appended batch, as leader and as follower.
Needs a JDK's compiler.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from clusters.kafka.jars import kafka_jars
from history.errors import BadInput, HarnessError

KAFKA = "3.9.1"
WAITS_MS = 3.0
CLASS = "org/apache/kafka/common/utils/Crc32C"
SOURCE = """
package org.apache.kafka.common.utils;

import java.nio.ByteBuffer;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.CRC32C;
import java.util.zip.Checksum;

public final class Crc32C {{
    public static long compute(byte[] bytes, int offset, int size) {{
        return compute(ByteBuffer.wrap(bytes), offset, size);
    }}

    public static long compute(ByteBuffer buffer, int offset, int size) {{
        long until = System.nanoTime() + {waits_ns}L;
        for (long left; (left = until - System.nanoTime()) > 0; ) {{
            LockSupport.parkNanos(left);
        }}
        ByteBuffer part = buffer.duplicate();
        int start = buffer.position() + offset;
        part.limit(start + size).position(start);
        CRC32C crc = new CRC32C();
        crc.update(part);
        return crc.getValue();
    }}

    public static Checksum create() {{
        return new CRC32C();
    }}
}}
"""


def make(folder: Path, waits_ms: float = WAITS_MS, kafka: str = KAFKA) -> Path:
    """Write the jars into a new folder and return it.

    Raises:
        HarnessError: the compiler is missing or failed.
        FileExistsError: the folder exists.
    """
    shutil.copytree(kafka_jars(kafka), folder)
    jar = folder / f"kafka-clients-{kafka}.jar"
    with tempfile.TemporaryDirectory() as scratch:
        compiled = _compiled(Path(scratch), jar, waits_ms)
        slow = Path(scratch) / jar.name
        with zipfile.ZipFile(jar) as old, zipfile.ZipFile(slow, "w", zipfile.ZIP_DEFLATED) as new:
            for entry in old.infolist():
                if not entry.filename.startswith((f"{CLASS}.", f"{CLASS}$")):
                    new.writestr(entry, old.read(entry))
            new.write(compiled, f"{CLASS}.class")
        jar.unlink()  # it may be a link to the release's own
        shutil.copy(slow, jar)
    return folder


def _compiled(scratch: Path, jar: Path, waits_ms: float) -> Path:
    source = scratch / "Crc32C.java"
    source.write_text(SOURCE.format(waits_ns=round(waits_ms * 1e6)))
    if shutil.which("javac") is None:
        raise HarnessError("There is no javac to compile the slower class: install a JDK.")
    command = ["javac", "--release", "11", "-cp", str(jar), "-d", str(scratch), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"javac refused the slower class: {done.stderr.strip()[-500:]}")
    return scratch / f"{CLASS}.class"


def main(arguments: Sequence[str]) -> int:
    """Make a build and print its folder.

    Raises:
        BadInput: no folder was named.
    """
    if not arguments:
        raise BadInput("There is no folder to write the build into; name a new one.")
    folder, waits_ms, *_ = [*arguments, WAITS_MS]
    print(make(Path(folder), float(waits_ms)))
    return 0
