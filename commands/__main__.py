"""``python -m commands``, which the launcher ``./plimsoll`` runs."""

import sys
import traceback

try:
    from commands.main import main

    code = main()
except Exception:  # noqa: BLE001  # Python's own exit code, 1, says that a guarantee was violated
    traceback.print_exc()
    code = 2  # unknown
sys.exit(code)
