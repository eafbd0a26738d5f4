"""``python -m commands``, which the launcher ``./plimsoll`` runs."""

import sys

from commands.main import main

sys.exit(main())
