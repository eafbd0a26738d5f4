"""Start the judge: ``spark-submit spark/application.py job|cluster_job RUN [RUN …]``."""

from __future__ import annotations

import sys
from importlib import import_module

from spark.installed import prefer_installed

if __name__ == "__main__":
    prefer_installed()
    import_module(f"spark.{sys.argv[1]}").main(sys.argv[2:])
