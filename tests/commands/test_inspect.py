"""``plimsoll inspect``: a broker's log directory, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands.main import main
from tests.evidence.folders import batch, values
from tests.kafka_files.written import message


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log directory with one replica, whose second batch does not match its CRC."""
    folder = tmp_path / "data" / "orders-0"
    folder.mkdir(parents=True)
    (folder / "00000000000000000000.log").write_bytes(batch(0, values(0, 1)) + batch(2, values(2))[:-1] + b"\xff")
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return tmp_path / "data"


def test_a_problem_is_shown_and_ends_with_1(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A problem is shown with segment, byte and offset, and exits with 1; an intact segment exits with 0."""
    assert main(["inspect", str(log_dir)]) == 1
    out = capsys.readouterr().out
    assert "orders-0: 1 segment" in out
    assert "00000000000000000000.log, byte 279, offset 2: bad crc" in out
    assert out.endswith("1 replica, 1 problem, 0 notes.\n")

    (log_dir / "orders-0" / "00000000000000000000.log").write_bytes(batch(0, values(0, 1)))
    assert main(["inspect", str(log_dir)]) == 0


def test_json_has_each_replica_and_finding(log_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """``--json`` prints one object on stdout with each replica and finding, and the text on stderr."""
    assert main(["inspect", str(log_dir), "--json"]) == 1
    told = json.loads(capfd.readouterr().out)

    (replica,) = told["replicas"]
    (finding,) = replica["findings"]
    assert (replica["records"], replica["end_offset"], told["problems"]) == (2, 2, 1)
    assert (told["notes"], replica["kinds"]) == (0, {"bad crc": 1})
    assert (finding["position"], finding["offset"], finding["is_problem"]) == (279, 2, True)


def test_findings_that_are_alike_are_shown_ten_times(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind of finding is shown at most ten times; the rest is counted."""
    file = log_dir / "orders-0" / "00000000000000000000.log"
    damaged = [batch(at, values(at))[:-1] + b"\xff" for at in range(12)]
    file.write_bytes(b"".join(damaged) + batch(12, values(12)) + bytes(70))
    assert main(["inspect", str(log_dir)]) == 1
    out = capsys.readouterr().out
    assert out.count("bad crc") == 10
    assert "and 2 more of this kind" in out
    assert out.endswith("70 bytes are zeros, as of a preallocated segment\n\n1 replica, 12 problems, 1 note.\n")

    file.write_bytes(b"".join(damaged[:10]) + batch(12, values(12)))
    assert main(["inspect", str(log_dir)]) == 1
    assert "more of this kind" not in capsys.readouterr().out


def test_a_log_of_one_offset_and_its_formats(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log with one offset shows no range; formats are listed, and old ones are counted without being read."""
    file = log_dir / "orders-0" / "00000000000000000000.log"
    file.write_bytes(batch(0, values(0)))
    main(["inspect", str(log_dir)])
    assert "1 record, offset 0\n" in capsys.readouterr().out

    unknown = bytearray(batch(0, values(0, 1)))
    unknown[16] = 3
    file.write_bytes(bytes(unknown) + batch(2, values(2)))
    main(["inspect", str(log_dir)])
    assert "1 in format 2, 1 in format 3\n" in capsys.readouterr().out

    file.write_bytes(message(0, b"tiny", magic=1))
    main(["inspect", str(log_dir)])
    assert "1 in format 1; the records of formats 0 and 1 are counted, not read\n" in capsys.readouterr().out


def test_what_is_no_log_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that is no log directory exits with 3 and one sentence on stderr."""
    assert main(["inspect", str(tmp_path / "none")]) == 3
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "does not exist; name a log directory" in err
