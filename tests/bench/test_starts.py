"""Starts that fail half-way: the quick ones for real, and what counts as wrong of a row."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from bench.starts import STARTS, Start, attempt, row, sentence, wrong

START = Start("x", ":", "disk is full; make room")
ROW: dict[str, Any] = {"exit_code": 2, "sentence": "The disk is full; make room.", "stderr": "", "left": []}


def has_namespaces() -> bool:
    """Whether this user may make the worlds in which starts fail."""
    overlay = "lowerdir=/usr,upperdir=/mnt/upper,workdir=/mnt/work"
    mounts = f"mount -t tmpfs x /mnt && mkdir /mnt/upper /mnt/work && mount -t overlay -o {overlay} x /usr"
    tried = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--mount-proc", "sh", "-c", mounts]
    return os.getuid() == 0 and subprocess.run(tried, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_namespaces(), reason="this user makes no namespaces")
@pytest.mark.parametrize("start", [start for start in STARTS if start.is_quick], ids=lambda start: start.name)
def test_a_start_that_fails_says_what_to_do_and_leaves_nothing(start: Start) -> None:
    """The real command, where a port, a lock, the disk, the network or Python's venv is missing."""
    found = attempt(start)

    assert (found["exit_code"], wrong(start, found)) == (start.code, []), found["stderr"]


def test_names_are_unique() -> None:
    """A row is found by its start's name."""
    assert len({start.name for start in STARTS}) == len(STARTS)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, []),
        ({"exit_code": 1}, ["exit code 1 instead of 2"]),
        ({"exit_code": None}, ["exit code None instead of 2"]),
        ({"sentence": "The disk is full."}, ["its sentence does not tell 'disk is full; make room'"]),
        ({"stderr": "Traceback (most recent call last):"}, ["a traceback"]),
        ({"left": ["links: br0"]}, ["links: br0"]),
    ],
)
def test_what_is_wrong_with_a_row(change: dict[str, Any], complaint: list[str]) -> None:
    """Each by itself."""
    assert wrong(START, ROW | change) == complaint


def test_what_a_run_names_it_may_keep() -> None:
    """A run that has begun keeps its folder; one that was refused keeps none, and no other file may stay."""
    folder, other = "files: /mnt/world/runs/20261125-a", "files: /tmp/plimsoll-x"

    assert row(START, 2, "[00:01] x\nrun: /mnt/world/runs/20261125-a\n", "", [folder, other])["left"] == [other]
    assert row(START, 2, "", "", [folder, other])["left"] == [folder, other]
    assert row(START, 2, "", "", ["files: /srv/.cache/kafka/.4.3.1.lock"])["left"] == []


def test_the_sentence_is_what_is_said_last() -> None:
    """Without what was fetched before."""
    assert sentence("fetching Kafka 4.3.1, once\nThe disk is full.\nMake room.\n") == "The disk is full. Make room."
    assert sentence("") == ""
