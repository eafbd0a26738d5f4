"""A build of Kafka that is slower by a known amount."""

import subprocess
import zipfile
from pathlib import Path

import google_crc32c
import pytest

from tests.acceptance import slow_build

CHECK = """
public class Check {
    public static void main(String[] arguments) {
        byte[] bytes = "0123456789".getBytes();
        long begun = System.nanoTime();
        long crc = org.apache.kafka.common.utils.Crc32C.compute(java.nio.ByteBuffer.wrap(bytes, 1, 9).slice(), 1, 8);
        System.out.println(crc + " " + (System.nanoTime() - begun));
    }
}
"""


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jars of a release with the replaced class, its nested class and another class."""
    jars = tmp_path / "release"
    jars.mkdir()
    with zipfile.ZipFile(jars / "kafka-clients-3.9.1.jar", "w") as jar:
        for name in ("Crc32C.class", "Crc32C$1.class", "PureJavaCrc32C.class"):
            jar.writestr(f"org/apache/kafka/common/utils/{name}", b"old")
    monkeypatch.setattr(slow_build, "kafka_jars", lambda _: jars)
    return jars


def test_only_the_one_class_is_another(release: Path, tmp_path: Path) -> None:
    """Only the one class is replaced; the other classes and the release's folder do not change."""
    before = (release / "kafka-clients-3.9.1.jar").read_bytes()

    made = slow_build.make(tmp_path / "slow")

    with zipfile.ZipFile(made / "kafka-clients-3.9.1.jar") as jar:
        classes = {Path(name).name: jar.read(name) for name in jar.namelist()}
    assert set(classes) == {"Crc32C.class", "PureJavaCrc32C.class"}
    assert classes["PureJavaCrc32C.class"] == b"old"
    assert (release / "kafka-clients-3.9.1.jar").read_bytes() == before


def test_the_checksum_is_right_and_takes_its_time(release: Path, tmp_path: Path) -> None:
    """The checksum is right and takes longer, so that a broker accepts the batches only later."""
    made = slow_build.make(tmp_path / "slow", waits_ms=20.0)
    (tmp_path / "Check.java").write_text(CHECK)

    command = ["java", "-cp", str(made / "kafka-clients-3.9.1.jar"), str(tmp_path / "Check.java")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert int(said[0]) == google_crc32c.value(b"23456789")
    assert int(said[1]) >= 20_000_000
