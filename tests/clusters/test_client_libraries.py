"""The client libraries for nodes."""

from __future__ import annotations

import pytest

from clusters.client_libraries import LIBRARIES, locked_requirements
from clusters.paths import ROOT
from history.errors import HarnessError

LOCK = """\
# written by a tool
kafka-python==3.0.1 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via plimsoll
kafka-python-ng==9.9.9 \\
    --hash=sha256:cc
pyarrow==26.0.1 ; python_version >= "3.11" \\
    --hash=sha256:dd
"""


def test_a_package_keeps_its_version_and_hashes() -> None:
    """Neither its comments nor a package of a longer name come along."""
    assert locked_requirements(LOCK, ("kafka-python",)) == (
        "kafka-python==3.0.1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
    )


def test_packages_come_in_the_order_asked_for() -> None:
    """A marker stays with its package."""
    wanted = locked_requirements(LOCK, ("pyarrow", "kafka-python-ng"))

    assert [line for line in wanted.splitlines() if not line.startswith(" ")] == [
        'pyarrow==26.0.1 ; python_version >= "3.11" \\',
        "kafka-python-ng==9.9.9 \\",
    ]


def test_a_package_that_is_not_locked_is_told() -> None:
    """The sentence says which, and what to do."""
    with pytest.raises(HarnessError, match=r"requirements\.lock has no confluent-kafka; run `make lock`"):
        locked_requirements(LOCK, ("kafka-python", "confluent-kafka"))


def test_the_projects_lock_has_them_all() -> None:
    """Each with at least one hash, as the installer demands."""
    lock = (ROOT / "requirements.lock").read_text()

    assert all("--hash=sha256:" in locked_requirements(lock, (name,)) for name in LIBRARIES)
