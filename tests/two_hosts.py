"""Network namespaces of this host that stand for hosts: own loopback, processes' list of runs, and no shared folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from clusters.run.host import HOST

NETWORK = "10.213.77"
CENTRE = f"{NETWORK}.1"  # of the host on which the tests run


@dataclass
class Host:
    """A namespace with its own folder; ``hidden`` are the folders of other hosts."""

    name: str
    folder: Path
    hidden: tuple[Path, ...]
    sessions: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a command; its output is in the host's folder."""
        mounts = [f"mount -t tmpfs -o mode=1777 none {folder}" for folder in (HOST, *self.hidden)]
        script = " && ".join(["mount --make-rprivate /", *mounts, 'exec "$@"'])
        words = ["ip", "netns", "exec", self.name, "unshare", "--mount", "sh", "-c", script, "sh", *command]
        with (self.folder / "log").open("ab") as log:
            started = subprocess.Popen(
                words, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.sessions.append(started)

    def kill(self) -> None:
        """Kill all that was started, and what that started in other sessions."""
        found = subprocess.run(["ip", "netns", "pids", self.name], check=True, capture_output=True, text=True)
        for pid in map(int, found.stdout.split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for started in self.sessions:
            started.wait()
        self.sessions.clear()


@contextmanager
def hosts(*names: str) -> Iterator[dict[str, Host]]:
    """Yield hosts on a bridge with this one; remove them afterwards."""
    bridge, folder = "plimsoll-two", Path(tempfile.mkdtemp(prefix="two-hosts-", dir="/var/tmp"))
    folder.chmod(0o755)
    HOST.mkdir(mode=0o1777, exist_ok=True)  # a place to mount on
    folders = {name: folder / name for name in names}
    with ExitStack() as ended:
        ended.callback(shutil.rmtree, folder, ignore_errors=True)
        _ip(f"link add {bridge} type bridge")
        ended.callback(_ip, f"link delete {bridge}")
        _ip(f"address add {CENTRE}/24 dev {bridge}")
        _ip(f"link set {bridge} up")
        found = {}
        for number, (name, own) in enumerate(folders.items(), start=2):
            own.mkdir()
            ended.callback(_ip, f"netns delete {name}")
            _ip(f"netns add {name}")
            _ip(f"link add {name} type veth peer name eth0 netns {name}")
            ended.callback(_ip, f"link delete {name}")  # else the kernel removes it later
            _ip(f"link set {name} master {bridge} up")
            for change in (f"address add {NETWORK}.{number}/24 dev eth0", "link set eth0 up", "link set lo up"):
                _ip(f"-netns {name} {change}")
            found[name] = Host(name, own, tuple(each for each in folders.values() if each != own))
            ended.callback(found[name].kill)
        yield found


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)
