"""Fuzzing: what its inputs begin with, and how minutes add up; atheris itself is not needed."""

from __future__ import annotations

import sys

import pytest

from tests.bad_input.fuzz_files import TARGETS, added, uses_cpu_for


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_reads_its_own_seeds(name: str) -> None:
    """Each reader takes the files from which its inputs are made, and these cut in half, and nothing at all."""
    target = TARGETS[name]
    seeds = target.seeds()

    assert seeds
    for seed in seeds:
        target.read(seed)
        target.read(seed[: len(seed) // 2])
    target.read(b"")


def test_minutes_add_up_until_a_crash() -> None:
    """Counts of a target are summed over calls; a crash sets the clean minutes back to none."""
    row = {"target": "a", "minutes": 2.0, "inputs": 10, "crashes": 0, "corpus": 3, "date": "2026-01-01"}
    once = added([], row)
    twice = added(once, {**row, "corpus": 4})
    crashed = added(twice, {**row, "crashes": 1})

    assert [(each["minutes"], each["clean_minutes"], each["corpus"]) for each in twice] == [(4.0, 4.0, 4)]
    assert [(each["minutes"], each["clean_minutes"], each["crashes"]) for each in crashed] == [(6.0, 0.0, 1)]
    assert len(added(twice, {**row, "target": "b"})) == 2


def test_who_waits_for_the_cpu_does_not_use_it() -> None:
    """A loop without end does; what sleeps for longer than the limit, or fails, does not."""

    def uses(code: str) -> bool:
        return uses_cpu_for(1, [sys.executable, "-c", code])

    assert uses("while True: pass")
    assert not uses("import time; time.sleep(1.3)")
    assert not uses("raise ValueError")
