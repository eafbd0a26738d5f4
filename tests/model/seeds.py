"""Where a series of seeds begins: new each time, unless the environment names a seed."""

from __future__ import annotations

import os

SEED = "PLIMSOLL_MODEL_SEED"
FRESH = 32  # histories that a run of the test suite tries


def fresh_seed() -> int:
    """Return the seed that the environment names, or a new one."""
    return int(os.environ.get(SEED) or int.from_bytes(os.urandom(4)))
