"""Out-of-memory kills are reported."""

from pathlib import Path

import pytest

from service import memory


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ("oom_kill 2", ""),
        ("oom_kill 3", "the kernel ended 1 process of this host"),
        ("oom_kill 4", "the kernel ended 2 processes of this host"),
        ("pgfault 9", ""),
    ],
)
def test_what_the_kernel_ended_meanwhile_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: str, told: str
) -> None:
    """Processes that the kernel killed since the start are counted; without the counter nothing is reported."""
    monkeypatch.setattr(memory, "VMSTAT", tmp_path / "vmstat")
    (tmp_path / "vmstat").write_text(f"nr_free_pages 1\n{now}\nswap_ra 0\n")
    sentence = memory.memory_ran_out(2)

    assert told in sentence
    assert bool(sentence) == bool(told)


def test_this_kernel_counts() -> None:
    """Linux has this counter since 4.13."""
    assert "oom_kill " in memory.VMSTAT.read_text()
