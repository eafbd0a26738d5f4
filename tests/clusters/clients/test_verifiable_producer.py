"""Kafka's VerifiableProducer as the load: its output lines become the ledger."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from clusters.clients.configs import VerifiableProducerConfig
from clusters.clients.ledger import About, Ledger, sends_of
from clusters.clients.verifiable_producer import ToolOutput, command, partition_of, properties
from clusters.kafka.properties import read_properties, render
from clusters.paths import ROOT
from clusters.waiting import wait_until
from history.errors import HarnessError
from history.tables import SENDS

# Where the partitioner of Kafka's own client put the keys 0 to 9 of a topic with three partitions.
OF_KEYS = [2, 0, 2, 2, 1, 0, 1, 0, 0, 2]


def config(tmp_path: Path, **other: Any) -> VerifiableProducerConfig:
    """Return the configuration of a load with three partitions."""
    told: dict[str, Any] = {
        "client_id": "verifiable-1",
        "out": str(tmp_path),
        "summary": str(tmp_path / "producer.json"),
        "bootstrap": ["a:9092", "b:9092"],
        "topic": "orders",
        "partitions": 3,
        "rate_per_s": 200.0,
        "record_bytes": 100,
        "engine": "java",
        "java": "/jdk/bin/java",
        "jars": "/jars",
    }
    return VerifiableProducerConfig(**told | other)


def success(seq: int, offset: int, **other: Any) -> str:
    """Return the output line of an acknowledged record."""
    row = {"timestamp": 1, "name": "producer_send_success", "key": str(seq), "value": f"1.{seq}", "topic": "orders"}
    return json.dumps({**row, "partition": partition_of(seq, 3), "offset": offset, **other})


def failure(seq: int) -> str:
    """Return the output line of a failed send; it has no partition."""
    exception = "class org.apache.kafka.common.errors.TimeoutException"
    row = {"timestamp": 1, "name": "producer_send_error", "key": str(seq), "value": f"1.{seq}", "topic": "orders"}
    return json.dumps({**row, "exception": exception, "message": "Expiring 3 record(s)"})


def counts(sent: int) -> str:
    """Return the last line of a stopped tool: its counts."""
    return json.dumps({"timestamp": 1, "name": "tool_data", "sent": sent, "acked": 1})


def ledger_of(tmp_path: Path, *lines: str) -> list[dict[str, Any]]:
    """Return the ledger's rows after the tool printed these lines, the n-th at n ns, and ended."""
    own = config(tmp_path)
    with Ledger(own.stream("sends"), About("verifiable-1", "orders", "all", may_have_retried=True)) as ledger:
        told = ToolOutput(own, ledger)
        for n, line in enumerate(lines, start=1):
            told.read(line, n)
        told.end()
    return pa.Table.from_batches(sends_of(own.stream("sends")), SENDS).to_pylist()


def test_a_line_is_a_row(tmp_path: Path) -> None:
    """An acknowledged line becomes a row with the time when it was read; the tool reports no other times."""
    (row,) = ledger_of(tmp_path, success(0, 7), counts(1))

    assert row == {
        "producer_id": "verifiable-1",
        "seq": 0,
        "topic": "orders",
        "partition": partition_of(0, 3),
        "due_ns": None,
        "sent_ns": None,
        "done_ns": 1,
        "outcome": "ok",
        "error": None,
        "offset": 7,
        "acks": "all",
        "record_bytes": 3,
        "transaction": None,
    }


def test_an_error_is_unknown_in_the_partition_of_its_key(tmp_path: Path) -> None:
    """A failed send is info, in the partition of its key: an earlier attempt may have been appended."""
    (row,) = ledger_of(tmp_path, failure(0), counts(1))

    assert (row["outcome"], row["error"], row["partition"]) == ("info", "TimeoutException", partition_of(0, 3))


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        ([success(0, 0), success(2, 1), counts(4)], [(0, "ok"), (2, "ok"), (1, "info"), (3, "info")]),
        ([success(2, 1), success(0, 0)], [(2, "ok"), (0, "ok"), (1, "info")]),
        ([success(0, 0), success(1, 0), counts(2)], [(0, "ok"), (1, "ok")]),
        ([], []),
    ],
)
def test_what_was_sent_for_certain_has_a_row(tmp_path: Path, lines: list[str], rows: list[tuple[int, str]]) -> None:
    """Every record that was certainly sent has a row: all by a stopped tool's count, or all below the last line."""
    assert [(row["seq"], row["outcome"]) for row in ledger_of(tmp_path, *lines)] == rows


def test_what_is_no_line_of_the_tool_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A line in another format is logged; newer releases print warnings between their lines."""
    assert ledger_of(tmp_path, "Option --producer.config has been deprecated", "7", "{}", counts(0)) == []
    assert "has been deprecated" in caplog.text


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (success(0, 0, partition=(partition_of(0, 3) + 1) % 3), "Record 0 went to partition"),
        (success(0, 0, value="seven"), "the value 'seven', which has no number"),
    ],
)
def test_a_line_that_cannot_be_ends_the_client(tmp_path: Path, line: str, why: str) -> None:
    """A partition that contradicts the key ends the client: partitions of failed sends would be guesses."""
    with pytest.raises(HarnessError, match=why):
        ledger_of(tmp_path, line)


def test_a_key_says_the_partition() -> None:
    """Keys map to the same partitions as with Kafka's own client, and repeat after a thousand."""
    assert [partition_of(seq, 3) for seq in range(10)] == OF_KEYS
    assert partition_of(1007, 3) == partition_of(7, 3)


def test_the_tool_gets_the_loads_settings(tmp_path: Path) -> None:
    """The tool gets the load's settings, including retries, whose default in the tool is none."""
    own = config(tmp_path, acks="1", idempotence=False, retries=5)
    words = command(own, tmp_path / "p.properties")

    assert properties(own).items() >= {"acks": "1", "enable.idempotence": "false", "retries": 5}.items()
    assert words[words.index("--throughput") + 1] == "200"
    assert words[words.index("-cp") + 1] == "/jars/*"


TOOL = """#!/bin/sh
trap 'cat counts; exit 143' TERM
cat lines
while :; do sleep 0.01; done
"""


def started(tmp_path: Path, script: str, **other: Any) -> subprocess.Popen[bytes]:
    """Start the client with a shell script in place of Java."""
    (tmp_path / "lines").write_text(f"{success(0, 0)}\n")
    (tmp_path / "counts").write_text(f"{counts(2)}\n")
    tool = tmp_path / "java"
    tool.write_text(script)
    tool.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    file = tmp_path / "config.json"
    file.write_text(config(tmp_path, java=str(tool), **other).to_json())
    return subprocess.Popen(
        [sys.executable, "-m", "clusters.clients.verifiable_producer", str(file)], cwd=tmp_path, env=environment
    )


def summary(tmp_path: Path) -> dict[str, Any]:
    """Return the client's summary."""
    file = tmp_path / "producer.json"
    return dict(json.loads(file.read_text())) if file.exists() else {"ready_ns": None}


def test_a_value_bears_the_producers_own_prefix(tmp_path: Path) -> None:
    """Each tool has its own value prefix, so records of several producers differ; the ledger counts it in the size."""
    own = config(tmp_path, client_id="verifiable-12", value_prefix=12)
    about = About("verifiable-12", "orders", "all", may_have_retried=True)
    with Ledger(own.stream("sends"), about) as ledger:
        ToolOutput(own, ledger).read(success(7, 0, value="12.7"), 5)

    given = command(own, tmp_path / "settings")
    assert given[given.index("--value-prefix") + 1] == "12"
    (row,) = pa.Table.from_batches(sends_of(own.stream("sends")), SENDS).to_pylist()
    assert (row["producer_id"], row["seq"], row["record_bytes"]) == ("verifiable-12", 7, 4)


def test_sigterm_ends_the_tool_and_then_the_client(tmp_path: Path) -> None:
    """SIGTERM ends the tool, then the client; the client is ready at the first acknowledgement and ends cleanly."""
    client = started(tmp_path, TOOL)
    wait_until(lambda: summary(tmp_path)["ready_ns"], limit_s=30, what="the first acknowledgement")
    client.send_signal(signal.SIGTERM)

    assert client.wait(30) == 0
    told = summary(tmp_path)
    assert (told["clean"], told["rows"], told["acked"], told["indeterminate"]) == (True, 2, 1, 1)


def test_a_tool_that_ends_by_itself_leaves_no_clean_summary(tmp_path: Path) -> None:
    """If the tool ends by itself, the summary is not clean: the number of sent records is unknown."""
    assert started(tmp_path, "#!/bin/sh\ncat lines\nexit 1\n").wait(30) == 1
    assert summary(tmp_path)["clean"] is False


def test_the_tool_logs_in_by_the_clients_properties(tmp_path: Path) -> None:
    """The tool runs in their folder with their security settings, which keep the reference to the secret."""
    access = tmp_path / "security" / "client.properties"
    access.parent.mkdir()
    (access.parent / "password").write_text("s3cret")
    jaas = 'PlainLoginModule required username="ann" password="${directory:.:password}";'
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    access.write_text(render(login | {"client.id": "theirs"}))
    assert started(tmp_path, f"#!/bin/sh\npwd >{tmp_path}/pwd\nexit 1\n", access=str(access)).wait(30) == 1

    settings = tmp_path / "producer.properties"
    assert read_properties(settings).items() >= (login | {"client.id": "verifiable-1"}).items()
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert (tmp_path / "pwd").read_text() == f"{access.parent}\n"


def test_a_tool_dies_with_its_client(tmp_path: Path) -> None:
    """The tool dies with its client, so that it writes no record without a ledger row."""
    client = started(tmp_path, TOOL.replace("cat lines", "echo $$ >pid; cat lines"))
    wait_until(lambda: summary(tmp_path)["ready_ns"], limit_s=30, what="the first acknowledgement")
    tool = int((tmp_path / "pid").read_text())
    client.kill()
    client.wait(30)

    wait_until(lambda: not _lives(tool), limit_s=10, what="the tool to end")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
