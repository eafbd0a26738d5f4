"""A soak or fuzzing with a changed fault mix; a fake command records its call."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.acceptance import fault_mixes

NOTES = '#!/bin/sh\necho "$PLIMSOLL_RUNS $*"\nexit 2\n'


def test_the_mix_is_changed_and_the_rest_is_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The changed mix keeps the other settings; a second try appends to the log, and the exit code is returned."""
    (tmp_path / "plimsoll").write_text(NOTES)
    (tmp_path / "plimsoll").chmod(0o755)
    monkeypatch.setattr(fault_mixes, "ROOT", tmp_path)
    mix = tmp_path / "mix.yaml"
    mix.write_text("cluster: {brokers: 3}\nquiet: 1s..2s\n")
    folder = tmp_path / "cache" / "one"

    codes = [fault_mixes.play("fuzz", folder, mix, {"cluster": {"elr": False}}, ["--seed", "7"]) for _ in range(2)]

    assert codes == [2, 2]
    changed = tmp_path / "cache" / "one.yaml"
    assert yaml.safe_load(changed.read_text()) == {"cluster": {"brokers": 3, "elr": False}, "quiet": "1s..2s"}
    called = f"{folder / 'runs'} fuzz --fault-mix {changed} --seed 7\n"
    assert (tmp_path / "cache" / "one.log").read_text() == called * 2
