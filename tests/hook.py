"""A hook for brokers of tests/own_cluster.py: ``hook.py FOLDER ACTION BROKER``, as an operator's script would be.

Actions: kill, stop, start, pause, resume; logs; segments, with a target; bounce kills and starts again after 3 s;
kill_next kills another broker; fail exits with 1, lie does nothing, hang never ends.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SIGNALS = {"kill": "SIGKILL", "bounce": "SIGKILL", "stop": "SIGTERM", "pause": "SIGSTOP", "resume": "SIGCONT"}
BROKERS = 3


def main(folder: str, action: str, broker: str, target: str = "") -> int:
    """Perform the action; return the exit code."""
    if action == "logs":
        print((Path(folder) / f"broker-{broker}.log").read_text())
        return 0
    print(f"{action} {broker}")
    if action == "segments":
        shutil.copytree(Path(folder) / f"data-{broker}", target, dirs_exist_ok=True)
    if action == "fail":
        return 1
    if action == "hang":
        time.sleep(600)
    if action in SIGNALS:
        send(Path(folder), broker, SIGNALS[action])
    if action == "kill_next":
        send(Path(folder), str(int(broker) % BROKERS + 1), "SIGKILL")
    if action == "start":
        start(Path(folder), broker)
    if action == "bounce":
        start_later = f"sleep 3; exec {sys.executable} {__file__} {folder} start {broker}"
        subprocess.Popen(["sh", "-c", start_later], stdout=subprocess.DEVNULL, start_new_session=True)
    return 0


def send(folder: Path, broker: str, name: str) -> None:
    """Send a signal to a broker."""
    with suppress(ProcessLookupError):
        os.kill(json.loads(noted(folder, broker).read_text())["pid"], signal.Signals[name])


def start(folder: Path, broker: str) -> None:
    """Start a broker unless it runs; its process outlives the hook."""
    known = json.loads(noted(folder, broker).read_text())
    if runs(known["pid"]):
        return
    with (folder / f"broker-{broker}.log").open("ab") as log:
        process = subprocess.Popen(known["command"], stdout=log, stderr=log, start_new_session=True)
    noted(folder, broker).write_text(json.dumps({**known, "pid": process.pid}))


def runs(pid: int) -> bool:
    """Return whether a process runs; one that nobody has waited for does not."""
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def noted(folder: Path, broker: str) -> Path:
    """Return the file with a broker's command and process id."""
    return folder / f"broker-{broker}.json"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
