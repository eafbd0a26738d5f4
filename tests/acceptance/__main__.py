"""Run an experiment whose rows a page shows: ``python -m tests.acceptance NAME …``; without a name, list them.

They take minutes to hours, and most need a host without other runs. ``world.sh`` gives each a host of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from history.errors import BadInput
from history.exit_codes import BAD_INPUT

NAMES = (
    *("kills", "starts", "under_airflow", "side_by_side", "soak", "schedules", "flakiness"),
    *("reliability", "matrix", "injected", "comparisons", "nightly_runs", "slow_build", "requests"),
    "profiles",
)


def main(arguments: Sequence[str]) -> int:
    """Run an experiment with its own arguments.

    Raises:
        BadInput: there is no such experiment.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        for name in NAMES:
            words = (import_module(f"tests.acceptance.{name}").__doc__ or "").splitlines()[0]
            print(f"{name:<14}{words}")
        return 0
    name, *own = arguments
    if name not in NAMES:
        raise BadInput(f"There is no experiment {name!r}; known: {', '.join(NAMES)}.")
    code: int = import_module(f"tests.acceptance.{name}").main(own)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BadInput as error:
        print(error, file=sys.stderr)
        sys.exit(BAD_INPUT)
